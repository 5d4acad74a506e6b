// Processes joined by sockets: the first is the hub and holds a connection to each of the others. Under launchers
// without MPI, the star carries a few numbers at a time, ids and decisions, never tensors.
//
// A process that joins says the protocol, the number of processes and its own number. It and the hub then prove to each
// other that they know the job's key, which is never sent: each answers with an HMAC of random numbers of both. The hub
// rejects visitors that do not match and says why. Every wait has a deadline.
//
// If the launcher gave no secret, strangers could guess the key. It is then mixed with one that the hub leaves in a
// file that all processes of the job, and no other user, can read.
#ifndef COMM_STAR_H
#define COMM_STAR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

enum { STAR_KEY_BYTES = 32, STAR_NOTE_BYTES = 192, STAR_MAX_SIZE = 1 << 16 };

// Location of the hub's file.
struct star_secret {
    const char *folder;          // NULL for none
    bool is_public;              // strangers may create files there: only this user's files count
    char note[STAR_NOTE_BYTES];  // on the hub: the file's name; "" if there is none
};

struct star_options {
    const char *name;  // of the star, for messages
    int rank, size;
    unsigned char key[STAR_KEY_BYTES];  // the same for all processes of a job, and for no other
    struct star_secret secret;
    double deadline_seconds;
};

struct star_link {
    int socket;  // -1 if there is none
    struct sockaddr_storage address;
};

struct star {
    char *name;
    int rank, size;
    unsigned char key[STAR_KEY_BYTES];  // mixed with the hub's file
    struct star_link *links;            // on the hub: one per rank, its own empty; elsewhere: links[0] leads to the hub
};

// Opens a socket that listens on the interface with this address (port 0: any free one) and returns its port.
int star_listen(const struct sockaddr_storage *address, int *listener, int *port);
// The address of a host name and port. With `is_own`, the address of this machine that leads there, since the names
// given to jobs may be those of a proxy.
int star_resolve(const char *host, int port, bool is_own, struct sockaddr_storage *address);
struct sockaddr_storage star_with_port(const struct sockaddr_storage *address, int port);

// For the hub, before it gathers: leaves a secret in the folder, if there is one, and mixes it into the key. The file
// is removed by star_secret_remove.
int star_secret_leave(struct star_options *options);
void star_secret_remove(struct star_secret *secret);

// For the hub: waits for all others on the listener, which stays open.
int star_gather(struct star *star, const struct star_options *options, int listener);
// For the others: connect to the hub, waiting until it is there.
int star_join(struct star *star, const struct star_options *options, const struct sockaddr_storage *hub);
void star_close(struct star *star);

// An exchange of `count` numbers: every rank contributes some and receives all. `values` stays the caller's and holds
// the result once star_test returns true. A peer that is gone, or that asks for something else, ends the job.
enum star_result {
    STAR_MAX,   // the largest of each
    STAR_FROM,  // those of rank `root`
    STAR_ROWS   // every rank's own, [firsts[rank], firsts[rank + 1]); see star_start_rows
};
struct star_exchange;
struct star_exchange *star_start(struct star *star, enum star_result result, int root, int64_t *values, int count);
struct star_exchange *star_start_rows(struct star *star, int64_t *values, const int *firsts);  // read at the start
bool star_test(struct star_exchange *exchange);  // true: done, and the exchange is freed

// Messages and helpers of a star's handshake, for both ends. Internal to star*.c.
//
// A visitor sends a hello, the hub a challenge, the visitor its proof, and the hub one welcome: it lets the visitor in
// and proves itself, or says why not.
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
