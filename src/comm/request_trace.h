// Collectives in a trace (base/trace.h): each is a span of its own, from its start to its end, and the wait for it is
// one on the track of the waiter, the host or the device.
#ifndef COMM_REQUEST_TRACE_H
#define COMM_REQUEST_TRACE_H

#include "comm/comm.h"

// The host has waited for a request.
void request_trace(const struct comm_request *request, double began, double ended);
// Makes the device wait, between two stamps if there is a trace; false if the wait is recorded, see backend.h.
bool request_order(struct comm_request *request);

#endif
