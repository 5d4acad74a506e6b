// Attention without the (Tq, Tk) matrix: a task owns a tile of queries of one head and walks over tiles of keys,
// keeping for each query the running maximum, the running sum of exponentials and the weighted sum of values (online
// softmax, Milakov and Gimelshein 2018; FlashAttention, Dao et al. 2022). Keys that no query of the tile sees are
// never read.
#include "ops/cpu/attention.h"
#include "ops/cpu/block.h"
#include "ops/cpu/dropout.h"
#include "ops/cpu/vector_math.h"
#include <math.h>
#include <string.h>

struct forward_job {
    const struct op_attention_forward *op;
    const struct cpu_kernel *kernel;  // for matmuls, NULL for OpenBLAS
};

struct forward_tile {
    const struct cpu_kernel *kernel;
    float scores[QUERY_TILE * KEY_TILE];  // overwritten by probabilities, not yet divided by the sum
    float *out;                           // (queries, V): weighted sum of values; in `own` or, if wide, in the result
    int64_t out_stride;
    float own[QUERY_TILE * HEAD_SLICE];
    float max[QUERY_TILE], sum[QUERY_TILE];
    struct cpu_range seen[QUERY_TILE];  // keys of each query
    int64_t head_size, value_size;
    bool is_wide;                      // the head has several slices: its queries are packed for each tile of keys
    struct block_operand all_queries;  // of the tile, times the scale
    struct block_panels queries, keys, probabilities, values;
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

CPU_CLONES static void row_add(float *x, const float *y, int64_t count) {
#pragma omp simd
    for (int64_t j = 0; j < count; j++)
        x[j] += y[j];
}

// x = cap tanh(x / cap).
CPU_CLONES static void row_cap(float *x, float cap, int64_t count) {
    float inverse = 1.0f / cap;
#pragma omp simd
    for (int64_t j = 0; j < count; j++)
        x[j] = cap * vector_tanh(x[j] * inverse);
}

struct tile_keys {
    int64_t first, count;  // the part of this tile of keys that the tile's queries see
};

// One row of the tile: turns scores into probabilities and scales earlier results to the new maximum.
static void soften_row(struct forward_tile *tile, int64_t i, struct cpu_range seen, int64_t keys) {
    int64_t visible = seen.end - seen.first;
    float *whole = tile->scores + i * KEY_TILE, *row = whole + seen.first;
    float max = visible > 0 ? row_max(row, visible) : -INFINITY;
    if (max > tile->max[i]) {
        float correction = vector_exp(tile->max[i] - max);
        tile->max[i] = max;
        tile->sum[i] *= correction;
        row_scale(tile->out + i * tile->out_stride, tile->out + i * tile->out_stride, correction, tile->value_size);
    }
    if (visible > 0)
        tile->sum[i] += row_exp(row, tile->max[i], visible);
    for (int64_t j = 0; j < seen.first; j++)
        whole[j] = 0;
    for (int64_t j = seen.end; j < keys; j++)
        whole[j] = 0;
}

struct forward_place {
    struct attention_rules rules;
    int64_t b, head, group;
    struct cpu_range queries;
};

static void compute_scores(const struct op_attention_forward *op, struct forward_tile *tile,
                           const struct forward_place *at, struct tile_keys keys) {
    struct block_operand key_block = attention_block(&op->k, at->b, keys.first, at->group, keys.count);
    for (int64_t channel = 0; channel < tile->head_size; channel += HEAD_SLICE) {
        struct block_operand queries = attention_slice(tile->all_queries, channel),
                             slice = attention_slice(key_block, channel);
        if (tile->is_wide)
            block_put(&tile->queries, &queries, tile->kernel);
        block_put(&tile->keys, &slice, tile->kernel);
        block_multiply(
            &(struct block_matmul){&tile->queries, &tile->keys, keys.count, tile->scores, KEY_TILE, channel > 0});
    }
}

static void add_keys(const struct op_attention_forward *op, struct forward_tile *tile, const struct forward_place *at,
                     struct tile_keys keys) {
    int64_t queries = at->queries.end - at->queries.first;
    compute_scores(op, tile, at, keys);
    for (int64_t i = 0; i < queries; i++) {
        int64_t query = at->queries.first + i;
        struct cpu_range seen = attention_within(tile->seen[i], keys.first, keys.count);
        int64_t visible = seen.end - seen.first;
        float *scores = tile->scores + i * KEY_TILE + seen.first;
        const float *bias = attention_bias_row(&at->rules, at->head, query);
        if (op->scores.cap > 0)
            row_cap(scores, op->scores.cap, visible);
        if (bias)
            row_add(scores, bias + keys.first + seen.first, visible);
        soften_row(tile, i, seen, keys.count);
        if (op->dropout.rate != 0 && visible > 0) {
            float factors[DROPOUT_PIECE];
            struct dropout_row row = dropout_attention_row(&op->dropout, at->b * op->q.shape[1] + query, at->head);
            dropout_factors(factors, &row, keys.first, seen.end);
            row_multiply(scores, factors + seen.first, visible);
        }
    }
    struct block_operand probabilities = {{tile->scores, DTYPE_F32, KEY_TILE, false}, queries, keys.count, 1};
    struct block_operand value_block = attention_block(&op->v, at->b, keys.first, at->group, keys.count);
    block_put(&tile->probabilities, &probabilities, tile->kernel);
    for (int64_t channel = 0; channel < tile->value_size; channel += HEAD_SLICE) {
        struct block_operand values = block_transposed(attention_slice(value_block, channel));
        block_put(&tile->values, &values, tile->kernel);
        block_multiply(&(struct block_matmul){&tile->probabilities, &tile->values, values.lines, tile->out + channel,
                                              tile->out_stride, true});
    }
}

// Clears the tile and finds the keys that its queries see; returns their union, aligned down to a tile of keys.
static struct cpu_range start_tile(struct forward_tile *tile, const struct forward_place *at) {
    int64_t queries = at->queries.end - at->queries.first;
    struct cpu_range all = {INT64_MAX, 0};
    for (int64_t i = 0; i < queries; i++) {
        memset(tile->out + i * tile->out_stride, 0, (size_t)tile->value_size * sizeof *tile->out);
        struct cpu_range seen = attention_seen(&at->rules, at->b, at->queries.first + i);
        tile->max[i] = -INFINITY;
        tile->sum[i] = 0;
        tile->seen[i] = seen;
        if (seen.first < seen.end) {
            all.first = seen.first < all.first ? seen.first : all.first;
            all.end = seen.end > all.end ? seen.end : all.end;
        }
    }
    all.first -= all.first % KEY_TILE;
    return all;
}

// The sink joins the sum of each query, which is scaled to the sink if that is the largest score.
static void add_sink(struct forward_tile *tile, float sink, int64_t queries) {
    for (int64_t i = 0; i < queries; i++) {
        float max = vector_max(sink, tile->max[i]), correction = vector_exp(tile->max[i] - max);
        tile->sum[i] = tile->sum[i] * correction + vector_exp(sink - max);
        tile->max[i] = max;
        row_scale(tile->out + i * tile->out_stride, tile->out + i * tile->out_stride, correction, tile->value_size);
    }
}

static void attention_forward_task(void *context, int64_t index, int thread) {
    (void)thread;
    const struct forward_job *job = context;
    const struct op_attention_forward *op = job->op;
    int64_t query_count = op->q.shape[1], heads = op->q.shape[2];
    int64_t head_size = op->q.shape[3], value_size = op->v.shape[3], tiles = cpu_pieces(query_count, QUERY_TILE);
    struct forward_place at = {
        .rules = {query_count, op->k.shape[1], op->is_causal, &op->mask},
        .b = index / tiles / heads,
        .head = index / tiles % heads,
        // If causal, later queries see more keys; they go first, so that short tasks fill the end.
        .queries = cpu_piece(query_count, QUERY_TILE, tiles - 1 - index % tiles),
    };
    at.group = at.head / (heads / op->k.shape[2]);
    struct forward_tile tile;
    tile.kernel = job->kernel;
    tile.head_size = head_size;
    tile.value_size = value_size;
    tile.is_wide = head_size > HEAD_SLICE;
    bool is_in_place = value_size > HEAD_SLICE;
    tile.out = is_in_place ? attention_row(&op->out, at.b, at.queries.first, at.head) : tile.own;
    tile.out_stride = is_in_place ? op->out.stride[1] : value_size;
    struct cpu_range all = start_tile(&tile, &at);
    tile.all_queries = attention_block(&op->q, at.b, at.queries.first, at.head, at.queries.end - at.queries.first);
    tile.all_queries.factor = op->scale;
    if (!tile.is_wide)
        block_put(&tile.queries, &tile.all_queries, tile.kernel);
    for (int64_t first = all.first; first < all.end; first += KEY_TILE) {
        struct tile_keys keys = {first, all.end - first < KEY_TILE ? all.end - first : KEY_TILE};
        add_keys(op, &tile, &at, keys);
    }
    if (op->scores.sinks.data)
        add_sink(&tile, ((const float *)op->scores.sinks.data)[at.head], at.queries.end - at.queries.first);
    for (int64_t i = 0; i < at.queries.end - at.queries.first; i++) {
        int64_t query = at.queries.first + i;
        row_scale(attention_row(&op->out, at.b, query, at.head), tile.out + i * tile.out_stride,
                  tile.sum[i] == 0 ? 0.0f : 1.0f / tile.sum[i], value_size);
        if (op->lse.data)
            ((float *)op->lse.data)[(at.b * heads + at.head) * query_count + query] = tile.max[i] + logf(tile.sum[i]);
    }
}

void cpu_attention_forward(struct device *device, const struct op_attention_forward *op) {
    int64_t tiles = cpu_pieces(op->q.shape[1], QUERY_TILE);
    struct forward_job job = {op, cpu_kernel(device, DTYPE_F32)};
    cpu_run(device, op->q.shape[0] * op->q.shape[2] * tiles, attention_forward_task, &job);
}
