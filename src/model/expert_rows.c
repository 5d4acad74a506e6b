// Gathers rows for experts, and finds those beyond their capacity. See experts.h.
#include "model/experts.h"
#include "model/context.h"

#include <math.h>

static int slices_of(const struct pass *pass) {
    return mesh_count(pass->mesh, MESH_EXPERT_SLICES);
}

static struct group *sharers_of(const struct pass *pass) {
    return mesh_deals_experts(pass->mesh) ? mesh_group(pass->mesh, MESH_EXPERT_SLICES) : pass->mesh->group[AXIS_TENSOR];
}

int64_t expert_rows_count(const struct pass *pass) {
    return pass->splits_rows ? pass_stream_rows(pass) * slices_of(pass) : pass_rows(pass);
}

bool expert_rows_are_whole(const struct pass *pass) {
    return slices_of(pass) == pass_parts(pass);
}

bool expert_rows_is_first(const struct pass *pass) {
    return mesh_index(pass->mesh, pass->mesh->place, MESH_EXPERT_SLICES) == 0;
}

struct tensor expert_rows_gather(const struct pass *pass, struct arena *arena, struct tensor x, const char *name) {
    if (!pass->splits_rows || slices_of(pass) == 1)
        return x;
    struct tensor whole = arena_2d(arena, x.dtype, x.shape[0] * slices_of(pass), x.shape[1]);
    struct comm_request request = comm_all_gather_start(sharers_of(pass), whole, x, name);
    comm_wait(&request);
    return whole;
}

void expert_rows_sum(const struct pass *pass, struct tensor out, struct tensor whole, const char *name) {
    if (!pass->splits_rows) {
        pass_sum(pass, out, whole, name);
    } else if (slices_of(pass) > 1) {
        struct comm_request request = comm_reduce_scatter_start(sharers_of(pass), out, whole, name);
        comm_wait(&request);
    }
}

int64_t expert_rows_capacity(const struct pass *pass, const struct expert_choices *choices) {
    if (choices->capacity_factor == 0 || !pass->is_training)
        return 0;
    int64_t N = pass_whole_length(pass, pass_rows(pass));
    double mean = (double)(N * choices->K) / (double)choices->E;
    int64_t capacity = (int64_t)ceil(mean * choices->capacity_factor);
    return capacity < N ? capacity : N;
}

bool expert_rows_share_capacity(const struct pass *pass) {
    return pass->mesh->length[AXIS_CONTEXT] > 1 || !expert_rows_are_whole(pass);
}

struct tensor expert_rows_gather_all(const struct pass *pass, struct tensor x, const char *name) {
    return context_gather_rows(pass, pass_gather(pass, pass->scratch, x, name), name);
}

struct tensor expert_rows_keep(const struct pass *pass, const struct expert_choices *choices, struct tensor experts,
                               struct tensor weights) {
    struct tensor kept = arena_2d(pass->scratch, DTYPE_I32, experts.shape[0], choices->K);
    size_t mark = arena_mark(pass->scratch);
    struct op_sort_slots op = {.capacity = expert_rows_capacity(pass, choices)};
    op.experts = expert_rows_gather_all(pass, experts, "chosen experts");
    if (!choices->keeps_first)
        op.weights = expert_rows_gather_all(pass, weights, "weights of experts");
    int64_t N = op.experts.shape[0], slots = N * choices->K, room = choices->E * op.capacity;
    op.offsets = arena_1d(pass->scratch, DTYPE_I32, choices->E + 1);
    op.sources = arena_1d(pass->scratch, DTYPE_I32, room < slots ? room : slots);
    op.places = arena_2d(pass->scratch, DTYPE_I32, N, choices->K);
    op_sort_slots(pass->device, &op);
    struct tensor here = pass_own_rows(pass, context_own_rows(pass, op.places));
    op_copy(pass->device, &(struct op_copy){.dst = kept, .src = here});
    arena_release(pass->scratch, mark);
    return kept;
}
