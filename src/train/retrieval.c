// Embedding, searching and counting. See evaluate.h.
#include "train/evaluate.h"
#include "base/error.h"
#include "base/memory.h"
#include "base/progress.h"
#include "data/loader.h"
#include "train/datasets.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { QUERIES_AT_ONCE = 64, BLOCKS_AT_ONCE = 1 << 15 };

// The embeddings of all samples of the source. Every rank has all blocks, and its own queries.
struct embedded {
    int64_t count, E;
    float *blocks;   // (count, E)
    float *queries;  // (own_count, E)
    int64_t *own;    // (own_count): the samples of the queries
    int64_t own_count;
};

static int64_t smaller(int64_t a, int64_t b) {
    return a < b ? a : b;
}

// Batch number i of all ranks; the last one ends with padding.
static int keep_batch(const struct retrieval *retrieval, struct embedded *embedded, int64_t i) {
    const struct mesh *mesh = step_mesh(retrieval->step);
    struct step_embeddings from = step_evaluated_embeddings(retrieval->step);
    struct device *device = step_device(retrieval->step);
    int64_t B = from.queries.shape[0], N = from.contexts.shape[0], E = from.queries.shape[1], first = i * N;
    if (!embedded->blocks) {
        size_t elements;
        if (!size_mul((size_t)embedded->count, (size_t)E * sizeof(float), &elements))
            return error_set("%" PRId64 " blocks are too many to search", embedded->count);
        embedded->E = E;
        embedded->blocks = memory_alloc(elements);
        embedded->queries = memory_alloc(elements);
        embedded->own = memory_alloc((size_t)embedded->count * sizeof *embedded->own);
    }
    int64_t mine = first + B * mesh_index(mesh, mesh->place, MESH_SAMPLES);
    int64_t blocks = smaller(N, embedded->count - first), queries = smaller(B, embedded->count - mine);
    device_copy_out(device, embedded->blocks + first * E, tensor_rows(from.contexts, 0, blocks));
    if (queries <= 0)
        return 0;
    device_copy_out(device, embedded->queries + embedded->own_count * E, tensor_rows(from.queries, 0, queries));
    for (int64_t b = 0; b < queries; b++)
        embedded->own[embedded->own_count++] = mine + b;
    return 0;
}

static int embed_all(const struct retrieval *retrieval, struct embedded *embedded) {
    struct step *step = retrieval->step;
    const struct mesh *mesh = step_mesh(step);
    struct loader_options options = {.source = retrieval->source,
                                     .micro_batch_size = retrieval->micro_batch_size,
                                     .dp_rank = mesh_index(mesh, mesh->place, MESH_SAMPLES),
                                     .dp_size = mesh_count(mesh, MESH_SAMPLES),
                                     .depth = 2,
                                     .eod = -1,
                                     .pad_last = true};
    struct loader *loader;
    TRY(loader_open(&loader, &options));
    int64_t batches = loader_batch_count(&options);
    struct progress progress;
    progress_begin(&progress, "embedding", "batches", (double)batches);
    int status = 0;
    for (int64_t i = 0; i < batches && status == 0; i++) {
        struct step_source one = datasets_source(loader, 1);
        status = step_evaluate(step, &one);
        if (status == 0)
            status = keep_batch(retrieval, embedded, i);
        progress_update(&progress, (double)(i + 1), NULL);
    }
    progress_end(&progress, NULL);
    loader_close(loader);
    return status;
}

void retrieval_best_open(struct retrieval_best *best, int64_t queries, int64_t most) {
    size_t count = (size_t)(queries * most);
    *best = (struct retrieval_best){.queries = queries,
                                    .most = most,
                                    .scores = memory_alloc(count * sizeof *best->scores),
                                    .blocks = memory_alloc(count * sizeof *best->blocks)};
    for (size_t i = 0; i < count; i++)
        best->blocks[i] = -1;
}

void retrieval_best_close(struct retrieval_best *best) {
    free(best->scores);
    free(best->blocks);
}

void retrieval_best_add(struct retrieval_best *best, int64_t query, const float *scores, int64_t first, int64_t count) {
    int64_t last = best->most - 1, *blocks = best->blocks + query * best->most;
    float *kept = best->scores + query * best->most;
    for (int64_t i = 0; i < count; i++) {
        if (scores[i] != scores[i] || (blocks[last] >= 0 && scores[i] <= kept[last]))
            continue;
        int64_t at = last;
        for (; at > 0 && (blocks[at - 1] < 0 || kept[at - 1] < scores[i]); at--) {
            kept[at] = kept[at - 1];
            blocks[at] = blocks[at - 1];
        }
        kept[at] = scores[i];
        blocks[at] = first + i;
    }
}

// Device memory for a chunk of queries and of blocks, and their scores.
struct block_search {
    struct device *device;
    void *memory;
    struct tensor queries, blocks, scores;  // (Q, E), (columns, E), (Q, columns) fp32, Q is QUERIES_AT_ONCE
    float *host;                            // the scores
};

static int search_open(struct block_search *search, struct device *device, int64_t blocks, int64_t E) {
    int64_t columns = smaller(blocks, BLOCKS_AT_ONCE), Q = QUERIES_AT_ONCE;
    *search = (struct block_search){.device = device};
    search->memory = device_alloc(device, (size_t)(Q * E + columns * E + Q * columns) * sizeof(float));
    if (!search->memory)
        return -1;
    // The widest first: matmuls on a GPU want rows at multiples of 16 bytes.
    float *at = search->memory;
    search->scores = tensor_2d(at, DTYPE_F32, Q, columns);
    search->queries = tensor_2d(at + Q * columns, DTYPE_F32, Q, E);
    search->blocks = tensor_2d(at + Q * columns + Q * E, DTYPE_F32, columns, E);
    search->host = memory_alloc((size_t)(Q * columns) * sizeof *search->host);
    return 0;
}

// The best blocks of queries [from, from + count) of this rank.
static void search_queries(const struct block_search *search, const struct embedded *embedded, int64_t from,
                           int64_t count, struct retrieval_best *best) {
    int64_t E = embedded->E;
    device_copy_in(search->device, tensor_rows(search->queries, 0, count), embedded->queries + from * E);
    for (int64_t first = 0, columns; first < embedded->count; first += columns) {
        columns = smaller(search->blocks.shape[0], embedded->count - first);
        struct tensor scores = tensor_2d(search->scores.data, DTYPE_F32, count, columns);
        device_copy_in(search->device, tensor_rows(search->blocks, 0, columns), embedded->blocks + first * E);
        op_matmul(search->device, &(struct op_matmul){.a = tensor_rows(search->queries, 0, count),
                                                      .b = tensor_rows(search->blocks, 0, columns),
                                                      .d = scores,
                                                      .transpose_b = true,
                                                      .alpha = 1,
                                                      .is_uneven = true});
        device_copy_out(search->device, search->host, scores);
        for (int64_t q = 0; q < count; q++)
            retrieval_best_add(best, q, search->host + q * columns, first, columns);
    }
}

static void count_hits(const struct retrieval *retrieval, const struct retrieval_best *best, const int64_t *own,
                       int64_t count, int64_t hits[OPS_MOST_TOPS]) {
    for (int64_t q = 0; q < count; q++)
        for (int64_t at = 0; at < best->most; at++)
            if (best->blocks[q * best->most + at] == own[q])
                for (int i = 0; i < retrieval->top_count; i++)
                    hits[i] += at < retrieval->tops[i];
}

static int search_all(const struct retrieval *retrieval, const struct embedded *embedded, int64_t queries,
                      int64_t hits[OPS_MOST_TOPS]) {
    struct block_search search;
    int64_t most = 1;
    for (int i = 0; i < retrieval->top_count; i++)
        most = retrieval->tops[i] > most ? retrieval->tops[i] : most;
    most = smaller(most, embedded->count);
    TRY(search_open(&search, step_device(retrieval->step), embedded->count, embedded->E));
    struct progress progress;
    progress_begin(&progress, "searching", "queries", (double)queries);
    for (int64_t from = 0, count; from < queries; from += count) {
        struct retrieval_best best;
        count = smaller(QUERIES_AT_ONCE, queries - from);
        retrieval_best_open(&best, count, most);
        search_queries(&search, embedded, from, count, &best);
        count_hits(retrieval, &best, embedded->own + from, count, hits);
        retrieval_best_close(&best);
        progress_update(&progress, (double)(from + count), NULL);
    }
    progress_end(&progress, NULL);
    device_free(search.device, search.memory);
    free(search.host);
    return 0;
}

// Adds up what the data-parallel ranks have counted.
static void sum_counts(const struct mesh *mesh, int64_t *counts, int count) {
    struct group *group = mesh->group[AXIS_DATA];
    int size = group_size(group);
    OWNED int64_t *table = memory_alloc((size_t)(size * count) * sizeof *table);
    memcpy(table + group_rank(group) * count, counts, (size_t)count * sizeof *counts);
    comm_all_gather_i64(group, table, count, "retrieval counts");
    for (int i = 0; i < count; i++) {
        counts[i] = 0;
        for (int rank = 0; rank < size; rank++)
            counts[i] += table[rank * count + i];
    }
}

// An embedding that is not finite is the nearest to nothing, and would be counted as a miss.
static int check_finite(const struct retrieval *retrieval, const struct embedded *embedded) {
    bool is_finite = true;
    for (int64_t i = 0; i < embedded->count * embedded->E; i++)
        is_finite = is_finite && isfinite(embedded->blocks[i]);
    for (int64_t i = 0; i < embedded->own_count * embedded->E; i++)
        is_finite = is_finite && isfinite(embedded->queries[i]);
    if (is_finite)
        return 0;
    return error_set_code(EXIT_CODE_NOT_FINITE,
                          "the embeddings of %s are not finite: the model's weights have NaN or infinity, or overflow "
                          "in this precision; load an earlier checkpoint",
                          retrieval->source.name);
}

int retrieval_run(const struct retrieval *retrieval, struct retrieval_result *result) {
    struct embedded embedded = {.count = retrieval->source.count};
    int64_t most = retrieval->max_queries > 0 ? retrieval->max_queries : embedded.count;
    int64_t counts[OPS_MOST_TOPS + 1] = {0}, *queries = &counts[OPS_MOST_TOPS];
    if (embedded.count == 0)
        return error_set_code(EXIT_CODE_BAD_DATA, "%s has no blocks to search", retrieval->source.name);
    int status = embed_all(retrieval, &embedded);
    if (status == 0)
        status = check_finite(retrieval, &embedded);
    if (status == 0) {
        // Samples come in ascending order.
        while (*queries < embedded.own_count && embedded.own[*queries] < most)
            ++*queries;
        status = search_all(retrieval, &embedded, *queries, counts);
    }
    free(embedded.blocks);
    free(embedded.queries);
    free(embedded.own);
    if (status < 0)
        return -1;
    sum_counts(step_mesh(retrieval->step), counts, OPS_MOST_TOPS + 1);
    *result = (struct retrieval_result){.blocks = embedded.count, .queries = *queries};
    for (int i = 0; i < retrieval->top_count; i++)
        result->accuracies[i] = (double)counts[i] / (double)*queries;
    return 0;
}
