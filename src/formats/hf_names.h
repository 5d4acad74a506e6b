// Which row of a family's table a parameter of ours has, and what becomes of its elements. Internal to this folder.
#ifndef FORMATS_HF_NAMES_H
#define FORMATS_HF_NAMES_H

#include "config/config.h"
#include "formats/hf_family.h"
#include "formats/model_source.h"
#include "formats/weights.h"
#include "parallel/param.h"
#include "tensor/tensor.h"

struct hf_match {
    const struct hf_row *row;  // NULL if the family has no such tensor
    size_t index;              // of the row
    int64_t layer;             // -1 if there is none
    int pieces;                // of theirs, over all experts or heads
    int64_t layers;            // in the model
};
// The row that is written for a parameter of a model with this many layers. Depths of multi-token prediction are stored
// as layers after the last: "mtp.layers.0.eh_proj.weight" is looked up as "decoder.layers.61.eh_proj.weight".
struct hf_match hf_match(const struct hf_family *family, const struct param *param, int64_t layers);
// The next row for the same parameter; row is NULL if there is none.
struct hf_match hf_match_next(const struct hf_family *family, const struct param *param, const struct hf_match *match);
// Name of piece k, to be freed.
char *hf_piece_name(const struct hf_match *match, int k);
// Shape of piece k: all of ours, one segment, or the part of one expert or head.
struct hf_shape {
    int rank;
    int64_t at[TENSOR_MAX_RANK];
};
struct hf_shape hf_piece_shape(const struct hf_match *match, const struct param *param, int k);
// A model source whose tensors are those of a family's rows: `detail` begins with this.
struct hf_source {
    struct weights weights;
    const struct hf_family *family;
    struct hf_plan *plans;  // one per tensor
    bool *is_used;          // one per weight
};
struct hf_plan {
    enum hf_transform transform;
    int count;
    const struct weight **pieces;
};
// Finds the tensors of all parameters, checks their shapes, and refuses tensors that are left over.
int hf_source_plan(struct model_source *source);
int hf_source_read(struct model_source *source, size_t i, void *to);
void hf_source_close(struct model_source *source);  // frees `detail`

// Bytes of one head in a tensor of all queries, keys and values.
size_t hf_head_bytes(const struct config *config, size_t bytes);

// Converts tensors of Hugging Face that store our elements in another order, or in fewer bits.

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
