// Some processes and the sockets between them: the first is the hub and holds one to each of the others. It carries
// what a launcher without MPI leaves open: a few numbers at a time, ids and decisions, never tensors.
//
// Who joins says a token of the job, the protocol, how many there are and which one it is; the hub turns away what does
// not fit and says why. All waiting has a deadline.
#ifndef COMM_STAR_H
#define COMM_STAR_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

enum { STAR_TOKEN_BYTES = 32, STAR_MAX_SIZE = 1 << 16 };

struct star_options {
    const char *name;  // of what is joined, for messages
    int rank, size;
    unsigned char token[STAR_TOKEN_BYTES];  // the same for all processes of a job, and of no other
    double deadline_seconds;
};

struct star_link {
    int socket;  // -1 where there is none
    struct sockaddr_storage address;
};

struct star {
    char *name;
    int rank, size;
    struct star_link *links;  // of the hub: one per rank, its own empty; of the others: links[0] leads to the hub
};

// A socket that listens on the interface with this address (port 0: any free one); the port it got.
int star_listen(const struct sockaddr_storage *address, int *listener, int *port);
// The address of a host name and port; where `is_own`, one of this machine's own: the one that leads there, since names
// given to jobs may be those of a proxy.
int star_resolve(const char *host, int port, bool is_own, struct sockaddr_storage *address);
struct sockaddr_storage star_with_port(const struct sockaddr_storage *address, int port);

// The hub: waits for all others on the listener, which stays open.
int star_gather(struct star *star, const struct star_options *options, int listener);
// The others: go to the hub, waiting until it is there.
int star_join(struct star *star, const struct star_options *options, const struct sockaddr_storage *hub);
void star_close(struct star *star);

// An exchange in which every rank gives `count` numbers and gets the result back. `values` stays the caller's and holds
// the result when star_test says true. A peer that is gone, or that asks for something else, ends the job.
enum star_result { STAR_MAX, STAR_FROM };  // the largest of each; those of rank `root`
struct star_exchange;
struct star_exchange *star_start(struct star *star, enum star_result result, int root, int64_t *values, int count);
bool star_test(struct star_exchange *exchange);  // true: done, and the exchange is freed

#endif
