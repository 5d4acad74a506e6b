// Messages between two neighbouring stages, in one direction: a ring of buffers over a link of the mesh. Messages are
// copied into a buffer before sending, and receiving starts before a message is needed, so neither side waits for the
// other's next action. The schedule determines how many messages must fit between two stages.
#ifndef STEP_CHANNEL_H
#define STEP_CHANNEL_H

#include "comm/comm.h"
#include "tensor/arena.h"

struct channel {
    struct group *group;     // its first rank sends, its second receives; NULL without a pipeline
    struct tensor *buffers;  // `count` buffers, each as long as the longest message
    struct comm_request *requests;
    int count;
    int64_t started, finished;  // numbers of messages so far
    const char *name;
};

// A ring of `count` buffers at each end.
void channel_open(struct channel *channel, int count, const char *name);
void channel_close(struct channel *channel);
// Takes memory for the buffers. With 0 elements there are none, and nothing may be sent.
void channel_lay_out(struct channel *channel, struct arena *arena, enum dtype dtype, int64_t elements);

// Sending: channel_outgoing returns the buffer for the next message, ready to be written; channel_send sends its first
// `count` elements.
struct tensor channel_outgoing(struct channel *channel);
void channel_send(struct channel *channel, int64_t count);
// Waits until everything sent has left its buffer.
void channel_flush(struct channel *channel);

// Receiving: announces a message of `count` elements. Messages are announced in the order in which they are sent, while
// there is room.
bool channel_has_room(const struct channel *channel);
void channel_expect(struct channel *channel, int64_t count);
// The oldest announced message, once it has arrived. It stays until channel_release.
struct tensor channel_take(struct channel *channel);
void channel_release(struct channel *channel);

#endif
