// Rings of message buffers. See channel.h.
#include "step/channel.h"
#include "base/error.h"

void channel_lay_out(struct channel *channel, struct arena *arena, enum dtype dtype, int64_t elements) {
    for (int i = 0; i < CHANNEL_BUFFERS; i++)
        channel->buffers[i] = elements > 0 ? arena_1d(arena, dtype, elements) : (struct tensor){0};
}

struct tensor channel_outgoing(struct channel *channel) {
    if (channel->started - channel->finished == CHANNEL_BUFFERS) {
        comm_wait(&channel->requests[channel->finished % CHANNEL_BUFFERS]);
        channel->finished++;
    }
    return channel->buffers[channel->started % CHANNEL_BUFFERS];
}

void channel_send(struct channel *channel, int64_t count) {
    int64_t i = channel->started % CHANNEL_BUFFERS;
    if (!channel->group)
        return;
    channel->requests[i] =
        comm_send_start(channel->group, tensor_rows(channel->buffers[i], 0, count), 1, channel->name);
    channel->started++;
}

void channel_flush(struct channel *channel) {
    for (; channel->finished < channel->started; channel->finished++)
        comm_wait(&channel->requests[channel->finished % CHANNEL_BUFFERS]);
}

bool channel_has_room(const struct channel *channel) {
    return channel->started - channel->finished < CHANNEL_BUFFERS;
}

void channel_expect(struct channel *channel, int64_t count) {
    CHECK(channel_has_room(channel));
    int64_t i = channel->started % CHANNEL_BUFFERS;
    if (channel->group)
        channel->requests[i] =
            comm_receive_start(channel->group, tensor_rows(channel->buffers[i], 0, count), 0, channel->name);
    channel->started++;
}

struct tensor channel_take(struct channel *channel) {
    CHECK(channel->finished < channel->started);
    int64_t i = channel->finished % CHANNEL_BUFFERS;
    if (channel->group)
        comm_wait(&channel->requests[i]);
    return channel->buffers[i];
}

void channel_release(struct channel *channel) {
    channel->finished++;
}
