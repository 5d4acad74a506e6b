// Inputs of recomputed blocks in host memory (--cpu-offloading). Nobody reads them between the forward pass and the
// recompute, and with long sequences they are most of what a device holds.
//
// Two tensors of device memory take turns. While a block computes, the input that it reads is copied to the host on a
// stream of its own; the block after it writes to the other tensor. In the backward pass the input of the block before
// is copied back while a block computes. The bits stay the same. One micro-batch is in flight at a time.
#ifndef MODEL_AWAY_H
#define MODEL_AWAY_H

#include "ops/device.h"
#include "tensor/arena.h"

enum { AWAY_SLOTS = 2 };

struct away {
    struct arena arena;  // page-locked host memory, the owner's; empty between micro-batches
    struct device *device;
    struct event *queued;               // what the compute stream was given before a copy
    struct event *left[AWAY_SLOTS];     // a tensor is in host memory
    struct event *arrived[AWAY_SLOTS];  // a tensor is on the device
    bool is_leaving[AWAY_SLOTS];
};

void away_open(struct away *away, struct device *device);
void away_close(struct away *away);  // a zeroed one is fine
// Queues a copy of x, in this slot, to host memory; returns it there.
struct tensor away_send(struct away *away, struct tensor x, int slot);
// What the compute stream is given from now on finds the slot's tensor in host memory, and may write over it.
void away_await_left(struct away *away, int slot);
// Queues a copy of `home` from host memory, behind what the compute stream was given so far.
void away_bring(struct away *away, struct tensor to, struct tensor home, int slot);
// What the compute stream is given from now on finds it there.
void away_await_arrived(struct away *away, int slot);

#endif
