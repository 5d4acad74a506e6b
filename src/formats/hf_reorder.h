// Converts tensors of Hugging Face that store our elements in another order, or in fewer bits. Internal to this folder.
#ifndef FORMATS_HF_REORDER_H
#define FORMATS_HF_REORDER_H

#include "config/config.h"
#include "formats/hf_family.h"
#include "parallel/param.h"
#include "tensor/tensor.h"

enum { MXFP4_BLOCK = 32 };  // elements per scale

// Whether theirs has the elements in another order than ours.
bool hf_is_reordered(enum hf_transform transform);
// Whether theirs is blocks of MXFP4, beside their scales.
bool hf_is_mxfp4(enum hf_transform transform);

// Reorders one tensor to theirs or ours; `to` and `from` do not overlap.
struct hf_reorder {
    enum hf_transform transform;
    bool to_theirs;  // else to ours
    void *to;
    const void *from;
    const struct param *param;  // ours
    const struct config *config;
    size_t bytes;    // of all elements
    size_t element;  // bytes of one
};
void hf_reorder(const struct hf_reorder *job);

// Decodes `count` MXFP4 numbers to bf16: two in a byte, low half first, each times 2^(scale - 127) of its block.
void hf_dequantize_mxfp4(uint16_t *to, const unsigned char *blocks, const unsigned char *scales, size_t count);

#endif
