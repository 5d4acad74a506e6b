// Finds a parameter's row in a family's table; orders of elements; MXFP4 (the OCP's microscaling formats, version 1.0).
// See hf_names.h.
#include "formats/hf_names.h"

#include "base/memory.h"
#include "formats/names.h"
#include "store/convert.h"
#include <inttypes.h>
#include <math.h>
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
    OWNED char *name = name_in_layers(param->name, layers);
    const struct hf_row *row;
    for (size_t i = first; !found.row && (row = hf_row_at(family, i)); i++) {
        struct hf_match match = {.row = row, .index = i, .layer = -1, .pieces = count_pieces(row), .layers = layers};
        if (!fits(&match, param) || !name_match(match.row->ours, name, &match.layer))
            continue;
        if (is_numbered(&match))
            match.pieces *= (int)param->shard.global[0];
        found = match;
    }
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
    OWNED char *pattern = name_fill(match->row->theirs[k % matrices], match->layer);
    return name_fill(pattern, k / matrices);
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
    return bytes / (size_t)(config->model.num_attention_heads + 2 * config_query_groups(&config->model));
}

bool hf_is_mxfp4(enum hf_transform transform) {
    return transform == HF_MXFP4 || transform == HF_MXFP4_PAIRS;
}

bool hf_is_reordered(enum hf_transform transform) {
    return transform == HF_TRANSPOSE || transform == HF_GROUPS || transform == HF_PAIRS ||
           transform == HF_PAIRS_TRANSPOSE;
}

// Converts between two halves of `count` rows each and alternating rows: first, second, first, …
static void convert_pairs(const struct hf_reorder *job, unsigned char *to, const unsigned char *from, int64_t count,
                          size_t row) {
    for (int64_t i = 0; i < 2 * count; i++) {
        size_t half = (size_t)(i % 2 * count + i / 2) * row, turn = (size_t)i * row;
        memcpy(to + (job->to_theirs ? turn : half), from + (job->to_theirs ? half : turn), row);
    }
}

// Converts our matrix (rows, columns) to or from theirs (columns, rows).
static void transpose(const struct hf_reorder *job, unsigned char *to, const unsigned char *from, int64_t rows,
                      int64_t columns) {
    convert_transpose(&(struct convert_turn){.to = to,
                                             .from = from,
                                             .rows = job->to_theirs ? rows : columns,
                                             .columns = job->to_theirs ? columns : rows,
                                             .bytes = job->element});
}

// One matrix, or one expert's.
static void reorder_matrix(const struct hf_reorder *job, unsigned char *to, const unsigned char *from, int64_t rows,
                           int64_t columns) {
    size_t row = (size_t)columns * job->element;
    if (job->transform == HF_TRANSPOSE) {
        transpose(job, to, from, rows, columns);
    } else if (job->transform != HF_PAIRS_TRANSPOSE) {
        convert_pairs(job, to, from, rows / 2, row);
    } else {
        OWNED unsigned char *between = memory_alloc((size_t)rows * row + 1);
        if (job->to_theirs) {
            convert_pairs(job, between, from, rows / 2, row);
            transpose(job, to, between, rows, columns);
        } else {
            transpose(job, between, from, rows, columns);
            convert_pairs(job, to, between, rows / 2, row);
        }
    }
}

void hf_reorder(const struct hf_reorder *job) {
    const struct shard *shard = &job->param->shard;
    if (job->transform == HF_GROUPS) {
        convert_heads(&(struct convert_heads){.to = job->to,
                                              .from = job->from,
                                              .to_groups = job->to_theirs,
                                              .heads = job->config->model.num_attention_heads,
                                              .groups = config_query_groups(&job->config->model),
                                              .head_bytes = hf_head_bytes(job->config, job->bytes)});
        return;
    }
    // Each expert's biases are one column; other tensors are one matrix, or one per expert.
    bool is_bias = job->transform == HF_PAIRS && shard->rank == 2;
    bool has_experts = shard->rank == 3 || is_bias;
    int64_t count = has_experts ? shard->global[0] : 1, rows = shard->global[has_experts ? 1 : 0];
    int64_t columns = is_bias ? 1 : shard->global[has_experts ? 2 : 1];
    size_t size = (size_t)(rows * columns) * job->element;
    for (int64_t i = 0; i < count; i++)
        reorder_matrix(job, (unsigned char *)job->to + (size_t)i * size,
                       (const unsigned char *)job->from + (size_t)i * size, rows, columns);
}

// Decodes E2M1: a sign, two bits of exponent with a bias of 1, and one of fraction.
static float mxfp4_value(unsigned bits) {
    static const float magnitudes[] = {0.0f, 0.5f, 1.0f, 1.5f, 2.0f, 3.0f, 4.0f, 6.0f};
    return bits & 8 ? -magnitudes[bits & 7] : magnitudes[bits & 7];
}

// Multiplied, not shifted: for the largest scale, which stands for NaN, transformers gets infinities, and NaN for 0.
void hf_dequantize_mxfp4(uint16_t *to, const unsigned char *blocks, const unsigned char *scales, size_t count) {
    for (size_t first = 0; first < count; first += MXFP4_BLOCK) {
        unsigned scale = scales[first / MXFP4_BLOCK];
        float values[MXFP4_BLOCK], factor = scale == 255 ? INFINITY : ldexpf(1.0f, (int)scale - 127);
        for (size_t i = 0; i < MXFP4_BLOCK; i++)
            values[i] = mxfp4_value(blocks[(first + i) / 2] >> (i % 2 * 4) & 15) * factor;
        convert_elements(&(struct convert){to + first, DTYPE_BF16, values, DTYPE_F32, MXFP4_BLOCK});
    }
}
