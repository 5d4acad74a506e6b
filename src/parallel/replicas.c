// Digests of parameters, compared among the ranks that hold them. See replicas.h.
#include "parallel/replicas.h"
#include "base/memory.h"

#include <stdlib.h>

// Selects the compared parameters of a group: those that are split, or those that are not.
struct compared {
    int group;
    bool is_whole;
};

static bool is_compared(const struct param *param, struct compared compared) {
    return param->group == compared.group && (param->shard.parts == 1) == compared.is_whole;
}

// The first of them whose digests differ within a group of ranks, or -1. ~x reverses the order, so that one maximum
// over both gives the largest and the smallest digest.
static int first_difference(struct group *ranks, const struct param_list *params, const int64_t *digests,
                            struct compared compared) {
    int count = params->count, found = -1;
    int64_t *ends = memory_alloc(sizeof *ends * 2 * (size_t)count);
    for (int i = 0; i < count; i++) {
        ends[i] = is_compared(params->items[i], compared) ? digests[i] : 0;
        ends[count + i] = ~ends[i];
    }
    comm_max_i64(ranks, ends, 2 * count, "digests of the parameters");
    for (int i = count - 1; i >= 0; i--)
        found = ends[i] != ~ends[count + i] ? i : found;
    free(ends);
    return found;
}

static bool range_differs(const struct replicas_lab *lab, struct group *ranks, struct tensor flat, int64_t first,
                          int64_t end) {
    int64_t ends[2] = {0};
    device_zero(lab->device, lab->sum);
    op_digest(lab->device, &(struct op_digest){.out = lab->sum, .x = tensor_rows(flat, first, end - first)});
    device_copy_out(lab->device, &ends[0], lab->sum);
    ends[1] = ~ends[0];
    comm_max_i64(ranks, ends, 2, "digests of a parameter");
    return ends[0] != ~ends[1];
}

// The first element that is not the same on all of these ranks, found by bisection; -1 if there is none.
static int64_t find_element(const struct replicas_lab *lab, struct group *ranks, struct tensor value) {
    struct tensor flat = tensor_flat(value);
    int64_t first = 0, end = tensor_count(flat);
    if (!range_differs(lab, ranks, flat, first, end))
        return -1;
    while (end - first > 1) {
        int64_t middle = first + (end - first) / 2;
        if (range_differs(lab, ranks, flat, first, middle))
            end = middle;
        else
            first = middle;
    }
    return first;
}

// Number of ranks that have the same value as rank i.
static int count_votes(const int64_t *table, int size, int i) {
    int votes = 0;
    for (int k = 0; k < size; k++)
        votes += table[2 * k + 1] && table[2 * k] == table[2 * i];
    return votes;
}

static void add_rank(struct replicas_fault *fault, const struct mesh *mesh, unsigned axes, struct group *group, int i) {
    if (fault->count == REPLICAS_MOST_NAMED)
        return;
    int place[AXIS_COUNT];
    for (int axis = 0; axis < AXIS_COUNT; axis++)
        place[axis] = mesh->place[axis];
    mesh_move(mesh, place, axes, i);
    fault->hosts[fault->count] = group_host(group, i);
    fault->ranks[fault->count++] = mesh_rank_at(mesh, place);
}

void replicas_blame(const struct mesh *mesh, unsigned axes, struct group *group, int64_t digest, bool is_held,
                    struct replicas_fault *fault) {
    int size = group_size(group), holders = 0, best = 0, most = 0;
    int64_t *table = memory_alloc(sizeof *table * 2 * (size_t)size);
    table[2 * group_rank(group)] = digest;
    table[2 * group_rank(group) + 1] = is_held;
    comm_all_gather_i64(group, table, 2, "digests that differ");
    for (int i = 0; i < size; i++) {
        int votes = table[2 * i + 1] ? count_votes(table, size, i) : 0;
        holders += table[2 * i + 1] != 0;
        best = votes > most ? i : best;
        most = votes > most ? votes : most;
    }
    fault->count = 0;
    fault->has_majority = 2 * most > holders;
    for (int i = 0; i < size; i++)
        if (table[2 * i + 1] && !(fault->has_majority && table[2 * i] == table[2 * best]))
            add_rank(fault, mesh, axes, group, i);
    free(table);
}

void replicas_name(const struct replicas_fault *fault, struct buffer *text) {
    buffer_printf(text, "rank%s", fault->count == 1 ? "" : "s");
    for (int i = 0; i < fault->count; i++) {
        buffer_printf(text, "%s%d", i == 0 ? " " : i == fault->count - 1 ? " and " : ", ", fault->ranks[i]);
        if (fault->hosts[i][0])
            buffer_printf(text, " (%s)", fault->hosts[i]);
    }
}

int replicas_count(const struct mesh *mesh, const struct param_list *params) {
    int most = 1;
    for (int i = 0; i < params->count; i++) {
        const struct param_group *group = &params->groups[params->items[i]->group];
        bool is_whole = params->items[i]->shard.parts == 1;
        int count = mesh_count(mesh, is_whole ? group->replicas | group->slices : group->replicas);
        most = count > most ? count : most;
    }
    return most;
}

struct replicas_fault replicas_compare(const struct replicas_lab *lab, const struct mesh *mesh,
                                       const struct param_list *params, const int64_t *digests) {
    struct replicas_fault fault = {.element = -1};
    // Every rank continues through all groups after a difference: other ranks wait for it.
    for (int group = 0; group < params->group_count; group++) {
        const struct param_group *own = &params->groups[group];
        bool has_slices = mesh_count(mesh, own->slices) > 1;
        const struct {
            unsigned axes;
            const char *holders;
        } sets[] = {{own->replicas, "data-parallel ranks"},
                    {own->replicas | own->slices, has_slices ? "ranks that share layers" : "data-parallel ranks"}};
        for (int whole = 0; whole < 2; whole++) {
            struct group *ranks = mesh_group(mesh, sets[whole].axes);
            int differs =
                first_difference(ranks, params, digests, (struct compared){.group = group, .is_whole = whole});
            if (differs < 0)
                continue;
            struct replicas_fault found = {.param = params->items[differs], .holders = sets[whole].holders};
            replicas_blame(mesh, sets[whole].axes, ranks, digests[differs], true, &found);
            found.element = find_element(lab, ranks, found.param->value);
            fault = fault.param ? fault : found;
        }
    }
    return fault;
}
