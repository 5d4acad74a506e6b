// Bucketed gradient reduction and parameter gathering. See reducer.h.
#include "parallel/reducer.h"
#include "base/error.h"
#include "base/memory.h"

#include <stdlib.h>

// Checks what norms, replica checks and checkpoints rely on: ranks along the group's slices all hold a tensor whole, or
// each holds another part.
static void check_slices(const struct param_list *params, const struct mesh *mesh) {
    for (int i = 0; i < params->count; i++) {
        const struct shard *shard = &params->items[i]->shard;
        unsigned slices = params->groups[params->items[i]->group].slices;
        CHECK(shard->parts == 1 ||
              (shard->parts == mesh_count(mesh, slices) && shard->part == mesh_index(mesh, mesh->place, slices)));
    }
}

// Whether a group has no matrices of blocks; reducer_await waits for those one by one.
static bool has_no_matrix(const struct param_list *params, int group) {
    for (int i = 0; i < params->count; i++) {
        const struct param *param = params->items[i];
        if (param->group == group && param->shard.rank >= 2 && param->has_decay && !param->is_vocabulary &&
            !param->is_table)
            return false;
    }
    return true;
}

void reducer_open(struct reducer *reducer, const struct param_list *params, const struct reducer_options *options) {
    *reducer = (struct reducer){.count = params->group_count,
                                .overlaps_reduction = options->overlaps_reduction,
                                .overlaps_gather = options->overlaps_gather};
    if (options->mesh)
        check_slices(params, options->mesh);
    for (int i = 0; i < params->group_count; i++) {
        const struct param_group *group = &params->groups[i];
        bool is_shared = group->whole_first > group->counted_first;
        int64_t falling_end = is_shared ? group->whole_first : group->decayed;
        size_t buckets = (size_t)pieces_bucket_count(&options->pieces[i]);
        reducer->groups[i] = (struct reducer_group){
            .replicas = options->mesh ? mesh_group(options->mesh, group->replicas) : NULL,
            .pieces = options->pieces[i],
            .falling = (falling_end - group->first) / options->pieces[i].bucket,
            .is_needed_first = has_no_matrix(params, i),
            .is_rounded = options->is_rounded && options->mesh && mesh_count(options->mesh, group->replicas) > 1,
            .sums = memory_alloc(sizeof(struct comm_request) * buckets),
            .parts = memory_alloc(sizeof(struct comm_request) * buckets)};
    }
}

void reducer_close(struct reducer *reducer) {
    reducer_settle(reducer);
    for (int i = 0; i < reducer->count; i++) {
        free(reducer->groups[i].sums);
        free(reducer->groups[i].parts);
    }
    *reducer = (struct reducer){0};
}

void reducer_bind(struct reducer *reducer, const struct reducer_buffers *buffers) {
    reducer->device = buffers->device;
    reducer->values = buffers->values;
    reducer->grads = buffers->grads;
    reducer->squares = buffers->squares;
    for (int i = 0; i < reducer->count; i++) {
        struct reducer_group *group = &reducer->groups[i];
        int64_t buckets = pieces_bucket_count(&group->pieces),
                slots = buckets < REDUCER_SLOTS ? buckets : REDUCER_SLOTS;
        if (group->is_rounded && buffers->grads.data && buckets > 0)
            group->rounded = arena_1d(buffers->arena, DTYPE_BF16, slots * pieces_bucket(&group->pieces, 0).count);
    }
}

static bool is_alone(const struct reducer_group *group) {
    return !group->replicas || group_size(group->replicas) == 1;
}

static bool is_divided(const struct reducer_group *group) {
    return group->pieces.parts > 1;
}

bool reducer_has_peers(const struct reducer *reducer) {
    bool has = false;
    for (int i = 0; i < reducer->count; i++)
        has = has || !is_alone(&reducer->groups[i]);
    return has;
}

bool reducer_is_divided(const struct reducer *reducer) {
    bool is = false;
    for (int i = 0; i < reducer->count; i++)
        is = is || is_divided(&reducer->groups[i]);
    return is;
}

static struct tensor rows_of(struct tensor flat, struct piece piece) {
    return tensor_rows(flat, piece.flat_offset, piece.count);
}

// The bucket of sum number n of a step: first those that become final early, in descending order, then the others.
static int64_t summed(const struct reducer_group *group, int64_t n) {
    return n < group->falling ? group->falling - 1 - n : n;
}

// A piece of the bucket of sum number n, in the buffer that is summed.
static struct tensor summed_rows(const struct reducer *reducer, const struct reducer_group *group, int64_t n,
                                 struct piece piece) {
    if (!group->is_rounded)
        return rows_of(reducer->grads, piece);
    int64_t slot = n % REDUCER_SLOTS * pieces_bucket(&group->pieces, 0).count;
    int64_t offset = piece.flat_offset - pieces_bucket(&group->pieces, summed(group, n)).flat_offset;
    return tensor_rows(group->rounded, slot + offset, piece.count);
}

static void end_sum(struct reducer *reducer, struct reducer_group *group) {
    int64_t n = group->ended++, i = summed(group, n);
    struct piece own = pieces_own(&group->pieces, i);
    comm_wait(&group->sums[i]);
    if (group->is_rounded)
        op_copy(reducer->device,
                &(struct op_copy){.dst = rows_of(reducer->grads, own), .src = summed_rows(reducer, group, n, own)});
}

static void add_squares(struct reducer *reducer, struct piece bucket) {
    if (reducer->squares.data)
        op_sum_squares(reducer->device,
                       &(struct op_sum_squares){.out = reducer->squares, .x = rows_of(reducer->grads, bucket)});
}

static void begin_sum(struct reducer *reducer, struct reducer_group *group) {
    if (group->is_rounded && group->begun - group->ended == REDUCER_SLOTS)
        end_sum(reducer, group);
    int64_t n = group->begun++, i = summed(group, n);
    struct piece bucket = pieces_bucket(&group->pieces, i);
    struct tensor whole = summed_rows(reducer, group, n, bucket);
    add_squares(reducer, bucket);
    if (group->is_rounded)
        op_copy(reducer->device, &(struct op_copy){.dst = whole, .src = rows_of(reducer->grads, bucket)});
    if (is_divided(group))
        group->sums[i] = comm_reduce_scatter_start(
            group->replicas, summed_rows(reducer, group, n, pieces_own(&group->pieces, i)), whole, "gradients");
    else
        group->sums[i] = comm_all_reduce_start(group->replicas, whole, REDUCE_SUM, "gradients");
    if (reducer->overlaps_reduction)
        comm_overlap(&group->sums[i]);
}

void reducer_final_from(struct reducer *reducer, const struct param *param) {
    struct reducer_group *group = &reducer->groups[param->group];
    if (!reducer->overlaps_reduction || is_alone(group))
        return;
    while (group->begun < group->falling &&
           pieces_bucket(&group->pieces, summed(group, group->begun)).flat_offset >= param->offset)
        begin_sum(reducer, group);
}

void reducer_sum(struct reducer *reducer) {
    for (int i = 0; i < reducer->count; i++) {
        struct reducer_group *group = &reducer->groups[i];
        int64_t buckets = pieces_bucket_count(&group->pieces);
        while (!is_alone(group) && group->begun < buckets)
            begin_sum(reducer, group);
        for (int64_t n = 0; is_alone(group) && n < buckets; n++)
            add_squares(reducer, pieces_bucket(&group->pieces, n));
    }
}

void reducer_wait(struct reducer *reducer) {
    for (int i = 0; i < reducer->count; i++) {
        struct reducer_group *group = &reducer->groups[i];
        while (group->ended < group->begun)
            end_sum(reducer, group);
        group->begun = group->ended = 0;
    }
}

// The bucket number i of a group in the order in which a forward pass needs them: the first block already needs norms
// and biases.
static int64_t needed(const struct reducer_group *group, int64_t i) {
    int64_t last = pieces_bucket_count(&group->pieces) - group->falling;
    return i < last ? group->falling + i : i - last;
}

int64_t reducer_bucket_count(const struct reducer *reducer) {
    int64_t count = 0;
    for (int i = 0; i < reducer->count; i++)
        count += pieces_bucket_count(&reducer->groups[i].pieces);
    return count;
}

// The group of bucket number *n of all groups; sets *n to its number in the group.
static int find_group(const struct reducer *reducer, int64_t *n) {
    int i = 0;
    for (; i < reducer->count && *n >= pieces_bucket_count(&reducer->groups[i].pieces); i++)
        *n -= pieces_bucket_count(&reducer->groups[i].pieces);
    CHECK(i < reducer->count);
    return i;
}

struct piece reducer_needed(const struct reducer *reducer, int64_t n) {
    const struct reducer_group *group = &reducer->groups[find_group(reducer, &n)];
    return pieces_bucket(&group->pieces, needed(group, n));
}

int reducer_group_of(const struct reducer *reducer, int64_t n, bool *is_first) {
    int group = find_group(reducer, &n);
    *is_first = n == 0;
    return group;
}

// Waits until at most `left` buckets of a group are being gathered.
static void await_buckets(struct reducer_group *group, int64_t left) {
    for (; group->ungathered > left; group->ungathered--)
        comm_wait(&group->parts[needed(group, pieces_bucket_count(&group->pieces) - group->ungathered)]);
}

void reducer_gather(struct reducer *reducer, int64_t n) {
    struct reducer_group *group = &reducer->groups[find_group(reducer, &n)];
    if (is_alone(group) || !is_divided(group))
        return;
    int64_t i = needed(group, n);
    if (n == 0)
        await_buckets(group, 0);  // buckets of the last step that no block of this rank needed
    group->parts[i] = comm_all_gather_start(group->replicas, rows_of(reducer->values, pieces_bucket(&group->pieces, i)),
                                            rows_of(reducer->values, pieces_own(&group->pieces, i)), "parameters");
    if (reducer->overlaps_gather)
        comm_overlap(&group->parts[i]);
    group->ungathered++;
    if (!reducer->overlaps_gather && group->ungathered == pieces_bucket_count(&group->pieces))
        await_buckets(group, 0);
}

void reducer_await(struct reducer *reducer, const struct param *param) {
    struct reducer_group *group = &reducer->groups[param->group];
    int64_t end = param->offset + shard_local_count(&param->shard) - group->pieces.first;
    int64_t bucket = group->pieces.bucket, arrived = (end + bucket - 1) / bucket;
    for (int i = 0; i < reducer->count; i++)
        if (reducer->groups[i].is_needed_first)
            await_buckets(&reducer->groups[i], 0);
    await_buckets(group, arrived < group->falling ? group->falling - arrived : 0);
}

void reducer_settle(struct reducer *reducer) {
    for (int i = 0; i < reducer->count; i++)
        await_buckets(&reducer->groups[i], 0);
}
