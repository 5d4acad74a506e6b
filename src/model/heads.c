// The exchange of heads for tokens; heads of keys and values that ranks share. See attention.h.
#include "base/memory.h"
#include "model/attention.h"

#include <stdlib.h>

bool heads_are_exchanged(const struct attention *attention, const struct pass *pass) {
    return attention->head_ranks > 1 && pass->mesh->length[AXIS_CONTEXT] > 1;
}

void heads_open(struct heads *heads, const struct attention *attention, const struct pass *pass) {
    int ranks = attention->head_ranks, place = pass->mesh->place[AXIS_CONTEXT] % ranks;
    bool are_all = ranks == pass->mesh->length[AXIS_CONTEXT];
    CHECK(attention->H % ranks == 0 && attention->G % ranks == 0 && !pass->relative_bias[0].data);
    CHECK(are_all || ranks == pass->mesh->near_ranks);
    heads->outer = pass;
    heads->ranks = ranks;
    heads->group = are_all ? pass->mesh->group[AXIS_CONTEXT] : pass->mesh->near_group;
    heads->attention = *attention;
    heads->attention.H /= ranks;
    heads->attention.G /= ranks;
    heads->attention.first_head += (int)heads->attention.H * place;
    if (attention->sinks) {
        int64_t H = heads->attention.H;
        heads->sinks = *attention->sinks;
        heads->sinks.value = tensor_rows(attention->sinks->value, H * place, H);
        if (attention->sinks->grad.data)
            heads->sinks.grad = tensor_rows(attention->sinks->grad, H * place, H);
        heads->attention.sinks = &heads->sinks;
    }
    heads->mesh = context_merge(pass->mesh, ranks);
    heads->batch = *pass->batch;
    heads->batch.row_ids = are_all ? pass->batch->whole_row_ids : pass->batch->near_row_ids;
    heads->batch.document_starts = are_all ? pass->batch->whole_document_starts : pass->batch->near_document_starts;
    heads->pass = *pass;
    heads->pass.T = pass->T * ranks;
    heads->pass.mesh = &heads->mesh;
    heads->pass.batch = &heads->batch;
}

struct head_columns heads_columns(const struct attention *attention, const struct attention_input *input) {
    int64_t keys = attention->G * attention->D, values = attention->G * attention->V;
    int64_t first = input->kv.shape[1] - keys - values;
    return (struct head_columns){{tensor_slice(input->q, 1, 0, attention->H * attention->D),
                                  tensor_slice(input->kv, 1, first, keys),
                                  tensor_slice(input->kv, 1, first + keys, values)}};
}

// All-to-all of rows in rank order, (ranks, N, W / ranks).
static void exchange(const struct heads *heads, struct tensor to, struct tensor from, const char *name) {
    int64_t *counts = memory_alloc(sizeof *counts * (size_t)heads->ranks);
    for (int rank = 0; rank < heads->ranks; rank++)
        counts[rank] = from.shape[0] / heads->ranks;
    struct comm_request request = comm_all_to_all_start(
        heads->group, &(struct comm_exchange){.to = to, .from = from, .received = counts, .sent = counts}, name);
    free(counts);
    comm_wait(&request);
}

// Copies all ranks' parts of each segment to or from `parts` (ranks, N, W / ranks).
static void copy_parts(const struct heads *heads, const struct head_columns *columns, struct tensor parts,
                       bool is_packed) {
    int64_t N = parts.shape[0] / heads->ranks;
    for (int rank = 0; rank < heads->ranks; rank++) {
        int64_t at = 0;
        for (int i = 0; i < HEADS_MOST_SEGMENTS && columns->segments[i].data; i++) {
            int64_t width = columns->segments[i].shape[1] / heads->ranks;
            struct tensor own = tensor_slice(columns->segments[i], 1, rank * width, width);
            struct tensor part = tensor_slice(tensor_rows(parts, rank * N, N), 1, at, width);
            op_copy(heads->outer->device,
                    &(struct op_copy){.dst = is_packed ? part : own, .src = is_packed ? own : part});
            at += width;
        }
    }
}

void heads_take(const struct heads *heads, struct tensor all, const struct head_columns *columns, const char *name) {
    const struct pass *pass = heads->outer;
    size_t mark = arena_mark(pass->scratch);
    struct tensor sent = arena_2d(pass->scratch, all.dtype, all.shape[0], all.shape[1]);
    struct tensor received = arena_2d(pass->scratch, all.dtype, all.shape[0], all.shape[1]);
    copy_parts(heads, columns, sent, true);
    exchange(heads, received, sent, name);
    context_put_in_order(pass, heads->ranks, all, received);
    arena_release(pass->scratch, mark);
}

void heads_return(const struct heads *heads, const struct head_columns *columns, struct tensor all, const char *name) {
    const struct pass *pass = heads->outer;
    size_t mark = arena_mark(pass->scratch);
    struct tensor sent = arena_2d(pass->scratch, all.dtype, all.shape[0], all.shape[1]);
    struct tensor received = arena_2d(pass->scratch, all.dtype, all.shape[0], all.shape[1]);
    context_put_by_rank(pass, heads->ranks, sent, all);
    exchange(heads, received, sent, name);
    copy_parts(heads, columns, received, false);
    arena_release(pass->scratch, mark);
}

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
