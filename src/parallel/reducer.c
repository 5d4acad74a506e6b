// Bucketed gradient reduction and parameter gathering. See reducer.h.
#include "parallel/reducer.h"
#include "base/memory.h"

#include <stdlib.h>

void reducer_open(struct reducer *reducer, const struct param_list *params, const struct reducer_options *options) {
    bool is_shared = params->whole_first > params->counted_first;
    int64_t falling_end = is_shared ? params->whole_first : params->decayed;
    *reducer = (struct reducer){.replicas = options->replicas,
                                .pieces = options->pieces,
                                .falling = falling_end / options->pieces.bucket,
                                .overlaps_reduction = options->overlaps_reduction,
                                .overlaps_gather = options->overlaps_gather};
    size_t buckets = (size_t)pieces_bucket_count(&options->pieces);
    reducer->sums = memory_alloc(sizeof *reducer->sums * buckets);
    reducer->parts = memory_alloc(sizeof *reducer->parts * buckets);
    reducer->unsummed = reducer->falling;
}

void reducer_close(struct reducer *reducer) {
    if (!reducer->sums)
        return;
    reducer_settle(reducer);
    free(reducer->sums);
    free(reducer->parts);
    *reducer = (struct reducer){0};
}

void reducer_bind(struct reducer *reducer, struct tensor values, struct tensor grads) {
    reducer->values = values;
    reducer->grads = grads;
}

static bool is_alone(const struct reducer *reducer) {
    return !reducer->replicas || group_size(reducer->replicas) == 1;
}

static bool is_divided(const struct reducer *reducer) {
    return reducer->pieces.parts > 1;
}

static struct tensor rows_of(struct tensor flat, struct piece piece) {
    return tensor_rows(flat, piece.flat_offset, piece.count);
}

static void start_sum(struct reducer *reducer, int64_t i) {
    struct tensor whole = rows_of(reducer->grads, pieces_bucket(&reducer->pieces, i));
    if (is_divided(reducer))
        reducer->sums[i] = comm_reduce_scatter_start(
            reducer->replicas, rows_of(reducer->grads, pieces_own(&reducer->pieces, i)), whole, "gradients");
    else
        reducer->sums[i] = comm_all_reduce_start(reducer->replicas, whole, REDUCE_SUM, "gradients");
    if (reducer->overlaps_reduction)
        comm_overlap(&reducer->sums[i]);
}

static void start_falling(struct reducer *reducer, int64_t offset) {
    while (reducer->unsummed > 0 && pieces_bucket(&reducer->pieces, reducer->unsummed - 1).flat_offset >= offset)
        start_sum(reducer, --reducer->unsummed);
}

void reducer_final_from(struct reducer *reducer, int64_t offset) {
    if (reducer->overlaps_reduction && !is_alone(reducer))
        start_falling(reducer, offset);
}

void reducer_sum(struct reducer *reducer) {
    if (is_alone(reducer))
        return;
    start_falling(reducer, 0);
    for (int64_t i = reducer->falling; i < pieces_bucket_count(&reducer->pieces); i++)
        start_sum(reducer, i);
}

void reducer_wait(struct reducer *reducer) {
    if (is_alone(reducer))
        return;
    // In the order in which they were started.
    for (int64_t i = reducer->falling - 1; i >= 0; i--)
        comm_wait(&reducer->sums[i]);
    for (int64_t i = reducer->falling; i < pieces_bucket_count(&reducer->pieces); i++)
        comm_wait(&reducer->sums[i]);
    reducer->unsummed = reducer->falling;
}

// The buckets in the order in which a forward pass needs them: the first block already needs norms and biases.
static int64_t needed(const struct reducer *reducer, int64_t i) {
    int64_t last = pieces_bucket_count(&reducer->pieces) - reducer->falling;
    return i < last ? reducer->falling + i : i - last;
}

struct piece reducer_needed(const struct reducer *reducer, int64_t n) {
    return pieces_bucket(&reducer->pieces, needed(reducer, n));
}

void reducer_gather(struct reducer *reducer, int64_t n) {
    if (is_alone(reducer) || !is_divided(reducer))
        return;
    int64_t i = needed(reducer, n);
    reducer->parts[i] =
        comm_all_gather_start(reducer->replicas, rows_of(reducer->values, pieces_bucket(&reducer->pieces, i)),
                              rows_of(reducer->values, pieces_own(&reducer->pieces, i)), "parameters");
    if (reducer->overlaps_gather)
        comm_overlap(&reducer->parts[i]);
    reducer->ungathered++;
    if (!reducer->overlaps_gather && reducer->ungathered == pieces_bucket_count(&reducer->pieces))
        reducer_settle(reducer);
}

void reducer_await(struct reducer *reducer, int64_t end) {
    int64_t buckets = pieces_bucket_count(&reducer->pieces), bucket = reducer->pieces.bucket;
    int64_t falling = (end + bucket - 1) / bucket < reducer->falling ? (end + bucket - 1) / bucket : reducer->falling;
    for (; reducer->ungathered > reducer->falling - falling; reducer->ungathered--)
        comm_wait(&reducer->parts[needed(reducer, buckets - reducer->ungathered)]);
}

void reducer_settle(struct reducer *reducer) {
    reducer_await(reducer, reducer->pieces.total);
}
