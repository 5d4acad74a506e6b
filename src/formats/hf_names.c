// Finds a parameter's row in a family's table. See hf_names.h.
#include "formats/hf_names.h"

#include "base/memory.h"
#include "formats/hf_reorder.h"
#include "formats/names.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static int count_pieces(const struct hf_row *row) {
    int count = 0;
    while (count < HF_MAX_PIECES && row->theirs[count])
        count++;
    return count;
}

static bool is_numbered(const struct hf_match *match) {
    return match->row->transform == HF_NUMBERED;
}

// A joined row fits only a parameter with that many segments: T5's gated MLP has two, the plain one is a single matrix.
static bool fits(const struct hf_match *match, const struct param *param) {
    const struct shard *shard = &param->shard;
    if (is_numbered(match))
        return shard->rank == 3 ? shard->segment_count == match->pieces : shard->rank == 2 && param->is_gain;
    if (hf_is_mxfp4(match->row->transform))
        return shard->rank == 3 && shard->global[2] % MXFP4_BLOCK == 0;
    return match->row->transform != HF_JOIN || shard->segment_count == match->pieces;
}

// The name with a depth's number as a layer's, to be freed.
static char *name_in_layers(const char *name, int64_t layers) {
    static const char before[] = "mtp.layers.", inside[] = "transformer_layer.";
    if (strncmp(name, before, strlen(before)) != 0)
        return memory_string(name);
    char *rest;
    int64_t depth = strtoll(name + strlen(before), &rest, 10);
    rest += *rest == '.';
    rest += strncmp(rest, inside, strlen(inside)) == 0 ? strlen(inside) : 0;
    return memory_printf("decoder.layers.%" PRId64 ".%s", layers + depth, rest);
}

static struct hf_match match_from(const struct hf_family *family, const struct param *param, int64_t layers,
                                  size_t first) {
    struct hf_match found = {0};
    char *name = name_in_layers(param->name, layers);
    const struct hf_row *row;
    for (size_t i = first; !found.row && (row = hf_row_at(family, i)); i++) {
        struct hf_match match = {.row = row, .index = i, .layer = -1, .pieces = count_pieces(row), .layers = layers};
        if (!fits(&match, param) || !name_match(match.row->ours, name, &match.layer))
            continue;
        if (is_numbered(&match))
            match.pieces *= (int)param->shard.global[0];
        found = match;
    }
    free(name);
    return found;
}

struct hf_match hf_match(const struct hf_family *family, const struct param *param, int64_t layers) {
    return match_from(family, param, layers, 0);
}

struct hf_match hf_match_next(const struct hf_family *family, const struct param *param, const struct hf_match *match) {
    return match_from(family, param, match->layers, match->index + 1);
}

char *hf_piece_name(const struct hf_match *match, int k) {
    if (!is_numbered(match))
        return name_fill(match->row->theirs[k], match->layer);
    int matrices = count_pieces(match->row);
    char *pattern = name_fill(match->row->theirs[k % matrices], match->layer);
    char *name = name_fill(pattern, k / matrices);
    free(pattern);
    return name;
}

// The shape of MXFP4 blocks (4-bit numbers, two per byte), or of their scales.
static struct hf_shape mxfp4_shape(const struct shard *shard, bool is_scale) {
    struct hf_shape shape = {.rank = is_scale ? 3 : 4, .at = {shard->global[0], shard->global[1]}};
    shape.at[2] = shard->global[2] / MXFP4_BLOCK;
    shape.at[3] = is_scale ? 0 : MXFP4_BLOCK / 2;
    return shape;
}

struct hf_shape hf_piece_shape(const struct hf_match *match, const struct param *param, int k) {
    const struct shard *shard = &param->shard;
    enum hf_transform transform = match->row->transform;
    struct hf_shape shape = {.rank = shard->rank};
    if (hf_is_mxfp4(transform))
        return mxfp4_shape(shard, k == 1);
    for (int i = 0; i < shard->rank; i++)
        shape.at[i] = shard->global[i];
    if (transform == HF_JOIN)
        shape.at[0] = shard->segments[k];
    if (is_numbered(match) && shard->rank == 2) {
        shape.rank = 1;
        shape.at[0] = shard->global[1];
    } else if (is_numbered(match)) {
        shape.rank = 2;
        shape.at[0] = shard->segment_count > 1 ? shard->segments[k % shard->segment_count] : shard->global[1];
        shape.at[1] = shard->global[2];
    }
    if (transform == HF_TRANSPOSE || transform == HF_PAIRS_TRANSPOSE) {
        shape.at[shape.rank - 2] = shard->global[shape.rank - 1];
        shape.at[shape.rank - 1] = shard->global[shape.rank - 2];
    }
    return shape;
}

size_t hf_head_bytes(const struct config *config, size_t bytes) {
    return bytes / (size_t)(config->num_attention_heads + 2 * config_query_groups(config));
}
