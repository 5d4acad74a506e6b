// Keeps inputs of recomputed blocks in host memory (--cpu-offloading). They are not read between the forward pass and
// the recompute, and with long sequences they take most of a device's memory.
//
// Two device tensors (slots) alternate. While a block computes, its input is copied to the host on a separate stream;
// the next block writes to the other slot. In the backward pass, the previous block's input is copied back while a
// block computes. Results do not change by a bit. One micro-batch is in flight at a time.
#ifndef MODEL_INPUT_OFFLOAD_H
#define MODEL_INPUT_OFFLOAD_H

#include "ops/device.h"
#include "tensor/arena.h"

enum { OFFLOAD_SLOTS = 2 };

struct input_offload {
    struct arena arena;  // page-locked host memory, the owner's; empty between micro-batches
    struct device *device;
    struct event *queued;                  // work on the compute stream that a copy must follow
    struct event *left[OFFLOAD_SLOTS];     // a tensor is in host memory
    struct event *arrived[OFFLOAD_SLOTS];  // a tensor is on the device
    bool is_leaving[OFFLOAD_SLOTS];
};

void input_offload_open(struct input_offload *offload, struct device *device);
void input_offload_close(struct input_offload *offload);  // a zeroed one is fine
// Queues a copy of x, in this slot, to host memory; returns it there.
struct tensor input_offload_send(struct input_offload *offload, struct tensor x, int slot);
// Later work on the compute stream waits until the slot's tensor is in host memory, and may overwrite the slot.
void input_offload_await_left(struct input_offload *offload, int slot);
// Queues a copy of `home` from host memory, after all work enqueued on the compute stream so far.
void input_offload_bring(struct input_offload *offload, struct tensor to, struct tensor home, int slot);
// Later work on the compute stream waits until the slot's tensor is back on the device.
void input_offload_await_arrived(struct input_offload *offload, int slot);

#endif
