// Attention without the (Tq, Tk) matrix: a task owns a tile of queries of one head and walks over tiles of keys,
// keeping for each query the running maximum, the running sum of exponentials and the weighted sum of values (online
// softmax, Milakov and Gimelshein 2018; FlashAttention, Dao et al. 2022). Keys that no query of the tile sees are
// never read.
#include "ops/cpu/attention.h"
#include "ops/cpu/dropout.h"
#include "ops/cpu/vector_math.h"
#include <cblas.h>
#include <math.h>
#include <string.h>

struct forward_tile {
    float scores[QUERY_TILE * KEY_TILE];    // then probabilities, not yet divided by the sum
    float out[QUERY_TILE * MAX_HEAD_SIZE];  // (queries, D): weighted sum of values
    float max[QUERY_TILE], sum[QUERY_TILE];
    int64_t head_size;
};

CPU_CLONES static float row_max(const float *x, int64_t count) {
    float max = -INFINITY;
    CPU_SIMD_MAX
    for (int64_t j = 0; j < count; j++)
        max = vector_max(x[j], max);
    return max;
}

// x = exp(x - max); returns the sum.
CPU_CLONES static float row_exp(float *x, float max, int64_t count) {
    float sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t j = 0; j < count; j++) {
        x[j] = vector_exp(x[j] - max);
        sum += x[j];
    }
    return sum;
}

CPU_CLONES static void row_scale(float *out, const float *x, float factor, int64_t count) {
#pragma omp simd
    for (int64_t j = 0; j < count; j++)
        out[j] = x[j] * factor;
}

CPU_CLONES static void row_multiply(float *x, const float *factors, int64_t count) {
#pragma omp simd
    for (int64_t j = 0; j < count; j++)
        x[j] *= factors[j];
}

struct key_range {
    int64_t first, count;  // what the tile's last query sees of this tile of keys
};

// One row of the tile: scores become probabilities, earlier results are scaled to the new maximum.
static void soften_row(struct forward_tile *tile, int64_t i, int64_t visible, int64_t keys) {
    int64_t head_size = tile->head_size;
    float *row = tile->scores + i * KEY_TILE;
    float max = visible > 0 ? row_max(row, visible) : -INFINITY;
    if (max > tile->max[i]) {
        float correction = vector_exp(tile->max[i] - max);
        tile->max[i] = max;
        tile->sum[i] *= correction;
        row_scale(tile->out + i * head_size, tile->out + i * head_size, correction, head_size);
    }
    if (visible > 0)
        tile->sum[i] += row_exp(row, tile->max[i], visible);
    for (int64_t j = visible; j < keys; j++)
        row[j] = 0;
}

struct forward_place {
    int64_t b, head, group;
    struct cpu_range queries;
};

static void add_keys(const struct op_attention_forward *op, struct forward_tile *tile, const struct forward_place *at,
                     struct key_range keys) {
    int64_t head_size = op->q.shape[3], offset = op->k.shape[1] - op->q.shape[1];
    blasint queries = (blasint)(at->queries.end - at->queries.first);
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, queries, (blasint)keys.count, (blasint)head_size, op->scale,
                attention_row(&op->q, at->b, at->queries.first, at->head), (blasint)op->q.stride[1],
                attention_row(&op->k, at->b, keys.first, at->group), (blasint)op->k.stride[1], 0.0f, tile->scores,
                KEY_TILE);
    for (int64_t i = 0; i < queries; i++) {
        int64_t query = at->queries.first + i;
        int64_t visible = attention_visible(op->is_causal, query, offset, keys.first, keys.count);
        soften_row(tile, i, visible, keys.count);
        if (op->dropout.rate != 0 && visible > 0) {
            float factors[DROPOUT_PIECE];
            struct dropout_row row = dropout_attention_row(&op->dropout, at->b * op->q.shape[1] + query, at->head);
            dropout_factors(factors, &row, keys.first, visible);
            row_multiply(tile->scores + i * KEY_TILE, factors, visible);
        }
    }
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, queries, (blasint)head_size, (blasint)keys.count, 1.0f,
                tile->scores, KEY_TILE, attention_row(&op->v, at->b, keys.first, at->group), (blasint)op->v.stride[1],
                1.0f, tile->out, (blasint)head_size);
}

static void attention_forward_task(void *context, int64_t index, int thread) {
    (void)thread;
    const struct op_attention_forward *op = context;
    int64_t query_count = op->q.shape[1], key_count = op->k.shape[1], heads = op->q.shape[2];
    int64_t head_size = op->q.shape[3], tiles = cpu_pieces(query_count, QUERY_TILE);
    struct forward_place at = {
        .b = index / tiles / heads,
        .head = index / tiles % heads,
        // Later queries see more keys when causal; they go first so that the short tasks fill the end.
        .queries = cpu_piece(query_count, QUERY_TILE, tiles - 1 - index % tiles),
    };
    at.group = at.head / (heads / op->k.shape[2]);
    int64_t queries = at.queries.end - at.queries.first;
    struct forward_tile tile;
    tile.head_size = head_size;
    memset(tile.out, 0, (size_t)(queries * head_size) * sizeof *tile.out);
    for (int64_t i = 0; i < queries; i++) {
        tile.max[i] = -INFINITY;
        tile.sum[i] = 0;
    }
    int64_t end = attention_visible(op->is_causal, at.queries.end - 1, key_count - query_count, 0, key_count);
    for (int64_t first = 0; first < end; first += KEY_TILE) {
        struct key_range keys = {first, end - first < KEY_TILE ? end - first : KEY_TILE};
        add_keys(op, &tile, &at, keys);
    }
    for (int64_t i = 0; i < queries; i++) {
        int64_t query = at.queries.first + i;
        row_scale(attention_row(&op->out, at.b, query, at.head), tile.out + i * head_size, 1.0f / tile.sum[i],
                  head_size);
        if (op->lse.data)
            ((float *)op->lse.data)[(at.b * heads + at.head) * query_count + query] = tile.max[i] + logf(tile.sum[i]);
    }
}

void cpu_attention_forward(struct device *device, const struct op_attention_forward *op) {
    int64_t tiles = cpu_pieces(op->q.shape[1], QUERY_TILE);
    cpu_run(device, op->q.shape[0] * op->q.shape[2] * tiles, attention_forward_task, op);
}
