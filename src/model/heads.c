// The exchange of heads for tokens. See attention.h.
#include "model/attention.h"
#include "base/memory.h"

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
