// Orders of elements, and MXFP4 (the OCP's microscaling formats, version 1.0). See hf_reorder.h.
#include "formats/hf_reorder.h"

#include "base/memory.h"
#include "formats/hf_names.h"
#include "store/convert.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

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
        unsigned char *between = memory_alloc((size_t)rows * row + 1);
        if (job->to_theirs) {
            convert_pairs(job, between, from, rows / 2, row);
            transpose(job, to, between, rows, columns);
        } else {
            transpose(job, between, from, rows, columns);
            convert_pairs(job, to, between, rows / 2, row);
        }
        free(between);
    }
}

void hf_reorder(const struct hf_reorder *job) {
    const struct shard *shard = &job->param->shard;
    if (job->transform == HF_GROUPS) {
        convert_heads(&(struct convert_heads){.to = job->to,
                                              .from = job->from,
                                              .to_groups = job->to_theirs,
                                              .heads = job->config->num_attention_heads,
                                              .groups = config_query_groups(job->config),
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
