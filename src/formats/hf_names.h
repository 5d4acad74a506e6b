// Which row of a family's table a parameter of ours has. Internal to this folder.
#ifndef FORMATS_HF_NAMES_H
#define FORMATS_HF_NAMES_H

#include "config/config.h"
#include "formats/model_source.h"
#include "formats/weights.h"
#include "formats/hf_family.h"
#include "parallel/param.h"

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

#endif
