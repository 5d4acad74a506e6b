// The backward pass of attention, from the saved log-sum-exp: tiles of probabilities are computed again rather than
// stored. A task owns one key/value head of one sample, with all query heads that use it, so every gradient is written
// by one task in a fixed order. With P the probabilities, f the dropout factors (1 where off) and s the scale:
//   dV = (P f)^T dO,  dP = (dO V^T) f,  dS = P (dP - rowsum(dO O)),  dQ = s dS K,  dK = s dS^T Q.
// A cap multiplies dS by its slope, 1 - tanh^2. A sink has no value: its gradient is the sum of -P rowsum(dO O).
#include "ops/cpu/attention.h"
#include "ops/cpu/block.h"
#include "ops/cpu/dropout.h"
#include "ops/cpu/vector_math.h"
#include <string.h>

struct backward_job {
    const struct op_attention_backward *op;
    const struct cpu_kernel *kernel;  // for matmuls, NULL for OpenBLAS
};

struct backward_tile {
    const struct cpu_kernel *kernel;
    float probabilities[QUERY_TILE * KEY_TILE];  // P
    float gradients[QUERY_TILE * KEY_TILE];      // dropped P, then dP, then dS
    float factors[QUERY_TILE * KEY_TILE];        // f
    float slopes[QUERY_TILE * KEY_TILE];         // of the cap
    bool is_wide;                         // the head has several slices: no operand is packed for several matmuls
    struct block_panels keys, values;     // (keys, D), of the current tile of keys; not if wide
    struct block_panels keys_transposed;  // (D, keys), times the scale; not if wide
    struct block_panels left, right;      // other operands, one matmul at a time
};

struct backward_place {
    int64_t b, head, group;
    struct attention_rules rules;
    struct cpu_range queries;
    int64_t first_key, keys;
    bool is_first;  // first queries for this tile of keys: dk and dv are written, later ones add to them
    // With a mask no query is guaranteed to see a key: gradients start as zeros, and all tiles add to them.
    bool is_masked;
};

CPU_CLONES static float row_dot(const float *a, const float *b, int64_t count) {
    float sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < count; i++)
        sum += a[i] * b[i];
    return sum;
}

CPU_CLONES static void row_probabilities(float *x, float lse, struct cpu_range seen, int64_t count) {
#pragma omp simd
    for (int64_t j = seen.first; j < seen.end; j++)
        x[j] = vector_exp(x[j] - lse);
    for (int64_t j = 0; j < seen.first; j++)
        x[j] = 0;
#pragma omp simd
    for (int64_t j = seen.end; j < count; j++)
        x[j] = 0;
}

CPU_CLONES static void row_add(float *x, const float *y, int64_t count) {
#pragma omp simd
    for (int64_t j = 0; j < count; j++)
        x[j] += y[j];
}

CPU_CLONES static void row_product(float *out, const float *a, const float *b, int64_t count) {
#pragma omp simd
    for (int64_t j = 0; j < count; j++)
        out[j] = a[j] * b[j];
}

// x = cap tanh(x / cap), and the slopes of that.
CPU_CLONES static void row_cap(float *x, float *slopes, float cap, int64_t count) {
    float inverse = 1.0f / cap;
#pragma omp simd
    for (int64_t j = 0; j < count; j++) {
        float t = vector_tanh(x[j] * inverse);
        x[j] = cap * t;
        slopes[j] = 1.0f - t * t;
    }
}

// g = p * (g - dot), or p * (g * f - dot) with dropout.
struct score_gradient {
    float *g;
    const float *p, *factors;  // factors may be NULL
    float dot;
};

CPU_CLONES static void row_gradient(const struct score_gradient *row, int64_t count) {
    float *g = row->g, dot = row->dot;
    const float *p = row->p, *factors = row->factors;
    if (factors) {
#pragma omp simd
        for (int64_t j = 0; j < count; j++)
            g[j] = p[j] * (g[j] * factors[j] - dot);
    } else {
#pragma omp simd
        for (int64_t j = 0; j < count; j++)
            g[j] = p[j] * (g[j] - dot);
    }
}

// to (queries, KEY_TILE) = rows (queries, D) times the tile's keys or values (keys, D), transposed. The latter are
// already packed unless the head is wide: then both sides are packed slice by slice.
struct key_matmul {
    struct block_operand rows;
    struct block_panels *panels;  // NULL if wide
    float *to;
};

static void multiply_with_keys(const struct tensor *keys, struct backward_tile *tile, const struct backward_place *at,
                               struct key_matmul matmul) {
    struct block_operand all = attention_block(keys, at->b, at->first_key, at->group, at->keys);
    for (int64_t channel = 0; channel < keys->shape[3]; channel += HEAD_SLICE) {
        struct block_operand left = attention_slice(matmul.rows, channel), right = attention_slice(all, channel);
        block_put(&tile->left, &left, tile->kernel);
        if (!matmul.panels)
            block_put(&tile->right, &right, tile->kernel);
        block_multiply(&(struct block_matmul){&tile->left, matmul.panels ? matmul.panels : &tile->right, at->keys,
                                              matmul.to, KEY_TILE, channel > 0});
    }
}

static void compute_probabilities(const struct op_attention_backward *op, struct backward_tile *tile,
                                  const struct backward_place *at) {
    int64_t query_count = op->q.shape[1];
    int64_t queries = at->queries.end - at->queries.first;
    const float *lse = (const float *)op->lse.data + (at->b * op->q.shape[2] + at->head) * query_count;
    struct block_operand query_block = attention_block(&op->q, at->b, at->queries.first, at->head, queries);
    query_block.factor = op->scale;
    multiply_with_keys(&op->k, tile, at,
                       (struct key_matmul){query_block, tile->is_wide ? NULL : &tile->keys, tile->probabilities});
    for (int64_t i = 0; i < queries; i++) {
        int64_t query = at->queries.first + i;
        struct cpu_range seen = attention_within(attention_seen(&at->rules, at->b, query), at->first_key, at->keys);
        const float *bias = attention_bias_row(&at->rules, at->head, query);
        if (op->scores.cap > 0)
            row_cap(tile->probabilities + i * KEY_TILE, tile->slopes + i * KEY_TILE, op->scores.cap, at->keys);
        if (bias)
            row_add(tile->probabilities + i * KEY_TILE, bias + at->first_key, at->keys);
        row_probabilities(tile->probabilities + i * KEY_TILE, lse[query], seen, at->keys);
        if (op->dropout.rate == 0)
            continue;
        struct dropout_row row = dropout_attention_row(&op->dropout, at->b * query_count + query, at->head);
        float *factors = tile->factors + i * KEY_TILE;
        dropout_factors(factors, &row, at->first_key, at->keys);
        row_product(tile->gradients + i * KEY_TILE, tile->probabilities + i * KEY_TILE, factors, at->keys);
    }
}

static void compute_score_gradients(const struct op_attention_backward *op, struct backward_tile *tile,
                                    const struct backward_place *at) {
    int64_t queries = at->queries.end - at->queries.first;
    const float *dots = (const float *)op->scratch.data + (at->b * op->q.shape[2] + at->head) * op->q.shape[1];
    struct block_operand dout = attention_block(&op->dout, at->b, at->queries.first, at->head, queries);
    multiply_with_keys(&op->v, tile, at,
                       (struct key_matmul){dout, tile->is_wide ? NULL : &tile->values, tile->gradients});
    for (int64_t i = 0; i < queries; i++) {
        struct score_gradient row = {
            .g = tile->gradients + i * KEY_TILE,
            .p = tile->probabilities + i * KEY_TILE,
            .factors = op->dropout.rate == 0 ? NULL : tile->factors + i * KEY_TILE,
            .dot = dots[at->queries.first + i],
        };
        row_gradient(&row, at->keys);
        if (op->scores.cap > 0)
            row_product(row.g, row.g, tile->slopes + i * KEY_TILE, at->keys);
    }
}

// The gradient of a distance's bias is the sum of all score gradients at that distance.
static void add_bias_gradients(const struct op_attention_backward *op, const struct backward_tile *tile,
                               const struct backward_place *at) {
    int64_t query_count = op->q.shape[1], width = op->drelative_bias.shape[2];
    float *dbias = (float *)op->drelative_bias.data + (at->b * op->q.shape[2] + at->head) * width;
    for (int64_t query = at->queries.first; query < at->queries.end; query++)
        row_add(dbias + query_count - 1 - query + at->first_key,
                tile->gradients + (query - at->queries.first) * KEY_TILE, at->keys);
}

// to (keys, D) gets scores^T rows, with scores (queries, keys) and rows (queries, D).
static void add_to_keys(struct backward_tile *tile, const struct backward_place *at, const float *scores,
                        struct block_operand rows, const struct tensor *to) {
    struct block_operand transposed = {{scores, DTYPE_F32, KEY_TILE, true}, at->keys, rows.lines, 1};
    block_put(&tile->left, &transposed, tile->kernel);
    for (int64_t channel = 0; channel < to->shape[3]; channel += HEAD_SLICE) {
        struct block_operand slice = block_transposed(attention_slice(rows, channel));
        block_put(&tile->right, &slice, tile->kernel);
        block_multiply(&(struct block_matmul){&tile->left, &tile->right, slice.lines,
                                              attention_row(to, at->b, at->first_key, at->group) + channel,
                                              to->stride[1], !at->is_first || at->is_masked});
    }
}

// dq (queries, D) gets the score gradients (queries, keys) times the scaled keys (keys, D).
static void add_to_queries(const struct op_attention_backward *op, struct backward_tile *tile,
                           const struct backward_place *at) {
    int64_t queries = at->queries.end - at->queries.first;
    struct block_operand gradients = {{tile->gradients, DTYPE_F32, KEY_TILE, false}, queries, at->keys, 1};
    struct block_operand keys = attention_block(&op->k, at->b, at->first_key, at->group, at->keys);
    keys.factor = op->scale;
    block_put(&tile->left, &gradients, tile->kernel);
    for (int64_t channel = 0; channel < op->q.shape[3]; channel += HEAD_SLICE) {
        struct block_operand slice = block_transposed(attention_slice(keys, channel));
        if (tile->is_wide)
            block_put(&tile->right, &slice, tile->kernel);
        block_multiply(&(struct block_matmul){&tile->left, tile->is_wide ? &tile->right : &tile->keys_transposed,
                                              slice.lines,
                                              attention_row(&op->dq, at->b, at->queries.first, at->head) + channel,
                                              op->dq.stride[1], at->first_key > 0 || at->is_masked});
    }
}

static void backward_tile(const struct op_attention_backward *op, struct backward_tile *tile,
                          const struct backward_place *at) {
    int64_t queries = at->queries.end - at->queries.first;
    compute_probabilities(op, tile, at);
    add_to_keys(tile, at, op->dropout.rate == 0 ? tile->probabilities : tile->gradients,
                attention_block(&op->dout, at->b, at->queries.first, at->head, queries), &op->dv);
    compute_score_gradients(op, tile, at);
    if (op->drelative_bias.data)
        add_bias_gradients(op, tile, at);
    add_to_queries(op, tile, at);
    struct block_operand scaled = attention_block(&op->q, at->b, at->queries.first, at->head, queries);
    scaled.factor = op->scale;
    add_to_keys(tile, at, tile->gradients, scaled, &op->dk);
}

// scratch = rowsum(dO O) of one head.
static void row_dots(const struct op_attention_backward *op, int64_t b, int64_t head) {
    int64_t query_count = op->q.shape[1];
    float *dots = (float *)op->scratch.data + (b * op->q.shape[2] + head) * query_count;
    for (int64_t t = 0; t < query_count; t++)
        dots[t] = row_dot(attention_row(&op->dout, b, t, head), attention_row(&op->out, b, t, head), op->v.shape[3]);
}

// A query that sees no key gives all its weight to the sink, and its dot is 0.
static void sink_gradient(const struct op_attention_backward *op, int64_t b, int64_t head) {
    int64_t query_count = op->q.shape[1], heads = op->q.shape[2], first = (b * heads + head) * query_count;
    const float *dots = (const float *)op->scratch.data + first, *lse = (const float *)op->lse.data + first;
    float sink = ((const float *)op->scores.sinks.data)[head];
    double sum = 0;
    for (int64_t t = 0; t < query_count; t++)
        sum -= (double)(vector_exp(sink - lse[t]) * dots[t]);
    ((float *)op->dsinks.data)[b * heads + head] = (float)sum;
}

static void put_keys(const struct op_attention_backward *op, struct backward_tile *tile,
                     const struct backward_place *at, int64_t keys) {
    struct block_operand key_block = attention_block(&op->k, at->b, at->first_key, at->group, keys);
    struct block_operand value_block = attention_block(&op->v, at->b, at->first_key, at->group, keys);
    block_put(&tile->keys, &key_block, tile->kernel);
    block_put(&tile->values, &value_block, tile->kernel);
    key_block.factor = op->scale;
    key_block = block_transposed(key_block);
    block_put(&tile->keys_transposed, &key_block, tile->kernel);
}

// The end, counted from first_key, of the keys before first_key + keys that some query sees; 0 if it sees none.
static int64_t tile_keys(const struct backward_place *at, int64_t keys) {
    int64_t most = 0;
    // Without a mask later queries never see less.
    for (int64_t query = at->is_masked ? at->queries.first : at->queries.end - 1; query < at->queries.end; query++) {
        struct cpu_range seen = attention_within(attention_seen(&at->rules, at->b, query), at->first_key, keys);
        most = seen.end > seen.first && seen.end > most ? seen.end : most;
    }
    return most;
}

// All query heads of a group against one tile of keys. Queries go from last to first: without a mask the last ones see
// all of these keys, so dk and dv are written whole before others add to a part of them.
static void backward_key_tile(const struct op_attention_backward *op, struct backward_tile *tile,
                              struct backward_place *at, int64_t keys) {
    int64_t query_count = op->q.shape[1], offset = op->k.shape[1] - query_count;
    int64_t heads_per_group = op->q.shape[2] / op->k.shape[2], first_head = at->group * heads_per_group;
    // The first query that sees any of these keys, down to the start of its tile.
    int64_t first_query = op->is_causal && at->first_key > offset ? at->first_key - offset : 0;
    int64_t end_query = at->is_masked ? attention_queries_before(&at->rules, at->b, at->first_key + keys) : query_count;
    at->is_first = true;
    if (!tile->is_wide)
        put_keys(op, tile, at, keys);
    for (at->head = first_head; at->head < first_head + heads_per_group; at->head++) {
        for (int64_t i = cpu_pieces(end_query, QUERY_TILE) - 1; i >= first_query / QUERY_TILE; i--) {
            at->queries = cpu_piece(query_count, QUERY_TILE, i);
            at->keys = tile_keys(at, keys);
            if (at->keys > 0)
                backward_tile(op, tile, at);
            at->is_first = false;
        }
    }
}

static void clear_rows(const struct tensor *t, int64_t b, int64_t head) {
    for (int64_t i = 0; i < t->shape[1]; i++)
        memset(attention_row(t, b, i, head), 0, (size_t)t->shape[3] * sizeof(float));
}

static void attention_backward_task(void *context, int64_t index, int thread) {
    (void)thread;
    const struct backward_job *job = context;
    const struct op_attention_backward *op = job->op;
    int64_t key_count = op->k.shape[1], groups = op->k.shape[2], heads_per_group = op->q.shape[2] / groups;
    struct backward_place at = {.b = index / groups,
                                .group = index % groups,
                                .rules = {op->q.shape[1], key_count, op->is_causal, &op->mask},
                                .is_masked = attention_has_mask(&op->mask)};
    struct backward_tile tile;
    tile.kernel = job->kernel;
    tile.is_wide = op->q.shape[3] > HEAD_SLICE || op->v.shape[3] > HEAD_SLICE;
    for (int64_t head = at.group * heads_per_group; head < (at.group + 1) * heads_per_group; head++) {
        row_dots(op, at.b, head);
        if (op->dsinks.data)
            sink_gradient(op, at.b, head);
        if (at.is_masked)
            clear_rows(&op->dq, at.b, head);
    }
    if (at.is_masked) {
        clear_rows(&op->dk, at.b, at.group);
        clear_rows(&op->dv, at.b, at.group);
    }
    for (at.first_key = 0; at.first_key < key_count; at.first_key += KEY_TILE)
        backward_key_tile(op, &tile, &at, key_count - at.first_key < KEY_TILE ? key_count - at.first_key : KEY_TILE);
}

void cpu_attention_backward(struct device *device, const struct op_attention_backward *op) {
    struct backward_job job = {op, cpu_kernel(device, DTYPE_F32)};
    cpu_run(device, op->q.shape[0] * op->k.shape[2], attention_backward_task, &job);
}
