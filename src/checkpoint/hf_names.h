// Which row of a family's table a parameter of ours has. Internal to this folder.
#ifndef CHECKPOINT_HF_NAMES_H
#define CHECKPOINT_HF_NAMES_H

#include "checkpoint/hf_family.h"
#include "parallel/param.h"

struct hf_match {
    const struct hf_row *row;  // NULL if the family has no such tensor
    int64_t layer;             // -1 if there is none
    int pieces;
};
struct hf_match hf_match(const struct hf_family *family, const struct param *param);
// Name of piece k, to be freed.
char *hf_piece_name(const struct hf_match *match, int k);
// Rows of piece k: a segment of ours, or all.
int64_t hf_piece_rows(const struct hf_match *match, const struct param *param, int k);

#endif
