// Pieces of the distributed optimizer: every element belongs to one part, wherever buckets and parameters begin and
// end.
#include "parallel/param.h"
#include "parallel/pieces.h"
#include "test.h"

#include <stdlib.h>

// All parts together hold [first, end) exactly once, and each part's elements are at their place in its whole buffer.
static void check_range(const struct pieces *whole, const int64_t *holders, int64_t first, int64_t end) {
    int64_t seen = 0;
    for (int part = 0; part < whole->parts; part++) {
        struct pieces pieces = *whole;
        struct piece run;
        int64_t behind = first, local_end = -1;
        pieces.part = part;
        for (int64_t at = first; pieces_next(&pieces, &at, end, &run); behind = at) {
            EXPECT(run.count > 0 && run.flat_offset >= behind && run.flat_offset + run.count <= end);
            EXPECT(run.local_offset >= local_end && run.local_offset + run.count <= pieces_local_count(&pieces));
            EXPECT_INT(at, run.flat_offset + run.count);
            local_end = run.local_offset + run.count;
            for (int64_t i = 0; i < run.count; i++)
                EXPECT_INT(holders[run.flat_offset + i], part * whole->total + run.local_offset + i);
            seen += run.count;
        }
    }
    EXPECT_INT(seen, end - first);
}

// Holder and place of each element by definition: part * total + local offset.
static int64_t *find_holders(const struct pieces *pieces) {
    int64_t *holders = calloc((size_t)pieces->total, sizeof *holders);
    for (int64_t begin = 0, local = 0; begin < pieces->total; begin += pieces->bucket) {
        int64_t left = pieces->total - begin, count = left < pieces->bucket ? left : pieces->bucket;
        int64_t piece = count / pieces->parts;
        for (int64_t i = 0; i < count; i++)
            holders[begin + i] = i / piece * pieces->total + local + i % piece;
        local += piece;
    }
    return holders;
}

TEST(every_element_is_held_once) {
    const int parts[] = {1, 2, 3, 4, 7};
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        int64_t multiple = pieces_multiple(parts[i]);
        for (int64_t buckets = 1; buckets <= 9; buckets += 4) {
            struct pieces pieces = pieces_make(10 * multiple, (10 + buckets - 1) / buckets * multiple - 5, parts[i], 0);
            EXPECT_INT(pieces.bucket % multiple, 0);
            EXPECT_INT(pieces_local_count(&pieces), 10 * PARAM_ALIGNMENT);
            int64_t *holders = find_holders(&pieces), total = pieces.total;
            check_range(&pieces, holders, 0, total);
            check_range(&pieces, holders, total, total);
            for (int64_t n = 0; n < 100; n++) {
                int64_t first = n * 7919 % total, length = n * 104729 % (total - first);
                check_range(&pieces, holders, first, first + length);
            }
            free(holders);
        }
    }
}

TEST(pieces_of_a_bucket_make_the_bucket) {
    struct pieces pieces = pieces_make(5 * pieces_multiple(3), 2 * pieces_multiple(3), 3, 0);
    EXPECT_INT(pieces_bucket_count(&pieces), 3);
    for (int64_t i = 0; i < 3; i++) {
        struct piece bucket = pieces_bucket(&pieces, i);
        int64_t next = bucket.flat_offset;
        for (pieces.part = 0; pieces.part < 3; pieces.part++) {
            struct piece own = pieces_own(&pieces, i);
            EXPECT_INT(own.flat_offset, next);
            EXPECT_INT(own.local_offset, bucket.local_offset);
            next += own.count;
        }
        pieces.part = 0;
        EXPECT_INT(next, bucket.flat_offset + bucket.count);
    }
    EXPECT_INT(pieces_bucket(&pieces, 2).count, pieces_multiple(3));
}

// Two groups of parameters of all kinds, alternating.
static struct param_list make_list(void) {
    struct param_list list = {0};
    for (int i = 0; i < 60; i++) {
        int64_t rows = 1 + i * 7919 % 61, columns = 1 + i * 104729 % 53;
        struct param *param = param_add(&list, "weight", shard_whole(i % 5 ? 2 : 1, rows, columns), INIT_ZERO, 0);
        if (i % 3 == 0)
            param->group =
                param_list_group(&list, &(struct param_group){.name = "other",
                                                              .replicas = MESH_SAMPLES,
                                                              .slices = AXES(AXIS_TENSOR) | AXES(AXIS_CONTEXT)});
        if (i % 4 == 0)
            param->shard = shard_split(param->shard, 0, 2, 0);
        param->sums_gradient = i % 7 == 0;
        param->is_copy = param->is_shared = i % 11 == 1 && param->has_decay;
    }
    EXPECT_INT(list.group_count, 2);
    return list;
}

static bool is_in(const struct param *param, int64_t first, int64_t end) {
    return param->offset >= first && param->offset < end;
}

// Every parameter is in its group, and in the ranges of it for its kind.
static void check_ranges(const struct param_list *list) {
    EXPECT(list->groups[0].first == 0 && list->groups[0].end == list->groups[1].first);
    EXPECT_INT(list->groups[1].end, list->total);
    for (int i = 0; i < list->count; i++) {
        const struct param *param = list->items[i];
        const struct param_group *group = &list->groups[param->group];
        bool is_whole = param->shard.parts == 1 && !param->is_copy;
        EXPECT(is_in(param, group->first, group->end) && param_end(param) <= group->end);
        EXPECT(is_in(param, group->first, group->counted_first) == param->is_copy);
        EXPECT(is_in(param, group->first, group->decayed) == param->has_decay);
        EXPECT(is_in(param, group->whole_first, group->whole_end) == is_whole);
        EXPECT(is_in(param, group->summed_first, group->summed_end) == (is_whole && param->sums_gradient));
        for (int k = 0; k < i; k++)
            EXPECT(param_end(list->items[k]) <= param->offset || param_end(param) <= list->items[k]->offset);
    }
}

// Splits one group into twice as many parts as the other. Of matrices that are kept whole, one part holds all and the
// others nothing; in the other group, and in both without that, some are cut.
static void check_division(int parts, int64_t bucket, int whole_group) {
    struct param_list list = make_list();
    struct pieces pieces[2];
    struct division divisions[2];
    int cut[2] = {0};
    for (int i = 0; i < 2; i++)
        divisions[i] = (struct division){.parts = (i + 1) * parts, .bucket = bucket, .keeps_whole = i == whole_group};
    pieces_divide(&list, divisions, pieces);
    check_ranges(&list);
    for (int i = 0; i < 2; i++)
        EXPECT(pieces[i].first == list.groups[i].first && pieces[i].first + pieces[i].total == list.groups[i].end);
    for (int i = 0; i < list.count; i++) {
        const struct param *param = list.items[i];
        struct pieces *own = &pieces[param->group];
        int64_t count = shard_local_count(&param->shard), held = 0;
        for (own->part = 0; own->part < own->parts; own->part++) {
            struct piece run;
            int64_t held_here = 0;
            for (int64_t at = param->offset; pieces_next(own, &at, param->offset + count, &run); held_here += run.count)
                EXPECT(run.local_offset >= 0 && run.local_offset + run.count <= pieces_local_count(own));
            cut[param->group] += held_here > 0 && held_here < count;
            held += held_here;
        }
        EXPECT_INT(held, count);
    }
    for (int i = 0; i < 2; i++)
        EXPECT(i == whole_group || divisions[i].parts == 1 ? cut[i] == 0 : cut[i] > 0);
    param_list_free(&list);
}

TEST(groups_are_divided_one_by_one) {
    for (int parts = 1; parts < 6; parts++)
        for (int64_t bucket = 64; bucket < 1 << 16; bucket *= 4)
            for (int whole_group = -1; whole_group < 2; whole_group++)
                check_division(parts, bucket, whole_group);
}

// FLOP of a Newton-Schulz step: the Gram matrix and its square are symmetric and computed by half.
static double step_flops(double rows, double columns) {
    double side = rows < columns ? rows : columns, other = rows < columns ? columns : rows;
    return side * side * other + side * side * side + 2 * side * side * other;
}

// The matrices of llama-1.3B and gpt2-1558M on 2, 4 and 8 ranks: each has its share of Muon's work, and there are no
// gaps between them.
TEST(matrices_of_models_are_dealt_evenly) {
    static const struct {
        int layers, width, first, second;
    } models[] = {{24, 2048, 11008, 5504}, {48, 1600, 6400, 6400}};
    for (int m = 0; m < 2; m++)
        for (int parts = 2; parts <= 8; parts *= 2) {
            struct param_list list = {0};
            int64_t width = models[m].width, elements = 0;
            double all = 0, most = 0;
            for (int i = 0; i < models[m].layers; i++) {
                (void)param_add(&list, "qkv", shard_whole(2, 3 * width, width), INIT_ZERO, 0);
                (void)param_add(&list, "proj", shard_whole(2, width, width), INIT_ZERO, 0);
                (void)param_add(&list, "fc1", shard_whole(2, models[m].first, width), INIT_ZERO, 0);
                (void)param_add(&list, "fc2", shard_whole(2, width, models[m].second), INIT_ZERO, 0);
            }
            struct pieces pieces;
            pieces_divide(&list, &(struct division){.parts = parts, .bucket = 8 << 20, .keeps_whole = true}, &pieces);
            for (pieces.part = 0; pieces.part < parts; pieces.part++) {
                double own = 0;
                for (int i = 0; i < list.count; i++) {
                    const struct shard *shard = &list.items[i]->shard;
                    int64_t at = list.items[i]->offset, end = at + shard_local_count(shard);
                    struct piece run;
                    bool is_three = i % 4 == 0;  // queries, keys and values
                    double rows = (double)shard->global[0] / (is_three ? 3 : 1);
                    if (pieces_next(&pieces, &at, end, &run))
                        own += (is_three ? 3 : 1) * step_flops(rows, (double)shard->global[1]);
                }
                all += own;
                most = own > most ? own : most;
            }
            for (int i = 0; i < list.count; i++)
                elements += shard_local_count(&list.items[i]->shard);
            EXPECT(most * parts < 1.0001 * all);
            EXPECT(pieces.total < elements / 100 * 101);
            EXPECT(pieces_bucket_count(&pieces) >= 3);
            param_list_free(&list);
        }
}

TEST_MAIN(TEST_CASE(matrices_of_models_are_dealt_evenly), TEST_CASE(every_element_is_held_once),
          TEST_CASE(pieces_of_a_bucket_make_the_bucket), TEST_CASE(groups_are_divided_one_by_one))
