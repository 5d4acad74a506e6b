// Checks that what several ranks hold is the same on all of them: parameters over the data-parallel ranks, and those
// that are not split over the ranks that share layers. A flipped bit, or a collective that gave ranks different sums,
// shows up here instead of in a drifting loss curve.
#include "base/error.h"
#include "base/hash.h"
#include "base/memory.h"
#include "step/step.h"

#include <stdlib.h>

enum { PIECE_BYTES = 1 << 22 };

static int64_t digest(struct device *device, struct tensor values, void *piece) {
    struct tensor flat = tensor_flat(values);
    int64_t most = PIECE_BYTES / (int64_t)dtype_bytes(flat.dtype);
    uint64_t hash = 0;
    for (int64_t first = 0, count; first < tensor_count(flat); first += count) {
        count = tensor_count(flat) - first < most ? tensor_count(flat) - first : most;
        struct tensor part = tensor_rows(flat, first, count);
        device_copy_out(device, piece, part);
        hash = hash_bytes(piece, tensor_bytes(part), hash);
    }
    return (int64_t)hash;
}

// The first parameter whose digests differ within the group, or -1. ~x reverses the order, so that one maximum over
// both gives the largest and the smallest digest.
static int first_difference(struct group *group, const int64_t *digests, const bool *is_compared, int count) {
    int64_t *ends = memory_alloc(sizeof *ends * 2 * (size_t)count);
    for (int i = 0; i < count; i++) {
        ends[i] = is_compared[i] ? digests[i] : 0;
        ends[count + i] = ~ends[i];
    }
    comm_max_i64(group, ends, 2 * count, "digests of the parameters");
    int found = -1;
    for (int i = count - 1; i >= 0; i--)
        found = ends[i] != ~ends[count + i] ? i : found;
    free(ends);
    return found;
}

// The first parameter that several stages hold with different values, or -1.
static int shared_difference(const struct step *step, const int64_t *digests) {
    int count = step->shared_count, found = -1;
    int64_t *ends = memory_alloc(sizeof *ends * 2 * (size_t)count);
    for (int i = 0; i < count; i++) {
        ends[i] = ends[count + i] = INT64_MIN;
        for (int k = 0; k < step->params.count; k++)
            if (step->params.items[k] == step->shared[i].param) {
                ends[i] = digests[k];
                ends[count + i] = ~digests[k];
            }
    }
    if (count > 0)
        comm_max_i64(step->mesh.group[AXIS_PIPELINE], ends, 2 * count, "digests of the parameters");
    for (int i = count - 1; i >= 0; i--)
        found = ends[i] != ~ends[count + i] ? i : found;
    free(ends);
    return found;
}

int step_check_replicas(struct step *step) {
    const struct mesh *mesh = &step->mesh;
    int count = step->params.count;
    step_settle(step);
    int64_t *digests = memory_alloc(sizeof *digests * (size_t)count);
    bool *is_compared = memory_alloc(sizeof *is_compared * (size_t)count);
    void *piece = memory_alloc(PIECE_BYTES);
    for (int i = 0; i < count; i++) {
        digests[i] = digest(step->device, step->params.items[i]->value, piece);
        is_compared[i] = true;
    }
    int differs = first_difference(mesh->replicas, digests, is_compared, count);
    const char *ranks = "data-parallel ranks";
    for (int i = 0; i < count; i++)
        is_compared[i] = step->params.items[i]->shard.parts == 1;
    int shared = first_difference(mesh->group[AXIS_TENSOR], digests, is_compared, count);
    if (differs < 0 && shared >= 0) {
        differs = shared;
        ranks = "ranks that share layers";
    }
    int held = shared_difference(step, digests);
    const char *name = differs >= 0 ? step->params.items[differs]->name : held >= 0 ? step->shared[held].name : NULL;
    if (differs < 0)
        ranks = "pipeline stages that hold it";
    free(piece);
    free(is_compared);
    free(digests);
    if (!name)
        return 0;
    return error_set("%s is not the same on all %s: memory or a link is faulty; go on from the last checkpoint, on "
                     "other machines if it happens again",
                     name, ranks);
}
