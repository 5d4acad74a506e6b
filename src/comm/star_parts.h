// Messages and helpers of a star's handshake, for both ends. Internal to star*.c.
//
// A visitor sends a hello, the hub a challenge, the visitor its proof, and the hub one welcome: it lets the visitor in
// and proves itself, or says why not.
#ifndef COMM_STAR_PARTS_H
#define COMM_STAR_PARTS_H

#include "comm/star.h"
#include <stddef.h>

enum { HELLO_MAGIC = 0x62766a33, NONCE_BYTES = 32, PROOF_BYTES = 32 };

struct hello {
    uint32_t magic, size, rank;
    unsigned char nonce[NONCE_BYTES];
};

struct challenge {
    uint32_t magic;
    unsigned char nonce[NONCE_BYTES];
    char note[STAR_NOTE_BYTES];  // the file that has a part of the key, "" for none
};

struct welcome {
    uint32_t magic, is_refused;
    char reason[120];
    unsigned char proof[PROOF_BYTES];  // zero if refused
};

enum star_side { STAR_VISITOR = 'v', STAR_HUB = 'h' };
// Proves that this side knows the key, for this handshake only.
void star_prove(const unsigned char *key, enum star_side side, const struct hello *hello,
                const struct challenge *challenge, unsigned char proof[PROOF_BYTES]);
// Constant time, so that timing does not reveal where they differ.
bool star_same_proof(const unsigned char *a, const unsigned char *b);
// Random bytes, never used before; false if the system has none.
bool star_make_nonce(unsigned char nonce[NONCE_BYTES]);
// Mixes the secret in the file that the hub names into the key. Sets an error and returns 1 if the file is not there
// yet, -1 if it cannot or must not be read.
int star_secret_take(const struct star_secret *secret, const char *note, unsigned char key[STAR_KEY_BYTES]);

void star_open(struct star *star, const struct star_options *options);
// The error, from errno, for a socket that could not be created.
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
