// Which row of a family's table a parameter of ours has. Internal to this folder.
#ifndef CHECKPOINT_HF_NAMES_H
#define CHECKPOINT_HF_NAMES_H

#include "checkpoint/hf_family.h"
#include "config/config.h"
#include "parallel/param.h"

struct hf_match {
    const struct hf_row *row;  // NULL if the family has no such tensor
    int64_t layer;             // -1 if there is none
    int pieces;                // of theirs, those of all experts or heads together
    int64_t layers;            // of the model
};
// The row that is written for a parameter of a model with so many layers. Depths of multi-token prediction are layers
// behind the last one there, and "mtp.layers.0.eh_proj.weight" is looked up as "decoder.layers.61.eh_proj.weight".
struct hf_match hf_match(const struct hf_family *family, const struct param *param, int64_t layers);
// Another row for the same parameter, behind this one; without a row if there is none.
struct hf_match hf_match_next(const struct hf_family *family, const struct param *param, const struct hf_match *match);
// Name of piece k, to be freed.
char *hf_piece_name(const struct hf_match *match, int k);
// Dimensions of piece k, which has all of ours, one segment, or what belongs to one expert or head.
struct hf_shape {
    int rank;
    int64_t at[TENSOR_MAX_RANK];
};
struct hf_shape hf_piece_shape(const struct hf_match *match, const struct param *param, int k);
// Bytes of one head in a tensor of all queries, keys and values.
size_t hf_head_bytes(const struct config *config, size_t bytes);

#endif
