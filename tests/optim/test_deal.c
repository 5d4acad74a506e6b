// Dealing out work: every item has one owner, loads are even, rounds stay within their limits; and the matrices of
// models on data-parallel and tensor-parallel ranks together.
#include "optim/muon.h"

#include "base/memory.h"
#include "optim/newton_schulz.h"
#include "parallel/pieces.h"
#include "test.h"

#include <stdlib.h>

enum { MOST_RANKS = 64 };

// Every number once; the first rank has the most; rounds ascend, and no rank has more in one than it may.
static void expect_dealt(const struct deal_item *items, int64_t count, const struct deal_limits *limits,
                         int64_t rounds) {
    bool *is_seen = memory_alloc(sizeof *is_seen * (size_t)count);
    double load[MOST_RANKS] = {0};
    for (int64_t i = 0; i < count; i++) {
        EXPECT(items[i].number >= 0 && items[i].number < count && !is_seen[items[i].number]);
        is_seen[items[i].number] = true;
        EXPECT(items[i].owner >= 0 && items[i].owner < limits->ranks);
        EXPECT(i == 0 ? items[i].round == 0 : items[i].round - items[i - 1].round <= 1);
        EXPECT(i == 0 || (items[i].round >= items[i - 1].round && items[i].cost <= items[i - 1].cost));
        load[items[i].owner] += items[i].cost;
    }
    for (int i = 1; i < limits->ranks; i++)
        EXPECT(load[i] <= load[i - 1]);
    for (int64_t round = 0; round < rounds; round++) {
        int64_t room[MOST_RANKS] = {0}, own[MOST_RANKS] = {0}, all = 0, elements = 0;
        for (int64_t i = 0; i < count; i++)
            if (items[i].round == round) {
                room[items[i].owner] += items[i].room;
                own[items[i].owner]++;
                elements += items[i].own;
                all++;
            }
        EXPECT(all > 0 && (limits->most_items == 0 || all <= limits->most_items));
        EXPECT(limits->most_own == 0 || all == 1 || elements <= limits->most_own);
        for (int i = 0; i < limits->ranks; i++)
            EXPECT(own[i] <= 1 || room[i] <= limits->most_room);
    }
    free(is_seen);
}

TEST(every_item_has_an_owner) {
    enum { COUNT = 101 };
    for (int ranks = 1; ranks <= 17; ranks += 4)
        for (int64_t most_room = 0; most_room <= 300; most_room += 100) {
            struct deal_item items[COUNT];
            for (int i = 0; i < COUNT; i++)
                items[i] =
                    (struct deal_item){.cost = 1 + i * 7 % 13, .room = 10 + i * 11 % 40, .own = 3 + i % 5, .number = i};
            struct deal_limits limits = {
                .ranks = ranks, .most_room = most_room, .most_own = 40, .most_items = most_room > 100 ? 8 : 0};
            int64_t rounds = deal_work(items, COUNT, &limits);
            expect_dealt(items, COUNT, &limits, rounds);
        }
}

// 5, 4, 3, 3, 3 on two ranks: 5 + 3 and 4 + 3 + 3, which is the more.
TEST(the_first_rank_has_the_most) {
    struct deal_item items[] = {{.cost = 3, .number = 0},
                                {.cost = 5, .number = 1},
                                {.cost = 3, .number = 2},
                                {.cost = 4, .number = 3},
                                {.cost = 3, .number = 4}};
    static const int numbers[] = {1, 3, 0, 2, 4}, owners[] = {1, 0, 0, 1, 0};
    EXPECT_INT(deal_work(items, 5, &(struct deal_limits){.ranks = 2, .most_room = 0}), 1);
    for (int i = 0; i < 5; i++) {
        EXPECT_INT(items[i].number, numbers[i]);
        EXPECT_INT(items[i].owner, owners[i]);
    }
}

TEST(nothing_to_deal) {
    EXPECT_INT(deal_work(NULL, 0, &(struct deal_limits){.ranks = 4}), 0);
}

struct layer_sizes {
    int layers;
    int64_t width, first, second;
};

// The parameters of a model whose slices a tensor-parallel rank holds.
static void add_matrices(struct param_list *list, const struct layer_sizes *model, int tp) {
    int64_t C = model->width;
    for (int i = 0; i < model->layers; i++) {
        (void)param_add(list, "qkv", shard_split(shard_whole(2, 3 * C, C), 0, tp, 0), INIT_ZERO, 0);
        (void)param_add(list, "proj", shard_split(shard_whole(2, C, C), 1, tp, 0), INIT_ZERO, 0);
        (void)param_add(list, "fc1", shard_split(shard_whole(2, model->first, C), 0, tp, 0), INIT_ZERO, 0);
        (void)param_add(list, "fc2", shard_split(shard_whole(2, C, model->second), 1, tp, 0), INIT_ZERO, 0);
    }
}

// The work of tensor-parallel ranks on the matrices of one data-parallel rank's pieces; the most that one has.
static double most_work(const struct config *config, const struct param_list *list, const struct pieces *pieces, int tp,
                        double *all) {
    struct deal_item *items = memory_alloc(sizeof *items * 3 * (size_t)list->count);
    double load[MOST_RANKS] = {0};
    int64_t count = 0;
    for (int i = 0; i < list->count; i++) {
        const struct shard *shard = &list->items[i]->shard;
        int64_t at = list->items[i]->offset, end = at + shard_local_count(shard);
        struct piece run;
        int matrices = i % 4 == 0 ? 3 : 1;  // queries, keys and values
        if (!pieces_next(pieces, &at, end, &run))
            continue;
        for (int k = 0; k < matrices; k++, count++)
            items[count] = (struct deal_item){
                .cost = newton_schulz_flops(config, shard->global[0] / matrices, shard->global[1]), .number = count};
    }
    (void)deal_work(items, count, &(struct deal_limits){.ranks = tp});
    for (int64_t i = 0; i < count; i++) {
        load[items[i].owner] += items[i].cost;
        *all += items[i].cost;
    }
    free(items);
    return load[0];
}

// Of llama-1.3B and gpt2-1558M on up to 32 ranks: no rank has more than its share by more than one of the largest
// matrices, and with up to 8 by more than a twentieth.
TEST(matrices_of_models_on_both_axes) {
    static const struct layer_sizes models[] = {{24, 2048, 11008, 5504}, {48, 1600, 6400, 6400}};
    struct config config;
    config_defaults(&config);
    for (int m = 0; m < 2; m++)
        for (int tp = 1; tp <= 8; tp *= 2)
            for (int dp = 1; dp <= 4; dp *= 2) {
                struct param_list list = {0};
                struct pieces pieces;
                double most = 0, all = 0;
                add_matrices(&list, &models[m], tp);
                pieces_divide(&list, &(struct division){.parts = dp, .bucket = 8 << 20, .keeps_whole = true}, &pieces);
                for (pieces.part = 0; pieces.part < dp; pieces.part++) {
                    double own = most_work(&config, &list, &pieces, tp, &all);
                    most = own > most ? own : most;
                }
                double share = all / (tp * dp),
                       largest = newton_schulz_flops(&config, models[m].first, models[m].width);
                EXPECT(most < share + largest);
                EXPECT(tp * dp > 8 || most < 1.05 * share);
                param_list_free(&list);
            }
    config_free(&config);
}

TEST_MAIN(TEST_CASE(every_item_has_an_owner), TEST_CASE(the_first_rank_has_the_most), TEST_CASE(nothing_to_deal),
          TEST_CASE(matrices_of_models_on_both_axes))
