// Copies between the device and host memory beside the computation. See away.h.
#include "model/away.h"

void away_open(struct away *away, struct device *device) {
    away->device = device;
    away->queued = device->ops->event_create(device);
    for (int i = 0; i < AWAY_SLOTS; i++) {
        away->left[i] = device->ops->event_create(device);
        away->arrived[i] = device->ops->event_create(device);
    }
}

void away_close(struct away *away) {
    if (!away->device)
        return;
    device_synchronize(away->device);
    away->device->ops->event_free(away->device, away->queued);
    for (int i = 0; i < AWAY_SLOTS; i++) {
        away->device->ops->event_free(away->device, away->left[i]);
        away->device->ops->event_free(away->device, away->arrived[i]);
    }
    away->device = NULL;
}

// Makes `stream` wait for all work enqueued on the compute stream so far.
static void follow_compute(const struct away *away, enum stream stream) {
    away->device->ops->event_record(away->device, away->queued, STREAM_COMPUTE);
    away->device->ops->stream_wait(away->device, stream, away->queued);
}

struct tensor away_send(struct away *away, struct tensor x, int slot) {
    struct tensor home = arena_2d(&away->arena, x.dtype, x.shape[0], x.shape[1]);
    follow_compute(away, STREAM_BACK);
    away->device->ops->copy_out(away->device, home.data, x.data, tensor_bytes(x), STREAM_BACK);
    away->device->ops->event_record(away->device, away->left[slot], STREAM_BACK);
    away->is_leaving[slot] = true;
    return home;
}

void away_await_left(struct away *away, int slot) {
    if (away->is_leaving[slot])
        away->device->ops->stream_wait(away->device, STREAM_COMPUTE, away->left[slot]);
    away->is_leaving[slot] = false;
}

void away_bring(struct away *away, struct tensor to, struct tensor home, int slot) {
    follow_compute(away, STREAM_COPY);
    away->device->ops->copy_in(away->device, to.data, home.data, tensor_bytes(home), STREAM_COPY);
    away->device->ops->event_record(away->device, away->arrived[slot], STREAM_COPY);
}

void away_await_arrived(struct away *away, int slot) {
    away->device->ops->stream_wait(away->device, STREAM_COMPUTE, away->arrived[slot]);
}
