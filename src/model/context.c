// Gathers keys and values from the ranks that share a sequence, and returns their gradients. See context.h.
#include "model/context.h"
#include "ops/device.h"

int pass_strips(const struct pass *pass) {
    return context_strips(pass->mesh);
}

struct strip pass_strip(const struct pass *pass, int which) {
    int64_t T = pass->T / pass_strips(pass);
    int64_t place = context_strip(pass->mesh, pass->mesh->place[AXIS_CONTEXT], which);
    return (struct strip){
        .first_row = which * pass->B * T, .B = pass->B, .T = T, .end = pass->cached + (place + 1) * T};
}

struct tensor strip_rows(const struct strip *strip, struct tensor x) {
    return x.data ? tensor_rows(x, strip->first_row, strip->B * strip->T) : x;
}

int64_t pass_whole_length(const struct pass *pass, int64_t T) {
    return T * pass->mesh->length[AXIS_CONTEXT];
}

// One strip of a tensor in rank order, (ranks, strips, B, T, W).
static struct tensor strip_of_rank(const struct pass *pass, int ranks, struct tensor parts, int rank, int which) {
    int64_t rows = parts.shape[0] / (ranks * pass_strips(pass));
    return tensor_rows(parts, (rank * pass_strips(pass) + which) * rows, rows);
}

// Tokens [first, first + T) of sequences (B tokens, W), as (B, T, 1, W).
static struct tensor tokens_of(const struct pass *pass, struct tensor sequences, int64_t first, int64_t T) {
    int64_t B = pass->B, W = sequences.shape[1];
    return tensor_slice(tensor_reshape_4d(sequences, B, sequences.shape[0] / B, 1, W), 1, first, T);
}

// Place of a strip of one of several neighbouring ranks in their combined rows, as (B, T, 1, W). Rows of all ranks are
// in sequence order. Rows of fewer ranks are ordered like those of one rank: first the strips from the front.
static struct tensor strip_in_order(const struct pass *pass, int ranks, struct tensor rows, int rank, int which) {
    bool are_all = ranks == pass->mesh->length[AXIS_CONTEXT];
    int64_t N = rows.shape[0] / pass_strips(pass), T = N / ranks / pass->B;
    int64_t back = are_all ? 2 * ranks : ranks;
    return tokens_of(pass, are_all ? rows : tensor_rows(rows, which * N, N), T * (which == 0 ? rank : back - 1 - rank),
                     T);
}

// Copies each strip of each of these neighbouring ranks from one order to the other.
static void reorder(const struct pass *pass, int ranks, struct tensor ordered, struct tensor parts, bool is_to_order) {
    for (int rank = 0; rank < ranks; rank++) {
        for (int which = 0; which < pass_strips(pass); which++) {
            struct tensor strip = strip_of_rank(pass, ranks, parts, rank, which);
            strip = tensor_reshape_4d(strip, pass->B, strip.shape[0] / pass->B, 1, strip.shape[1]);
            struct tensor tokens = strip_in_order(pass, ranks, ordered, rank, which);
            op_copy(pass->device,
                    &(struct op_copy){.dst = is_to_order ? tokens : strip, .src = is_to_order ? strip : tokens});
        }
    }
}

void context_put_in_order(const struct pass *pass, int ranks, struct tensor ordered, struct tensor parts) {
    reorder(pass, ranks, ordered, parts, true);
}

void context_put_by_rank(const struct pass *pass, int ranks, struct tensor parts, struct tensor ordered) {
    reorder(pass, ranks, ordered, parts, false);
}

static struct tensor last_columns(struct tensor packed, int64_t W) {
    return tensor_slice(packed, 1, packed.shape[1] - W, W);
}

static struct gathered gather_start(const struct pass *pass, struct tensor packed, int64_t W, const char *name) {
    if (pass_strips(pass) == 1)
        return (struct gathered){.kv = packed, .is_in_order = true};
    int64_t own_rows = packed.shape[0], rows = pass_whole_length(pass, own_rows);
    struct gathered gathered = {.kv = arena_2d(pass->scratch, packed.dtype, rows, W),
                                .parts = arena_2d(pass->scratch, packed.dtype, rows, W)};
    struct tensor own = tensor_rows(gathered.parts, own_rows * pass->mesh->place[AXIS_CONTEXT], own_rows);
    op_copy(pass->device, &(struct op_copy){.dst = own, .src = last_columns(packed, W)});
    gathered.request = comm_all_gather_start(pass->mesh->group[AXIS_CONTEXT], gathered.parts, own, name);
    return gathered;
}

struct gathered context_gather_start(const struct pass *pass, struct tensor packed, int64_t W) {
    return gather_start(pass, packed, W, "keys and values");
}

struct tensor context_gathered(const struct pass *pass, struct gathered *gathered) {
    if (gathered->is_in_order)
        return gathered->kv;
    comm_wait(&gathered->request);
    context_put_in_order(pass, pass->mesh->length[AXIS_CONTEXT], gathered->kv, gathered->parts);
    gathered->is_in_order = true;
    return gathered->kv;
}

struct tensor context_gather_rows(const struct pass *pass, struct tensor x, const char *name) {
    struct gathered gathered = gather_start(pass, x, x.shape[1], name);
    return context_gathered(pass, &gathered);
}

struct tensor context_own_rows(const struct pass *pass, struct tensor x) {
    if (pass_strips(pass) == 1)
        return x;
    struct tensor own = arena_2d(pass->scratch, x.dtype, pass_rows(pass), x.shape[1]);
    for (int which = 0; which < pass_strips(pass); which++) {
        struct strip strip = pass_strip(pass, which);
        int64_t first = strip.T * context_strip(pass->mesh, pass->mesh->place[AXIS_CONTEXT], which);
        op_copy(pass->device,
                &(struct op_copy){.dst = tensor_reshape_4d(strip_rows(&strip, own), pass->B, strip.T, 1, x.shape[1]),
                                  .src = tokens_of(pass, x, first, strip.T)});
    }
    return own;
}

struct tensor context_gradient(const struct pass *pass, struct tensor dpacked, int64_t keys, int64_t W) {
    return pass_strips(pass) == 1 ? dpacked : arena_2d(pass->scratch, dpacked.dtype, pass->B * keys, W);
}

// Sets `to` (B T, W) to the sum of the parts' gradients for tokens [first, first + T); a part may end earlier. `one` is
// scratch of the shape of `to`.
static void sum_parts(const struct pass *pass, struct tensor to, struct tensor one, int64_t first,
                      const struct tensor parts[CONTEXT_MOST_STRIPS]) {
    int64_t T = to.shape[0] / pass->B, W = to.shape[1];
    bool is_empty = true;
    for (int which = pass_strips(pass) - 1; which >= 0; which--) {
        if (first >= parts[which].shape[0] / pass->B)
            continue;
        op_copy(pass->device, &(struct op_copy){.dst = tensor_reshape_4d(is_empty ? to : one, pass->B, T, 1, W),
                                                .src = tokens_of(pass, parts[which], first, T)});
        if (!is_empty)
            op_dropout_add(pass->device, &(struct op_dropout_add){.out = to, .x = one, .residual = to});
        is_empty = false;
    }
    if (is_empty)
        device_zero(pass->device, to);
}

void context_scatter(const struct pass *pass, struct tensor dpacked, int64_t W,
                     const struct tensor parts[CONTEXT_MOST_STRIPS]) {
    if (pass_strips(pass) == 1)
        return;
    int64_t own_rows = dpacked.shape[0], rows = pass_whole_length(pass, own_rows);
    size_t mark = arena_mark(pass->scratch);
    struct tensor whole = arena_2d(pass->scratch, dpacked.dtype, rows, W);
    struct tensor one = arena_2d(pass->scratch, dpacked.dtype, rows / context_all_strips(pass->mesh), W);
    int ranks = pass->mesh->length[AXIS_CONTEXT];
    for (int rank = 0; rank < ranks; rank++) {
        for (int which = 0; which < pass_strips(pass); which++) {
            int64_t T = one.shape[0] / pass->B, first = T * context_strip(pass->mesh, rank, which);
            sum_parts(pass, strip_of_rank(pass, ranks, whole, rank, which), one, first, parts);
        }
    }
    struct tensor own = tensor_rows(whole, own_rows * pass->mesh->place[AXIS_CONTEXT], own_rows);
    struct comm_request request =
        comm_reduce_scatter_start(pass->mesh->group[AXIS_CONTEXT], own, whole, "gradients of keys and values");
    comm_wait(&request);
    op_copy(pass->device, &(struct op_copy){.dst = last_columns(dpacked, W), .src = own});
    arena_release(pass->scratch, mark);
}
