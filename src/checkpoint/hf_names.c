// Rows of a family's table for parameters. See hf_names.h.
#include "checkpoint/hf_names.h"

#include "checkpoint/names.h"

static int count_pieces(const struct hf_row *row) {
    int count = 0;
    while (count < HF_MAX_PIECES && row->theirs[count])
        count++;
    return count;
}

// A joined row fits only a parameter with as many segments: T5's gated MLP has two, the plain one is a single matrix.
static struct hf_match match_from(const struct hf_family *family, const struct param *param, size_t first) {
    for (size_t i = first; i < family->row_count; i++) {
        struct hf_match match = {.row = &family->rows[i], .layer = -1, .pieces = count_pieces(&family->rows[i])};
        bool fits = match.row->transform != HF_JOIN || param->shard.segment_count == match.pieces;
        if (fits && name_match(match.row->ours, param->name, &match.layer))
            return match;
    }
    return (struct hf_match){0};
}

struct hf_match hf_match(const struct hf_family *family, const struct param *param) {
    return match_from(family, param, 0);
}

struct hf_match hf_match_next(const struct hf_family *family, const struct param *param, const struct hf_match *match) {
    return match_from(family, param, (size_t)(match->row - family->rows) + 1);
}

char *hf_piece_name(const struct hf_match *match, int k) {
    return name_fill(match->row->theirs[k], match->layer);
}

int64_t hf_piece_rows(const struct hf_match *match, const struct param *param, int k) {
    return match->row->transform == HF_JOIN ? param->shard.segments[k] : param->shard.global[0];
}

size_t hf_head_bytes(const struct config *config, size_t bytes) {
    return bytes / (size_t)(config->num_attention_heads + 2 * config_query_groups(config));
}
