// Optimizer states in host memory (--optimizer-cpu-offload), which visit the device to be updated.
//
// There are OFFLOAD_SLOTS slots of device memory. A piece of the states is copied to the next slot on one stream,
// updated there on the compute stream by the same operation as ever, and copied back on a third stream: three pieces
// are on their way at once, and both directions of the bus are busy. The bits are those of states on the device.
//
// The memory is page-locked, so that a GPU can also read and write it directly, as fast as the bus allows. Everything
// but the update does: opening masters, checkpoints, digests.
#ifndef OPTIM_OFFLOAD_H
#define OPTIM_OFFLOAD_H

#include "ops/device.h"
#include "tensor/arena.h"

// Tensors of a piece: of 64 matrices that are updated together, up to three states and the master.
enum { OFFLOAD_SLOTS = 3, OFFLOAD_MOST_TENSORS = 256 };

struct offload;  // NULL, in every function below: nothing is in host memory, and they do nothing

// Device memory for the slots, if a piece of all tensors takes that many bytes.
struct tensor offload_take_slots(struct arena *arena, size_t piece_bytes);
// Bytes of a tensor in a slot.
size_t offload_bytes(enum dtype dtype, int64_t count);
struct offload *offload_open(struct device *device, struct tensor slots);
void offload_close(struct offload *offload, struct device *device);

// Before the first piece of an update: what was queued so far, and all copies back, come first.
void offload_begin(struct offload *offload, struct device *device);
// Queues copies of these tensors to the next slot, and lets them point there. The compute stream waits for them.
void offload_bring(struct offload *offload, struct device *device, struct tensor *const *tensors, int count);
// Queues the copies back of what was brought last, behind what the compute stream was given since.
void offload_return(struct offload *offload, struct device *device);
// What is queued on the compute stream from now on finds all of it in host memory.
void offload_settle(const struct offload *offload, struct device *device);

#endif
