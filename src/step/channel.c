// Rings of message buffers. See internal.h.
#include "step/internal.h"
#include "base/error.h"
#include "base/memory.h"

#include <stdlib.h>

void channel_open(struct channel *channel, int count, const char *name) {
    *channel = (struct channel){.buffers = memory_alloc(sizeof *channel->buffers * (size_t)count),
                                .requests = memory_alloc(sizeof *channel->requests * (size_t)count),
                                .count = count,
                                .name = name};
}

void channel_close(struct channel *channel) {
    free(channel->buffers);
    free(channel->requests);
    *channel = (struct channel){0};
}

void channel_lay_out(struct channel *channel, struct arena *arena, enum dtype dtype, int64_t elements) {
    for (int i = 0; i < channel->count; i++)
        channel->buffers[i] = elements > 0 ? arena_1d(arena, dtype, elements) : (struct tensor){0};
}

struct tensor channel_outgoing(struct channel *channel) {
    if (channel->started - channel->finished == channel->count) {
        comm_wait(&channel->requests[channel->finished % channel->count]);
        channel->finished++;
    }
    return channel->buffers[channel->started % channel->count];
}

void channel_send(struct channel *channel, int64_t count) {
    int64_t i = channel->started % channel->count;
    channel->requests[i] =
        comm_send_start(channel->group, tensor_rows(channel->buffers[i], 0, count), 1, channel->name);
    channel->started++;
}

void channel_flush(struct channel *channel) {
    for (; channel->finished < channel->started; channel->finished++)
        comm_wait(&channel->requests[channel->finished % channel->count]);
}

bool channel_has_room(const struct channel *channel) {
    return channel->started - channel->finished < channel->count;
}

void channel_expect(struct channel *channel, int64_t count) {
    CHECK(channel_has_room(channel));
    int64_t i = channel->started % channel->count;
    channel->requests[i] =
        comm_receive_start(channel->group, tensor_rows(channel->buffers[i], 0, count), 0, channel->name);
    channel->started++;
}

struct tensor channel_take(struct channel *channel) {
    CHECK(channel->finished < channel->started);
    int64_t i = channel->finished % channel->count;
    comm_wait(&channel->requests[i]);
    return channel->buffers[i];
}

void channel_release(struct channel *channel) {
    channel->finished++;
}
