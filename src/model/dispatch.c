// The exchange of rows between ranks that share out experts; rows gathered for experts, and those beyond their
// capacity. See experts.h.
#include "base/coroutine.h"
#include "base/memory.h"
#include "model/context.h"
#include "model/experts.h"
#include "base/process.h"
#include "ops/device.h"

#include <math.h>
#include <stdlib.h>

static struct group *peers_of(const struct pass *pass) {
    return mesh_group(pass->mesh, MESH_EXPERTS);
}

static int64_t round_up(int64_t count, int64_t step) {
    return (count + step - 1) / step * step;
}

// Number of rows that each rank sends to each expert: (P, E). On paper the host gets no numbers and keeps the initial
// ones: equal counts for all experts.
static int64_t *exchange_counts(const struct pass *pass, const struct expert_choices *choices,
                                const struct dispatch_slots *slots) {
    int64_t E = choices->E;
    int32_t firsts[ROUTER_MOST_EXPERTS + 1];
    int64_t *table = memory_alloc(sizeof *table * (size_t)(choices->ranks * E));
    for (int64_t e = 0; e <= E; e++)
        firsts[e] = (int32_t)(slots->usual * e / E);
    device_copy_out(pass->device, firsts, slots->offsets);
    for (int64_t e = 0; e < E; e++)
        table[choices->rank * E + e] = firsts[e + 1] - firsts[e];
    comm_all_gather_i64(peers_of(pass), table, (int)E, "tokens of experts");
    return table;
}

// The experts of the rows that arrive.
static void list_experts(struct dispatch *dispatch, const struct pass *pass, const struct expert_choices *choices,
                         const int64_t *table) {
    int64_t E = choices->E, own = E / choices->ranks;
    int32_t *experts = memory_alloc(sizeof *experts * (size_t)dispatch->rows), *next = experts;
    for (int64_t i = 0; i < dispatch->rows; i++)
        experts[i] = -1;
    for (int rank = 0; rank < choices->ranks; rank++)
        for (int64_t e = 0; e < own; e++)
            for (int64_t i = 0; i < table[rank * E + choices->rank * own + e]; i++)
                *next++ = (int32_t)e;
    device_copy_in(pass->device, dispatch->experts, experts);
    device_synchronize(pass->device);
    free(experts);
}

// Sets the numbers of rows and, except on paper, where it would be most of a plan's time, the experts of arriving rows.
static void count_rows(struct dispatch *dispatch, const struct pass *pass, const struct expert_choices *choices,
                       const int64_t *table, int64_t step) {
    int64_t E = choices->E, own = E / choices->ranks, arrived = 0;
    for (int rank = 0; rank < choices->ranks; rank++) {
        dispatch->sent[rank] = dispatch->received[rank] = 0;
        for (int64_t e = 0; e < own; e++) {
            dispatch->sent[rank] += table[choices->rank * E + rank * own + e];
            dispatch->received[rank] += table[rank * E + choices->rank * own + e];
        }
        arrived += dispatch->received[rank];
    }
    dispatch->rows = arrived > 0 ? round_up(arrived, step) : step;
    dispatch->experts = dispatch_take(dispatch, pass->scratch, DTYPE_I32, 1);
    if (!device_is_imaginary(pass->device))
        list_experts(dispatch, pass, choices, table);
}

// Starts to send the rows at this rank's places to the ranks that hold the experts.
static struct comm_request send_start(const struct dispatch *dispatch, const struct pass *pass, struct tensor arrived,
                                      struct tensor places, const char *name) {
    const struct comm_exchange exchange = {
        .to = arrived, .from = places, .received = dispatch->received, .sent = dispatch->sent};
    return comm_all_to_all_start(peers_of(pass), &exchange, name);
}

// Sends the weights of this rank's slots to the same ranks as their rows.
static struct comm_request send_weights(const struct dispatch *dispatch, const struct pass *pass,
                                        const struct dispatch_slots *slots) {
    int64_t R = slots->sources.shape[0], count = tensor_count(slots->weights);
    struct tensor places = arena_2d(pass->scratch, DTYPE_F32, R, 1);
    op_gather_slots(pass->device, &(struct op_gather_slots){.y = places,
                                                            .x = tensor_2d(slots->weights.data, DTYPE_F32, count, 1),
                                                            .sources = slots->sources,
                                                            .per_row = 1});
    return send_start(dispatch, pass, dispatch->weights, places, "weights of rows to experts");
}

void dispatch_open(struct dispatch *dispatch, const struct pass *pass, const struct expert_choices *choices,
                   const struct dispatch_slots *slots) {
    int64_t own = choices->E / choices->ranks;
    dispatch->room = round_up(choices->ranks * slots->most, slots->step);
    int64_t *table = exchange_counts(pass, choices, slots);
    count_rows(dispatch, pass, choices, table, slots->step);
    free(table);
    dispatch->weights = dispatch_take(dispatch, pass->activations, DTYPE_F32, 1);
    dispatch->offsets = arena_1d(pass->activations, DTYPE_I32, own + 1);
    struct op_sort_slots op = {.offsets = dispatch->offsets, .experts = dispatch->experts, .aligned = slots->aligned};
    dispatch->places_room = slots_room(&op, dispatch->room, own);
    op.sources = dispatch->sources = tensor_rows(arena_1d(pass->activations, DTYPE_I32, dispatch->places_room), 0,
                                                 slots_room(&op, dispatch->rows, own));
    op.places = dispatch->places = dispatch_take(dispatch, pass->activations, DTYPE_I32, 1);
    op_sort_slots(pass->device, &op);
    dispatch->weights_way = send_weights(dispatch, pass, slots);
}

void dispatch_await_weights(struct dispatch *dispatch) {
    comm_wait(&dispatch->weights_way);
}

struct tensor dispatch_take(const struct dispatch *dispatch, struct arena *arena, enum dtype dtype, int64_t columns) {
    return tensor_rows(arena_2d(arena, dtype, dispatch->room, columns), 0, dispatch->rows);
}

void dispatch_await(const struct pass *pass, struct comm_request *requests, int count) {
    for (int i = 0; pass->coroutine && i < count; i++)
        comm_overlap(&requests[i]);
    if (pass->coroutine) {
        const char *phase = run_position_phase();
        coroutine_yield(pass->coroutine);
        run_position_set_phase(phase);  // the other pass has set its own
    }
    for (int i = 0; i < count; i++)
        comm_wait(&requests[i]);
}

void dispatch_send(const struct dispatch *dispatch, const struct pass *pass, struct tensor arrived,
                   struct tensor places, const char *name) {
    struct comm_request request = send_start(dispatch, pass, arrived, places, name);
    dispatch_await(pass, &request, 1);
}

struct comm_request dispatch_return_start(const struct dispatch *dispatch, const struct pass *pass,
                                          struct tensor places, struct tensor arrived, const char *name) {
    const struct comm_exchange exchange = {
        .to = places, .from = arrived, .received = dispatch->sent, .sent = dispatch->received};
    return comm_all_to_all_start(peers_of(pass), &exchange, name);
}

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
