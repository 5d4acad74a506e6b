// What the two ends of a star's handshake share. Internal to star*.c.
//
// A visitor sends a hello, and the hub answers with one welcome: it lets the visitor in, or says why not.
#ifndef COMM_STAR_PARTS_H
#define COMM_STAR_PARTS_H

#include "comm/star.h"
#include <stddef.h>

enum { HELLO_MAGIC = 0x62766a32 };

struct hello {
    uint32_t magic, size, rank;
    unsigned char token[STAR_TOKEN_BYTES];
};

struct welcome {
    uint32_t magic, is_refused;
    char reason[120];
};

void star_open(struct star *star, const struct star_options *options);
// The error for a socket that the system did not give, by errno.
int star_no_socket(const char *name);
void star_describe(const struct sockaddr_storage *address, char *text, size_t size);
// Non-blocking, closed on exec, without delays.
void star_prepare_socket(int fd);

// When a wait deserves a log line: after some seconds, after a quarter of a short deadline, and then whenever it has
// doubled.
struct wait_note {
    double began, next;
};
struct wait_note star_begin_wait(const struct star_options *options, double first);
bool star_is_note_due(struct wait_note *note, double now);

#endif
