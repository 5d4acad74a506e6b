// Tensors that ranks share, on their way into a file and out of it. Internal to this folder.
#ifndef STORE_GATHER_H
#define STORE_GATHER_H

#include "ops/device.h"
#include "store/checkpoint.h"
#include "store/safetensors.h"

// ---- between a device and a file ----

// Tensors are moved in pieces, so that host memory for one piece is enough. If device memory is host memory, there is
// no piece and no copy.

struct stage {
    struct device *device;
    void *piece;  // NULL until it is needed
};

// Appends the elements of a contiguous tensor to the file.
int stage_out(struct stage *stage, struct tensor from, struct safetensors_writer *writer);
// Waits for the copies and frees the piece.
void stage_end(struct stage *stage);

// Moments in 8 bits. Files store the decoded numbers, in a dtype that holds them exactly, so that they do not show how
// ranks shared the codes.
static inline bool coded_is(const struct checkpoint_tensor *tensor) {
    return tensor->exponents.data != NULL;
}
// The dtype of a tensor in a file; its own if it has no codes.
enum dtype coded_dtype(const struct checkpoint_tensor *tensor);
// The elements that this rank holds, in that dtype, to host memory.
void coded_copy_out(struct device *device, void *to, const struct checkpoint_tensor *tensor);
// The reverse, from a tensor in host memory of the same shape and any float dtype; rounds to nearest. The file must
// stay open until stage_end.
int coded_copy_in(struct stage *stage, const struct checkpoint_tensor *to, const struct safetensors_tensor *from);

// ---- between ranks ----

bool gather_is_split(const struct checkpoint_tensor *tensor);
// The shape of a whole tensor: returns its rank, and its lengths in `shape`.
int gather_shape(const struct checkpoint_tensor *tensor, int64_t shape[TENSOR_MAX_RANK]);
size_t gather_bytes(const struct checkpoint_tensor *tensor);  // of the whole

// Brings one tensor to the rank of the stage that writes it. All ranks of the stage call, tensor by tensor in the same
// order.
struct gather {
    struct device *device;
    const struct checkpoint_ranks *ranks;  // NULL for this process alone
    const struct checkpoint_tensor *tensor;
    int writer;
};
// The writer: receives all elements of the tensor into `whole`, which holds gather_bytes.
void gather_receive(const struct gather *gather, unsigned char *whole);
// The other ranks: sends their part, possibly nothing.
void gather_send(const struct gather *gather);

// Loads this rank's part of a file's tensor.
int gather_take(struct stage *stage, const struct checkpoint_tensor *wanted, const struct safetensors_tensor *found);

#endif
