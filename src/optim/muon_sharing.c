// Dealing out Muon's matrices. See muon.h.
#include "base/memory.h"
#include "ops/device.h"
#include "optim/muon.h"
#include "optim/newton_schulz.h"

#include <stdbool.h>
#include <stdlib.h>

// Most elements of each rank's matrices in a round, on a device that gains from batches: eight of 2048 x 2048 keep it
// busy.
enum { PIECE_ALIGNMENT = 64, MOST_ELEMENTS = 32 << 20 };

int64_t sharing_align(int64_t count) {
    return (count + PIECE_ALIGNMENT - 1) / PIECE_ALIGNMENT * PIECE_ALIGNMENT;
}

int64_t sharing_slice(const struct muon_matrix *matrix) {
    return matrix->part.rows * muon_columns(matrix);
}

// Elements that the owner of a split matrix sends to each rank.
static int64_t out_count(const struct config *config, const struct muon_matrix *matrix) {
    int64_t slice = sharing_align(sharing_slice(matrix));
    if (!muon_keeps_norm(config))
        return slice;
    return slice + sharing_align(1) + (muon_needs_means(matrix) ? slice : 0);
}

int64_t sharing_sum(const int64_t *counts, int size) {
    int64_t sum = 0;
    for (int i = 0; i < size; i++)
        sum += counts[i];
    return sum;
}

static void place_item(const struct sharing *sharing, struct shared_round *round, struct shared_item *item) {
    const struct muon_matrix *matrix = item->matrix;
    int owner = item->owner;
    item->is_split = muon_is_split(matrix);
    if (item->is_split) {
        item->in = round->in[owner];
        item->out = round->out[owner];
        round->in[owner] += sharing_align(sharing_slice(matrix));
        round->out[owner] += out_count(sharing->config, matrix);
        round->split++;
    } else {
        item->in = round->whole[owner];
        item->out = round->all_whole;
        round->whole[owner] += sharing_align(sharing_slice(matrix));
        round->all_whole += sharing_align(sharing_slice(matrix));
    }
    round->count++;
}

static struct deal_limits limits_of(const struct sharing *sharing) {
    const struct optimizer_run *run = sharing->run;
    bool takes_many = device_gains_by_many(run->device) && newton_schulz_dtype(sharing->config) != DTYPE_F32;
    return (struct deal_limits){.ranks = sharing->size,
                                .most_room = takes_many ? MOST_ELEMENTS : 0,
                                .most_own = run->offload ? run->optimizer->hosted_piece : 0,
                                .most_items = run->offload ? OPTIMIZER_MOST_TOGETHER : 0};
}

static void deal_matrices(struct sharing *sharing, struct muon_matrix *list, int64_t total) {
    struct deal_item *deal = memory_alloc(sizeof *deal * (size_t)total);
    for (int64_t i = 0; i < total; i++)
        deal[i] = (struct deal_item){.cost = newton_schulz_flops(sharing->config, list[i].M, list[i].N),
                                     .room = list[i].M * list[i].N,
                                     .own = sharing_slice(&list[i]),
                                     .number = i};
    struct deal_limits limits = limits_of(sharing);
    size_t size = (size_t)sharing->size, rounds = (size_t)deal_work(deal, total, &limits);
    sharing->round_count = (int64_t)rounds;
    sharing->items = memory_alloc(sizeof *sharing->items * (size_t)total);
    sharing->rounds = memory_alloc(sizeof *sharing->rounds * rounds);
    sharing->counts = memory_alloc(sizeof *sharing->counts * 3 * size * rounds);
    for (size_t i = 0; i < rounds; i++) {
        int64_t *counts = sharing->counts + 3 * size * i;
        sharing->rounds[i] = (struct shared_round){.in = counts, .out = counts + size, .whole = counts + 2 * size};
    }
    for (int64_t i = 0; i < total; i++) {
        struct shared_round *round = &sharing->rounds[deal[i].round];
        sharing->items[i] = (struct shared_item){.matrix = &list[deal[i].number], .owner = deal[i].owner};
        if (!round->items)
            round->items = &sharing->items[i];
        place_item(sharing, round, &sharing->items[i]);
    }
    free(deal);
}

static void take_buffers(struct sharing *sharing) {
    int64_t in_sent = 1, in_received = 1, out_sent = 1, out_received = 1, most = 1;
    for (int64_t k = 0; k < sharing->round_count; k++) {
        const struct shared_round *round = &sharing->rounds[k];
        int64_t in = sharing_sum(round->in, sharing->size),
                out = sharing_sum(round->out, sharing->size) + round->all_whole;
        in_sent = in > in_sent ? in : in_sent;
        out_received = out > out_received ? out : out_received;
        most = round->count > most ? round->count : most;
        for (int i = 0; i < sharing->size; i++) {
            int64_t received = sharing->size * round->in[i] + round->whole[i], sent = sharing->size * round->out[i];
            in_received = received > in_received ? received : in_received;
            out_sent = sent > out_sent ? sent : out_sent;
        }
    }
    struct arena *arena = sharing->run->scratch;
    sharing->in_sent = arena_1d(arena, DTYPE_F32, in_sent);
    sharing->in_received = arena_1d(arena, DTYPE_F32, in_received);
    sharing->out_sent = arena_1d(arena, muon_result_dtype(sharing->config), out_sent);
    sharing->out_received = arena_1d(arena, muon_result_dtype(sharing->config), out_received);
    sharing->squares = arena_1d(arena, DTYPE_F32, most);
    sharing->broadcasts = memory_alloc(sizeof *sharing->broadcasts * (size_t)most);
    sharing->batches = memory_alloc(sizeof *sharing->batches * (size_t)most);
}

void sharing_open(struct sharing *sharing, const struct config *config, struct muon_matrix *list, int64_t total) {
    *sharing = (struct sharing){.config = config, .run = &list[0].run, .group = list[0].run.slices};
    sharing->size = group_size(sharing->group);
    sharing->rank = group_rank(sharing->group);
    deal_matrices(sharing, list, total);
    take_buffers(sharing);
}

void sharing_close(struct sharing *sharing) {
    free(sharing->broadcasts);
    free(sharing->batches);
    free(sharing->items);
    free(sharing->rounds);
    free(sharing->counts);
}

struct hand {
    double load;
    int bin;  // a rank's number before sorting
};

static int by_cost(const void *left, const void *right) {
    const struct deal_item *a = left, *b = right;
    if (a->cost != b->cost)
        return a->cost > b->cost ? -1 : 1;
    return a->number < b->number ? -1 : a->number > b->number;
}

static int by_load(const void *left, const void *right) {
    const struct hand *a = left, *b = right;
    if (a->load != b->load)
        return a->load > b->load ? -1 : 1;
    return a->bin - b->bin;
}

static int find_least(const struct hand *hands, int ranks) {
    int least = 0;
    for (int i = 1; i < ranks; i++)
        least = hands[i].load < hands[least].load ? i : least;
    return least;
}

static void choose_owners(struct deal_item *items, int64_t count, int ranks) {
    struct hand *hands = memory_alloc(sizeof *hands * (size_t)ranks);
    int *rank_of = memory_alloc(sizeof *rank_of * (size_t)ranks);
    for (int i = 0; i < ranks; i++)
        hands[i] = (struct hand){.bin = i};
    for (int64_t i = 0; i < count; i++) {
        items[i].owner = find_least(hands, ranks);
        hands[items[i].owner].load += items[i].cost;
    }
    qsort(hands, (size_t)ranks, sizeof *hands, by_load);
    for (int i = 0; i < ranks; i++)
        rank_of[hands[i].bin] = i;
    for (int64_t i = 0; i < count; i++)
        items[i].owner = rank_of[items[i].owner];
    free(rank_of);
    free(hands);
}

static int64_t choose_rounds(struct deal_item *items, int64_t count, const struct deal_limits *limits) {
    size_t bytes = sizeof(int64_t) * (size_t)limits->ranks;
    int64_t *room = memory_alloc(bytes), own = 0, in_round = 0, round = 0;
    for (int64_t i = 0; i < count; i++) {
        struct deal_item *item = &items[i];
        bool is_full = (room[item->owner] > 0 && room[item->owner] + item->room > limits->most_room) ||
                       (limits->most_own > 0 && own + item->own > limits->most_own) ||
                       (limits->most_items > 0 && in_round == limits->most_items);
        if (is_full && in_round > 0) {
            for (int k = 0; k < limits->ranks; k++)
                room[k] = 0;
            own = in_round = 0;
            round++;
        }
        item->round = round;
        room[item->owner] += item->room;
        own += item->own;
        in_round++;
    }
    free(room);
    return round + 1;
}

int64_t deal_work(struct deal_item *items, int64_t count, const struct deal_limits *limits) {
    if (count == 0)
        return 0;
    qsort(items, (size_t)count, sizeof *items, by_cost);
    choose_owners(items, count, limits->ranks);
    return choose_rounds(items, count, limits);
}
