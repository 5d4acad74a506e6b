// Gathering slices, and taking them out of whole tensors. See gather.h.
#include "checkpoint/gather.h"
#include "base/error.h"
#include "base/memory.h"
#include "comm/comm.h"

#include <stdlib.h>
#include <string.h>

bool gather_is_split(const struct checkpoint_tensor *tensor) {
    return tensor->shard && tensor->shard->parts > 1;
}

int gather_shape(const struct checkpoint_tensor *tensor, int64_t shape[TENSOR_MAX_RANK]) {
    memcpy(shape, tensor->tensor.shape, sizeof tensor->tensor.shape);
    if (gather_is_split(tensor))
        memcpy(shape, tensor->shard->global, sizeof(int64_t) * (size_t)tensor->shard->rank);
    return tensor->tensor.rank;
}

static const struct checkpoint_tensor *tensor_at(const struct gather *gather, size_t i) {
    return i < gather->counts[0] ? &gather->lists[0][i] : &gather->lists[1][i - gather->counts[0]];
}

// A slice in host memory, into its places in the whole.
static void place_slice(char *whole, const char *slice, const struct shard *shard, size_t element) {
    for (int64_t i = 0; i < shard_run_count(shard); i++) {
        struct shard_run run = shard_run(shard, i);
        memcpy(whole + (size_t)run.global_offset * element, slice + (size_t)run.local_offset * element,
               (size_t)run.count * element);
    }
}

static int gather_split(const struct gather *gather, const struct checkpoint_tensor *tensor,
                        struct safetensors_writer *writer) {
    size_t element = dtype_bytes(tensor->tensor.dtype);
    struct shard shard = *tensor->shard;
    size_t bytes = (size_t)shard_global_count(&shard) * element, most = 0;
    for (shard.part = 0; shard.part < shard.parts; shard.part++)
        most = (size_t)shard_local_count(&shard) > most ? (size_t)shard_local_count(&shard) : most;
    char *whole = memory_alloc(bytes), *slice = memory_alloc(most * element + 1);
    void *staging = device_alloc(gather->device, most * element + 1);
    if (!staging)
        die("%s; the slices of a checkpoint need room for the largest tensor's", error_message());
    for (shard.part = 0; shard.part < shard.parts; shard.part++) {
        int64_t count = shard_local_count(&shard);
        struct tensor local = tensor_1d(staging, tensor->tensor.dtype, count);
        if (count == 0)
            continue;
        if (shard.part == tensor->shard->part) {
            local = tensor_flat(tensor->tensor);
        } else {
            struct comm_request request = comm_receive_start(gather->group, local, shard.part, "checkpoint");
            comm_wait(&request);
        }
        device_copy_out(gather->device, slice, local);
        place_slice(whole, slice, &shard, element);
    }
    int status = writer ? safetensors_write(writer, whole, bytes) : 0;
    device_free(gather->device, staging);
    free(slice);
    free(whole);
    return status;
}

int gather_next(struct gather *gather, struct safetensors_writer *writer) {
    const struct checkpoint_tensor *tensor = tensor_at(gather, gather->given++);
    return gather_is_split(tensor) ? gather_split(gather, tensor, writer) : 0;
}

void gather_forget_rest(struct gather *gather) {
    struct error_note *note = error_take();
    while (gather->group && gather->given < gather->counts[0] + gather->counts[1])
        gather_next(gather, NULL);
    error_give(note);
}

void gather_give(struct gather *gather) {
    for (; gather->given < gather->counts[0] + gather->counts[1]; gather->given++) {
        const struct checkpoint_tensor *tensor = tensor_at(gather, gather->given);
        if (!gather_is_split(tensor) || tensor_count(tensor->tensor) == 0)
            continue;
        struct comm_request request = comm_send_start(gather->group, tensor_flat(tensor->tensor), 0, "checkpoint");
        comm_wait(&request);
    }
}

// The elements are put together in host memory, and go from there as a tensor of the file's would.
int gather_take(struct stage *stage, const struct checkpoint_tensor *wanted, const struct safetensors_tensor *found) {
    if (!gather_is_split(wanted))
        return stage_in(stage, wanted->tensor, found);
    size_t element = dtype_bytes(found->dtype), bytes = (size_t)shard_local_count(wanted->shard) * element;
    unsigned char *slice = memory_alloc(bytes + 1);
    for (int64_t i = 0; i < shard_run_count(wanted->shard); i++) {
        struct shard_run run = shard_run(wanted->shard, i);
        memcpy(slice + (size_t)run.local_offset * element, found->data + (size_t)run.global_offset * element,
               (size_t)run.count * element);
    }
    struct safetensors_tensor local = *found;
    local.data = slice;
    local.bytes = bytes;
    memcpy(local.shape, wanted->tensor.shape, sizeof wanted->tensor.shape);
    int result = stage_in(stage, wanted->tensor, &local);
    device_synchronize(stage->device);  // the memory is about to go
    free(slice);
    return result;
}
