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
                                .overlaps_gather = options->overlaps_gather,
                                .is_rounded = options->is_rounded};
    size_t buckets = (size_t)pieces_bucket_count(&options->pieces);
    reducer->sums = memory_alloc(sizeof *reducer->sums * buckets);
    reducer->parts = memory_alloc(sizeof *reducer->parts * buckets);
}

void reducer_close(struct reducer *reducer) {
    if (!reducer->sums)
        return;
    reducer_settle(reducer);
    free(reducer->sums);
    free(reducer->parts);
    *reducer = (struct reducer){0};
}

void reducer_bind(struct reducer *reducer, const struct reducer_buffers *buffers) {
    reducer->device = buffers->device;
    reducer->values = buffers->values;
    reducer->grads = buffers->grads;
    if (!reducer->is_rounded || !buffers->grads.data)
        return;
    int64_t buckets = pieces_bucket_count(&reducer->pieces), slots = buckets < REDUCER_SLOTS ? buckets : REDUCER_SLOTS;
    reducer->rounded = arena_1d(buffers->arena, DTYPE_BF16, slots * pieces_bucket(&reducer->pieces, 0).count);
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

// The bucket that is summed as number n of a step: those that become final early in descending order, then the others.
static int64_t summed(const struct reducer *reducer, int64_t n) {
    return n < reducer->falling ? reducer->falling - 1 - n : n;
}

// A piece of the bucket that is summed as number n, where its sum is made.
static struct tensor summed_rows(const struct reducer *reducer, int64_t n, struct piece piece) {
    if (!reducer->is_rounded)
        return rows_of(reducer->grads, piece);
    int64_t slot = n % REDUCER_SLOTS * pieces_bucket(&reducer->pieces, 0).count;
    int64_t offset = piece.flat_offset - pieces_bucket(&reducer->pieces, summed(reducer, n)).flat_offset;
    return tensor_rows(reducer->rounded, slot + offset, piece.count);
}

static void end_sum(struct reducer *reducer) {
    int64_t n = reducer->ended++, i = summed(reducer, n);
    struct piece own = pieces_own(&reducer->pieces, i);
    comm_wait(&reducer->sums[i]);
    if (reducer->is_rounded)
        op_copy(reducer->device,
                &(struct op_copy){.dst = rows_of(reducer->grads, own), .src = summed_rows(reducer, n, own)});
}

static void begin_sum(struct reducer *reducer) {
    if (reducer->is_rounded && reducer->begun - reducer->ended == REDUCER_SLOTS)
        end_sum(reducer);
    int64_t n = reducer->begun++, i = summed(reducer, n);
    struct piece bucket = pieces_bucket(&reducer->pieces, i);
    struct tensor whole = summed_rows(reducer, n, bucket);
    if (reducer->is_rounded)
        op_copy(reducer->device, &(struct op_copy){.dst = whole, .src = rows_of(reducer->grads, bucket)});
    if (is_divided(reducer))
        reducer->sums[i] = comm_reduce_scatter_start(
            reducer->replicas, summed_rows(reducer, n, pieces_own(&reducer->pieces, i)), whole, "gradients");
    else
        reducer->sums[i] = comm_all_reduce_start(reducer->replicas, whole, REDUCE_SUM, "gradients");
    if (reducer->overlaps_reduction)
        comm_overlap(&reducer->sums[i]);
}

void reducer_final_from(struct reducer *reducer, int64_t offset) {
    if (!reducer->overlaps_reduction || is_alone(reducer))
        return;
    while (reducer->begun < reducer->falling &&
           pieces_bucket(&reducer->pieces, summed(reducer, reducer->begun)).flat_offset >= offset)
        begin_sum(reducer);
}

void reducer_sum(struct reducer *reducer) {
    if (is_alone(reducer))
        return;
    while (reducer->begun < pieces_bucket_count(&reducer->pieces))
        begin_sum(reducer);
}

void reducer_wait(struct reducer *reducer) {
    while (reducer->ended < reducer->begun)
        end_sum(reducer);
    reducer->begun = reducer->ended = 0;
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
