// Gathers the keys and values of shared heads and splits their gradients. See key_slices.h.
#include "model/key_slices.h"

struct tensor key_slices_of(const struct attention *attention, const struct pass *pass, struct tensor packed,
                            int64_t columns) {
    return attention->kv_ranks == 1 ? packed : arena_2d(pass->scratch, packed.dtype, packed.shape[0], columns);
}

static struct tensor last_columns(struct tensor x, int64_t count) {
    return tensor_slice(x, 1, x.shape[1] - count, count);
}

// Keys and values of the packed tensor as (N, 2, ranks, D / ranks).
static struct tensor packed_view(const struct attention *attention, struct tensor packed) {
    int64_t D = attention->D, width = D / attention->kv_ranks;
    return (struct tensor){.data = last_columns(packed, 2 * D).data,
                           .dtype = packed.dtype,
                           .rank = 4,
                           .shape = {packed.shape[0], 2, attention->kv_ranks, width},
                           .stride = {packed.stride[0], D, width, 1}};
}

// The slices of all ranks, (ranks, N, 2, D / ranks) in memory, in the order of that view.
static struct tensor ranks_view(const struct attention *attention, struct tensor all) {
    int64_t ranks = attention->kv_ranks, N = all.shape[0] / ranks, columns = all.shape[1];
    return (struct tensor){.data = all.data,
                           .dtype = all.dtype,
                           .rank = 4,
                           .shape = {N, 2, ranks, columns / 2},
                           .stride = {columns, columns / 2, N * columns, 1}};
}

static struct tensor take_all(const struct attention *attention, const struct pass *pass, struct tensor packed) {
    CHECK(attention->G == 1 && attention->V == attention->D && attention->D % attention->kv_ranks == 0);
    int64_t columns = 2 * attention->D / attention->kv_ranks;
    return arena_2d(pass->scratch, packed.dtype, attention->kv_ranks * packed.shape[0], columns);
}

static struct tensor own_rows(const struct attention *attention, const struct pass *pass, struct tensor all) {
    int64_t N = all.shape[0] / attention->kv_ranks;
    return tensor_rows(all, N * (pass->mesh->place[AXIS_TENSOR] % attention->kv_ranks), N);
}

static void copy_queries(const struct pass *pass, struct tensor to, struct tensor from, int64_t columns) {
    if (columns > 0)
        op_copy(pass->device,
                &(struct op_copy){.dst = tensor_slice(to, 1, 0, columns), .src = tensor_slice(from, 1, 0, columns)});
}

void key_slices_gather(const struct attention *attention, const struct pass *pass, struct tensor packed,
                       struct tensor slices) {
    if (attention->kv_ranks == 1)
        return;
    size_t mark = arena_mark(pass->scratch);
    struct tensor all = take_all(attention, pass, packed), own = own_rows(attention, pass, all);
    op_copy(pass->device, &(struct op_copy){.dst = own, .src = last_columns(slices, all.shape[1])});
    struct comm_request request = comm_all_gather_start(pass->mesh->kv_group, all, own, "shared keys and values");
    copy_queries(pass, packed, slices, slices.shape[1] - all.shape[1]);
    comm_wait(&request);
    op_copy(pass->device, &(struct op_copy){.dst = packed_view(attention, packed), .src = ranks_view(attention, all)});
    arena_release(pass->scratch, mark);
}

struct tensor key_slices_scatter(const struct attention *attention, const struct pass *pass, struct tensor dpacked,
                                 int64_t columns) {
    if (attention->kv_ranks == 1)
        return dpacked;
    struct tensor dslices = arena_2d(pass->scratch, dpacked.dtype, dpacked.shape[0], columns);
    size_t mark = arena_mark(pass->scratch);
    struct tensor all = take_all(attention, pass, dpacked), own = own_rows(attention, pass, all);
    op_copy(pass->device, &(struct op_copy){.dst = ranks_view(attention, all), .src = packed_view(attention, dpacked)});
    struct comm_request request =
        comm_reduce_scatter_start(pass->mesh->kv_group, own, all, "gradients of shared keys and values");
    copy_queries(pass, dslices, dpacked, columns - all.shape[1]);
    comm_wait(&request);
    op_copy(pass->device, &(struct op_copy){.dst = last_columns(dslices, all.shape[1]), .src = own});
    arena_release(pass->scratch, mark);
    return dslices;
}
