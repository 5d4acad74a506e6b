// Muon's updates of matrices whose slices several ranks hold. The ranks share out the matrices by cost (muon.h), so
// that each is orthogonalized once: every rank updates its slice of the momentum and sends it to the owner. The owner
// assembles the whole matrix, orthogonalizes it, and sends every rank its slice of the result. A matrix that all ranks
// hold whole (e.g. a router's) needs no gathering; its owner broadcasts the result.
//
// This is done in rounds, and exchanges overlap with the iterations: the slices of round k + 1 are sent while round k
// is orthogonalized, and the results of round k during round k + 1. There are buffers for one round: received slices
// are used before the next are sent, and results have arrived before the next replace them. States that visit the
// device (--optimizer-cpu-offload) stay for a single round, which waits for its own exchanges.
//
// The momentum is sent in fp32, the result in the dtype of the iteration, or for NorMuon in fp32. NorMuon's slices are
// followed by the sum of squares of the whole matrix and, if its rows or columns span several slices, their mean
// squares at every element of the slice.
#include "base/error.h"
#include "base/memory.h"
#include "ops/device.h"
#include "optim/muon.h"
#include "optim/newton_schulz.h"

#include <stdlib.h>

// Data for a rank begins after the data for the ranks before it.
static struct tensor part_at(struct tensor buffer, const int64_t *counts, int rank, int64_t first, int64_t count) {
    return tensor_rows(buffer, sharing_sum(counts, rank) + first, count);
}

static struct comm_request start_exchange(const struct sharing *sharing, const struct comm_exchange *exchange,
                                          const char *name) {
    struct comm_request request = comm_all_to_all_start(sharing->group, exchange, name);
    comm_overlap(&request);
    return request;
}

// An array of the same count for all ranks.
static int64_t *repeat(int64_t count, int size) {
    int64_t *counts = memory_alloc(sizeof *counts * (size_t)size);
    for (int i = 0; i < size; i++)
        counts[i] = count;
    return counts;
}

// Lists the runs of a round whose states in host memory visit the device together.
static int64_t list_runs(const struct shared_round *round, struct optimizer_run **runs, int64_t first) {
    int64_t count = 0;
    for (; first + count < round->count && count < OPTIMIZER_MOST_TOGETHER; count++)
        runs[count] = &round->items[first + count].matrix->run;
    return count;
}

static void bring_states(const struct sharing *sharing, const struct shared_round *round) {
    struct optimizer_run *runs[OPTIMIZER_MOST_TOGETHER];
    if (sharing->run->offload)
        optimizer_bring(runs, list_runs(round, runs, 0));
}

static void return_states(const struct shared_round *round) {
    struct optimizer_run *runs[OPTIMIZER_MOST_TOGETHER];
    for (int64_t first = 0, count; first < round->count; first += count) {
        count = list_runs(round, runs, first);
        optimizer_return(runs, count);
    }
}

// All ranks update the momentum of a matrix that they hold whole; only its owner uses the direction.
static void move_whole(const struct sharing *sharing, const struct shared_round *round,
                       const struct shared_item *item) {
    const struct optimizer_run *run = sharing->run;
    int64_t count = sharing_slice(item->matrix), behind = sharing->size * round->in[sharing->rank];
    size_t mark = arena_mark(run->scratch);
    if (item->owner == sharing->rank)
        muon_move_momentum(sharing->config, item->matrix, tensor_rows(sharing->in_received, behind + item->in, count),
                           tensor_rows(sharing->squares, item - round->items, 1));
    else
        muon_move_momentum(sharing->config, item->matrix, arena_1d(run->scratch, DTYPE_F32, count), (struct tensor){0});
    arena_release(run->scratch, mark);
}

// Updates all momenta of a round, and sends them to the owners.
static void start_round(struct sharing *sharing, const struct shared_round *round) {
    bring_states(sharing, round);
    device_zero(sharing->run->device, sharing->squares);
    for (int64_t i = 0; i < round->count; i++) {
        const struct shared_item *item = &round->items[i];
        if (item->is_split)
            muon_move_momentum(sharing->config, item->matrix,
                               part_at(sharing->in_sent, round->in, item->owner, item->in, sharing_slice(item->matrix)),
                               (struct tensor){0});
        else
            move_whole(sharing, round, item);
    }
    if (round->split == 0)
        return;
    int64_t *received = repeat(round->in[sharing->rank], sharing->size);
    sharing->in_way = start_exchange(
        sharing,
        &(struct comm_exchange){
            .to = sharing->in_received, .from = sharing->in_sent, .received = received, .sent = round->in},
        "momenta of matrices");
    free(received);
}

// The whole momentum (M, N) of an own matrix, in fp32. Sets squares (1), zero before, to the sum of its squares.
static struct tensor assemble(const struct sharing *sharing, const struct shared_round *round,
                              const struct shared_item *item, struct tensor squares) {
    const struct muon_matrix *matrix = item->matrix;
    struct device *device = sharing->run->device;
    int64_t in = round->in[sharing->rank], count = sharing_slice(matrix);
    if (!item->is_split) {
        op_copy(device,
                &(struct op_copy){.dst = squares, .src = tensor_rows(sharing->squares, item - round->items, 1)});
        return tensor_reshape_2d(tensor_rows(sharing->in_received, sharing->size * in + item->in, count), matrix->M,
                                 matrix->N);
    }
    struct tensor whole = {0};
    bool is_there = muon_slices_follow(matrix) && in == count;
    if (is_there)
        whole = tensor_reshape_2d(tensor_rows(sharing->in_received, 0, sharing->size * count), matrix->M, matrix->N);
    else
        whole = arena_2d(sharing->run->scratch, DTYPE_F32, matrix->M, matrix->N);
    for (int i = 0; !is_there && i < sharing->size; i++) {
        struct tensor slice = tensor_rows(sharing->in_received, i * in + item->in, count);
        op_copy(device, &(struct op_copy){.dst = muon_place(matrix, whole, i),
                                          .src = tensor_reshape_2d(slice, matrix->part.rows, muon_columns(matrix))});
    }
    op_sum_squares(device, &(struct op_sum_squares){.out = squares, .x = tensor_flat(whole)});
    return whole;
}

// View of a split matrix's slice, (rows, columns), in the data that one rank sends another.
static struct tensor slice_in(struct tensor buffer, int64_t first, const struct muon_matrix *matrix) {
    return tensor_reshape_2d(tensor_rows(buffer, first, sharing_slice(matrix)), matrix->part.rows,
                             muon_columns(matrix));
}

// Writes NorMuon's sums over the whole matrix x (M, N) after its slices.
static void pack_norms(const struct sharing *sharing, const struct shared_item *item, int64_t step, struct tensor x) {
    const struct muon_matrix *matrix = item->matrix;
    const struct optimizer_run *run = sharing->run;
    int64_t behind = item->out + sharing_align(sharing_slice(matrix));
    struct tensor wide = arena_2d(run->scratch, DTYPE_F32, matrix->M, matrix->N), means = wide;
    struct tensor squares = arena_1d(run->scratch, DTYPE_F32, 1);
    device_zero(run->device, squares);
    op_copy(run->device, &(struct op_copy){.dst = wide, .src = x});
    op_sum_squares(run->device, &(struct op_sum_squares){.out = squares, .x = tensor_flat(wide)});
    if (muon_needs_means(matrix)) {
        means = arena_2d(run->scratch, DTYPE_F32, matrix->M, matrix->N);
        muon_mean_squares(matrix, means, wide);
    }
    for (int i = 0; i < sharing->size; i++) {
        op_copy(run->device,
                &(struct op_copy){.dst = tensor_rows(sharing->out_sent, i * step + behind, 1), .src = squares});
        if (muon_needs_means(matrix))
            op_copy(run->device,
                    &(struct op_copy){.dst = slice_in(sharing->out_sent, i * step + behind + sharing_align(1), matrix),
                                      .src = muon_place(matrix, means, i)});
    }
}

// Copies the result x (M, N) to the send buffer.
static void pack_result(const struct sharing *sharing, const struct shared_round *round, const struct shared_item *item,
                        struct tensor x) {
    const struct muon_matrix *matrix = item->matrix;
    struct arena *scratch = sharing->run->scratch;
    size_t mark = arena_mark(scratch);
    int64_t step = round->out[sharing->rank], behind = sharing_sum(round->out, sharing->size);
    if (!item->is_split)
        op_copy(sharing->run->device,
                &(struct op_copy){.dst = slice_in(sharing->out_received, behind + item->out, matrix), .src = x});
    for (int i = 0; item->is_split && i < sharing->size; i++)
        op_copy(sharing->run->device,
                &(struct op_copy){.dst = slice_in(sharing->out_sent, i * step + item->out, matrix),
                                  .src = muon_place(matrix, x, i)});
    if (item->is_split && muon_keeps_norm(sharing->config))
        pack_norms(sharing, item, step, x);
    arena_release(scratch, mark);
}

static struct tensor matrix_in(struct tensor x, int64_t i) {
    return tensor_reshape_2d(tensor_rows(x, i, 1), x.shape[1], x.shape[2]);
}

static bool is_waiting(const struct sharing *sharing, const struct shared_item *item) {
    return item->owner == sharing->rank && !item->matrix->is_done;
}

// Batches this rank's matrices of a round that have the shape of its item number k and may be computed with it.
static void fill_batch(const struct sharing *sharing, const struct shared_round *round, int64_t k,
                       struct shared_batch *batch) {
    const struct muon_matrix *first = round->items[k].matrix;
    int64_t most = muon_most_together(sharing->config, first);
    batch->count = 0;
    for (int64_t i = k; i < round->count && batch->count < most; i++) {
        struct muon_matrix *matrix = round->items[i].matrix;
        if (!is_waiting(sharing, &round->items[i]) || matrix->M != first->M || matrix->N != first->N)
            continue;
        batch->items[batch->count++] = &round->items[i];
        matrix->is_done = true;
    }
    struct arena *scratch = sharing->run->scratch;
    batch->x = arena_3d(scratch, newton_schulz_dtype(sharing->config), batch->count, first->M, first->N);
    batch->squares = arena_1d(scratch, DTYPE_F32, batch->count);
    device_zero(sharing->run->device, batch->squares);
    for (int64_t i = 0; i < batch->count; i++) {
        size_t mark = arena_mark(scratch);
        struct tensor squares = tensor_rows(batch->squares, i, 1);
        struct tensor y = assemble(sharing, round, batch->items[i], squares);
        muon_direct(sharing->config, batch->items[i]->matrix, matrix_in(batch->x, i), y, squares);
        arena_release(scratch, mark);
    }
}

// Waits for the momenta of a round, and copies them to batches in scratch memory.
static void receive_round(struct sharing *sharing, const struct shared_round *round) {
    if (round->split > 0)
        comm_wait(&sharing->in_way);
    sharing->batch_count = 0;
    for (int64_t k = 0; k < round->count; k++)
        if (is_waiting(sharing, &round->items[k]))
            fill_batch(sharing, round, k, &sharing->batches[sharing->batch_count++]);
}

// Sends the results of a round.
static void send_round(struct sharing *sharing, const struct shared_round *round) {
    int64_t behind = sharing_sum(round->out, sharing->size);
    sharing->broadcast_count = 0;
    for (int64_t i = 0; i < round->count; i++) {
        const struct shared_item *item = &round->items[i];
        if (item->is_split)
            continue;
        struct tensor x = tensor_rows(sharing->out_received, behind + item->out, sharing_slice(item->matrix));
        struct comm_request request = comm_broadcast_start(sharing->group, x, item->owner, "an orthogonal matrix");
        comm_overlap(&request);
        sharing->broadcasts[sharing->broadcast_count++] = request;
    }
    if (round->split == 0)
        return;
    int64_t *sent = repeat(round->out[sharing->rank], sharing->size);
    sharing->out_way = start_exchange(
        sharing,
        &(struct comm_exchange){
            .to = sharing->out_received, .from = sharing->out_sent, .received = round->out, .sent = sent},
        "orthogonal matrices");
    free(sent);
}

static struct muon_piece unpack(const struct sharing *sharing, const struct shared_round *round,
                                const struct shared_item *item) {
    const struct muon_matrix *matrix = item->matrix;
    int64_t first = sharing_sum(round->out, item->is_split ? item->owner : sharing->size) + item->out;
    int64_t behind = first + sharing_align(sharing_slice(matrix));
    struct muon_piece piece = {.own = slice_in(sharing->out_received, first, matrix)};
    if (item->is_split && muon_keeps_norm(sharing->config)) {
        piece.before = tensor_rows(sharing->out_received, behind, 1);
        if (muon_needs_means(matrix))
            piece.squares = slice_in(sharing->out_received, behind + sharing_align(1), matrix);
    }
    return piece;
}

// NorMuon's division for a whole round, so that one call sums the norms of all matrices; split ones come first.
static void adapt_round(const struct sharing *sharing, const struct shared_round *round, struct muon_piece *pieces) {
    const struct optimizer_run *run = sharing->run;
    struct tensor after = arena_1d(run->scratch, DTYPE_F32, round->count);
    int64_t split = 0, whole = round->split;
    device_zero(run->device, after);
    for (int64_t i = 0; i < round->count; i++) {
        pieces[i].after = tensor_rows(after, round->items[i].is_split ? split++ : whole++, 1);
        muon_adapt(sharing->config, round->items[i].matrix, &pieces[i]);
    }
    if (split > 0)
        comm_all_reduce(sharing->group, tensor_rows(after, 0, split), REDUCE_SUM, "norms of updates");
}

// Waits for the results of a round, and updates this rank's slices of the weights by them.
static void finish_round(struct sharing *sharing, const struct shared_round *round) {
    struct arena *scratch = sharing->run->scratch;
    size_t mark = arena_mark(scratch);
    struct muon_piece *pieces = memory_alloc(sizeof *pieces * (size_t)round->count);
    for (int64_t i = 0; i < sharing->broadcast_count; i++)
        comm_wait(&sharing->broadcasts[i]);
    if (round->split > 0)
        comm_wait(&sharing->out_way);
    for (int64_t i = 0; i < round->count; i++)
        pieces[i] = unpack(sharing, round, &round->items[i]);
    if (muon_keeps_norm(sharing->config))
        adapt_round(sharing, round, pieces);
    for (int64_t i = 0; i < round->count; i++)
        muon_deliver(sharing->config, round->items[i].matrix, &pieces[i]);
    if (!round->items[0].matrix->bundle)
        return_states(round);
    free(pieces);
    arena_release(scratch, mark);
}

// Orthogonalizes this rank's matrices of round k, and sends the results once the previous round's have been used.
static void work_on_round(struct sharing *sharing, int64_t k, bool is_before_used) {
    const struct optimizer_run *run = sharing->run;
    const struct shared_round *round = &sharing->rounds[k];
    for (int64_t b = 0; b < sharing->batch_count; b++) {
        const struct shared_batch *batch = &sharing->batches[b];
        size_t mark = arena_mark(run->scratch);
        struct tensor x = muon_orthogonalize(sharing->config, run, batch->x, batch->squares);
        if (!is_before_used)
            finish_round(sharing, &sharing->rounds[k - 1]);
        is_before_used = true;
        for (int64_t i = 0; i < batch->count; i++)
            pack_result(sharing, round, batch->items[i], matrix_in(x, i));
        arena_release(run->scratch, mark);
    }
    if (!is_before_used)
        finish_round(sharing, &sharing->rounds[k - 1]);
    send_round(sharing, round);
}

// Every rank calls the collectives of the group in this order.
static void update_rounds(struct sharing *sharing) {
    struct arena *scratch = sharing->run->scratch;
    bool overlaps = !sharing->run->offload;
    int64_t count = sharing->round_count;
    for (int64_t k = 0; k < count; k++) {
        size_t mark = arena_mark(scratch);
        if (k == 0 || !overlaps)
            start_round(sharing, &sharing->rounds[k]);
        receive_round(sharing, &sharing->rounds[k]);
        if (overlaps && k + 1 < count)
            start_round(sharing, &sharing->rounds[k + 1]);
        work_on_round(sharing, k, k == 0 || !overlaps);
        arena_release(scratch, mark);
        if (k + 1 == count || !overlaps)
            finish_round(sharing, &sharing->rounds[k]);
    }
}

void muon_update_shared(const struct config *config, struct muon_matrix *list, int64_t total) {
    struct arena *scratch = list[0].run.scratch;
    size_t mark = arena_mark(scratch);
    struct sharing sharing;
    sharing_open(&sharing, config, list, total);
    update_rounds(&sharing);
    sharing_close(&sharing);
    arena_release(scratch, mark);
}
