// Copies between the device and host memory beside the computation. See input_offload.h.
#include "model/input_offload.h"

void input_offload_open(struct input_offload *offload, struct device *device) {
    offload->device = device;
    offload->queued = device->ops->event_create(device);
    for (int i = 0; i < OFFLOAD_SLOTS; i++) {
        offload->left[i] = device->ops->event_create(device);
        offload->arrived[i] = device->ops->event_create(device);
    }
}

void input_offload_close(struct input_offload *offload) {
    if (!offload->device)
        return;
    device_synchronize(offload->device);
    offload->device->ops->event_free(offload->device, offload->queued);
    for (int i = 0; i < OFFLOAD_SLOTS; i++) {
        offload->device->ops->event_free(offload->device, offload->left[i]);
        offload->device->ops->event_free(offload->device, offload->arrived[i]);
    }
    offload->device = NULL;
}

// Makes `stream` wait for all work enqueued on the compute stream so far.
static void follow_compute(const struct input_offload *offload, enum stream stream) {
    offload->device->ops->event_record(offload->device, offload->queued, STREAM_COMPUTE);
    offload->device->ops->stream_wait(offload->device, stream, offload->queued);
}

struct tensor input_offload_send(struct input_offload *offload, struct tensor x, int slot) {
    struct tensor home = arena_2d(&offload->arena, x.dtype, x.shape[0], x.shape[1]);
    follow_compute(offload, STREAM_BACK);
    offload->device->ops->copy_out(offload->device, home.data, x.data, tensor_bytes(x), STREAM_BACK);
    offload->device->ops->event_record(offload->device, offload->left[slot], STREAM_BACK);
    offload->is_leaving[slot] = true;
    return home;
}

void input_offload_await_left(struct input_offload *offload, int slot) {
    if (offload->is_leaving[slot])
        offload->device->ops->stream_wait(offload->device, STREAM_COMPUTE, offload->left[slot]);
    offload->is_leaving[slot] = false;
}

void input_offload_bring(struct input_offload *offload, struct tensor to, struct tensor home, int slot) {
    follow_compute(offload, STREAM_COPY);
    offload->device->ops->copy_in(offload->device, to.data, home.data, tensor_bytes(home), STREAM_COPY);
    offload->device->ops->event_record(offload->device, offload->arrived[slot], STREAM_COPY);
}

void input_offload_await_arrived(struct input_offload *offload, int slot) {
    offload->device->ops->stream_wait(offload->device, STREAM_COMPUTE, offload->arrived[slot]);
}
