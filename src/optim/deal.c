// Dealing out work. See deal.h.
#include "optim/deal.h"
#include "base/memory.h"

#include <stdbool.h>
#include <stdlib.h>

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
