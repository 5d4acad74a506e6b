// The largest score of each head. A task has one head and walks over tiles of queries and keys; keys that no query of a
// tile sees are skipped.
#include "ops/cpu/attention.h"
#include "ops/cpu/cpu.h"

#include <math.h>
#include <string.h>

enum { CHANNELS = 128 };  // of a head, multiplied at once

struct score_tile {
    float queries[QUERY_TILE * CHANNELS], keys[KEY_TILE * CHANNELS];
    float scores[QUERY_TILE * KEY_TILE];
};

// Rows [first, first + count) of a head, of at most CHANNELS channels from `channel` on; the rest is 0.
static void load_rows(float *to, const struct tensor *t, const int64_t at[2], int64_t first, int64_t count,
                      int64_t channel) {
    int64_t channels = t->shape[3] - channel < CHANNELS ? t->shape[3] - channel : CHANNELS;
    size_t bytes = dtype_bytes(t->dtype);
    memset(to, 0, sizeof(float) * (size_t)(count * CHANNELS));
    for (int64_t i = 0; i < count; i++) {
        int64_t offset = at[0] * t->stride[0] + (first + i) * t->stride[1] + at[1] * t->stride[2] + channel;
        cpu_convert(to + i * CHANNELS, DTYPE_F32, (const unsigned char *)t->data + (size_t)offset * bytes, t->dtype,
                    channels);
    }
}

CPU_CLONES static void add_products(struct score_tile *tile, int64_t queries, int64_t keys) {
    for (int64_t i = 0; i < queries; i++)
        for (int64_t j = 0; j < keys; j++) {
            const float *query = tile->queries + i * CHANNELS, *key = tile->keys + j * CHANNELS;
            float sum = 0;
#pragma omp simd reduction(+ : sum)
            for (int c = 0; c < CHANNELS; c++)
                sum += query[c] * key[c];
            tile->scores[i * KEY_TILE + j] += sum;
        }
}

struct scores_place {
    int64_t b, head;
    struct cpu_range queries, keys;
};

static float largest_of_tile(const struct op_largest_scores *op, struct score_tile *tile, const struct scores_place *at,
                             const struct cpu_range *seen) {
    int64_t queries = at->queries.end - at->queries.first, keys = at->keys.end - at->keys.first;
    int64_t group = at->head / (op->q.shape[2] / op->k.shape[2]);
    float largest = 0;
    memset(tile->scores, 0, sizeof tile->scores);
    for (int64_t channel = 0; channel < op->q.shape[3]; channel += CHANNELS) {
        load_rows(tile->queries, &op->q, (const int64_t[]){at->b, at->head}, at->queries.first, queries, channel);
        load_rows(tile->keys, &op->k, (const int64_t[]){at->b, group}, at->keys.first, keys, channel);
        add_products(tile, queries, keys);
    }
    for (int64_t i = 0; i < queries; i++) {
        struct cpu_range within = attention_within(seen[i], at->keys.first, keys);
        for (int64_t j = within.first; j < within.end; j++)
            largest = fmaxf(largest, op->scale * tile->scores[i * KEY_TILE + j]);
    }
    return largest;
}

static void head_task(void *context, int64_t head, int thread) {
    (void)thread;
    const struct op_largest_scores *op = context;
    int64_t Tq = op->q.shape[1], Tk = op->k.shape[1];
    struct attention_rules rules = {Tq, Tk, op->is_causal, &op->mask};
    struct score_tile tile;
    float *largest = (float *)op->largest.data + head;
    for (int64_t n = 0; n < op->q.shape[0] * cpu_pieces(Tq, QUERY_TILE); n++) {
        struct scores_place at = {.b = n / cpu_pieces(Tq, QUERY_TILE), .head = head};
        at.queries = cpu_piece(Tq, QUERY_TILE, n % cpu_pieces(Tq, QUERY_TILE));
        struct cpu_range seen[QUERY_TILE], all = {Tk, 0};
        for (int64_t i = at.queries.first; i < at.queries.end; i++) {
            struct cpu_range own = seen[i - at.queries.first] = attention_seen(&rules, at.b, i);
            all.first = own.first < own.end && own.first < all.first ? own.first : all.first;
            all.end = own.first < own.end && own.end > all.end ? own.end : all.end;
        }
        for (at.keys.first = all.first; at.keys.first < all.end; at.keys.first = at.keys.end) {
            at.keys.end = at.keys.first + KEY_TILE < all.end ? at.keys.first + KEY_TILE : all.end;
            *largest = fmaxf(*largest, largest_of_tile(op, &tile, &at, seen));
        }
    }
}

void cpu_largest_scores(struct device *device, const struct op_largest_scores *op) {
    cpu_run(device, op->q.shape[2], head_task, op);
}
