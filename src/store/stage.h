// Moves tensors between a device and a file in pieces, so that host memory for one piece is enough. If device memory is
// host memory, there is no piece and no copy. Internal to this folder.
#ifndef STORE_STAGE_H
#define STORE_STAGE_H

#include "ops/device.h"
#include "store/safetensors.h"

struct stage {
    struct device *device;
    void *piece;  // NULL until it is needed
};

// Appends the elements of a contiguous tensor to the file.
int stage_out(struct stage *stage, struct tensor from, struct safetensors_writer *writer);
// Fills a contiguous tensor from a file's tensor with as many elements, converting if the float types differ. The file
// must stay open until stage_end.
int stage_in(struct stage *stage, struct tensor to, const struct safetensors_tensor *from);
// Waits for the copies and frees the piece.
void stage_end(struct stage *stage);

#endif
