// Messages between two neighbouring stages, in one direction: a ring of buffers over a link of the mesh. What is sent
// is copied into a buffer first, and a message is received before it is asked for, so neither side waits for the
// other's next move: every schedule of parallel/schedule.h runs to its end over channels with room for one message.
#ifndef STEP_CHANNEL_H
#define STEP_CHANNEL_H

#include "comm/comm.h"
#include "tensor/arena.h"

enum { CHANNEL_BUFFERS = 2 };

struct channel {
    struct group *group;                     // its first rank sends, its second receives; NULL on paper
    struct tensor buffers[CHANNEL_BUFFERS];  // (elements of the longest message)
    struct comm_request requests[CHANNEL_BUFFERS];
    int64_t started, finished;  // messages so far
    const char *name;
};

// Takes the buffers; with 0 elements there are none, and nothing may be sent.
void channel_lay_out(struct channel *channel, struct arena *arena, enum dtype dtype, int64_t elements);

// Sending: the buffer for the next message, which may be written now, then off with its first `count` elements.
struct tensor channel_outgoing(struct channel *channel);
void channel_send(struct channel *channel, int64_t count);
// Waits until everything sent has left its buffer.
void channel_flush(struct channel *channel);

// Receiving: a message of `count` elements will come; told in the order in which they do, while there is room.
bool channel_has_room(const struct channel *channel);
void channel_expect(struct channel *channel, int64_t count);
// The oldest one expected, once it is there. It stays until channel_release.
struct tensor channel_take(struct channel *channel);
void channel_release(struct channel *channel);

#endif
