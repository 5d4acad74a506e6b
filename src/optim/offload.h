// Optimizer states in host memory (--optimizer-cpu-offload), which visit the device to be updated.
//
// There are OFFLOAD_SLOTS slots of device memory. A piece of the states is copied to the next slot on one stream,
// updated there on the compute stream by the usual operation, and copied back on a third: three pieces are in flight at
// once, and both directions of the bus are busy. Results are bit-identical to those of states on the device.
//
// The memory is page-locked, so that a GPU can also read and write it directly, as fast as the bus allows. Opening
// masters, checkpoints and digests do so.
#ifndef OPTIM_OFFLOAD_H
#define OPTIM_OFFLOAD_H

#include "ops/device.h"
#include "tensor/arena.h"

// OFFLOAD_MOST_TENSORS, of a piece: 64 matrices updated together, each with up to three states and the master.
enum { OFFLOAD_SLOTS = 3, OFFLOAD_MOST_TENSORS = 256 };

struct offload;  // NULL in any function below: nothing is in host memory, and it does nothing

// Takes device memory for the slots; a piece of all tensors has piece_bytes bytes.
struct tensor offload_take_slots(struct arena *arena, size_t piece_bytes);
// Bytes of a tensor in a slot.
size_t offload_bytes(enum dtype dtype, int64_t count);
struct offload *offload_open(struct device *device, struct tensor slots);
void offload_close(struct offload *offload, struct device *device);

// Call before the first piece of an update, whose copies then wait for all queued work and all copies back.
void offload_begin(struct offload *offload, struct device *device);
// Queues copies of these tensors to the next slot, and points them there. The compute stream waits for the copies.
void offload_bring(struct offload *offload, struct device *device, struct tensor *const *tensors, int count);
// Queues copies back of the tensors brought last, after all work enqueued on the compute stream so far.
void offload_return(struct offload *offload, struct device *device);
// Later work on the compute stream waits until all states are back in host memory.
void offload_settle(const struct offload *offload, struct device *device);

#endif
