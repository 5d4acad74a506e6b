// A page of another site that a user's browser has open can send requests to this machine, and read the answers if the
// attacker's DNS lets its own name point here. Such a request has that name in its Host header.
#ifndef REPORT_HOST_HEADER_H
#define REPORT_HOST_HEADER_H

#include <stdbool.h>

// localhost, 127.0.0.0/8 or ::1.
bool host_is_loopback(const char *address);
// Whether the header, with or without a port, names this machine or `own`; NULL for none of either.
bool host_header_is_ours(const char *own, const char *header);

#endif
