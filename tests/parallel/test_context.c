// Chunks of sequences that ranks share: every token has one owner, fronts and backs are paired, and all arrays are
// split in the same way.
#include "parallel/shard.h"
#include "test.h"

#include <string.h>

enum { MOST_RANKS = 8, B = 3, STRIP = 5 };

static struct mesh context_mesh(int ranks, int rank) {
    return (struct mesh){.size = ranks, .length = {1, ranks, 1, 1}, .place = {0, rank, 0, 0}};
}

TEST(a_rank_alone_has_one_strip) {
    struct mesh mesh = context_mesh(1, 0);
    int32_t whole[B * STRIP], own[B * STRIP];
    for (int i = 0; i < B * STRIP; i++)
        whole[i] = i;
    EXPECT_INT(context_strips(&mesh), 1);
    EXPECT_INT(context_strip(&mesh, 0, 0), 0);
    context_take(&mesh, own, whole, &(struct context_slice){B, STRIP, sizeof *own});
    for (int i = 0; i < B * STRIP; i++)
        EXPECT_INT(own[i], i);
}

TEST(every_token_has_one_owner_and_all_see_as_much) {
    for (int ranks = 2; ranks <= MOST_RANKS; ranks++) {
        int strips = 2 * ranks, owners[2 * MOST_RANKS] = {0};
        for (int rank = 0; rank < ranks; rank++) {
            struct mesh mesh = context_mesh(ranks, rank);
            EXPECT_INT(context_all_strips(&mesh), strips);
            for (int which = 0; which < context_strips(&mesh); which++)
                owners[context_strip(&mesh, rank, which)]++;
            // Causal queries of a strip see as many strips as its index says: the pairs have the same sum.
            EXPECT_INT(context_strip(&mesh, rank, 0) + context_strip(&mesh, rank, 1), strips - 1);
        }
        for (int strip = 0; strip < strips; strip++)
            EXPECT_INT(owners[strip], 1);
    }
}

TEST(arrays_are_cut_by_strips_then_samples) {
    for (int ranks = 2; ranks <= MOST_RANKS; ranks++) {
        int T = 2 * ranks * STRIP;
        int64_t whole[B * 2 * MOST_RANKS * STRIP], own[B * 2 * STRIP];
        for (int i = 0; i < B * T; i++)
            whole[i] = i;
        for (int rank = 0; rank < ranks; rank++) {
            struct mesh mesh = context_mesh(ranks, rank);
            context_take(&mesh, own, whole, &(struct context_slice){B, T, sizeof *own});
            for (int n = 0; n < B * 2 * STRIP; n++) {
                int which = n / (B * STRIP), b = n / STRIP % B, t = n % STRIP;
                int strip = which == 0 ? rank : 2 * ranks - 1 - rank;
                EXPECT_INT(own[n], (int64_t)b * T + strip * STRIP + t);
            }
        }
    }
}

// The strips of neighbours lie side by side: together they are two strips of a rank among fewer.
TEST(neighbours_together_have_two_strips) {
    for (int near = 1; near <= MOST_RANKS; near++)
        for (int groups = 1; near * groups <= MOST_RANKS; groups++) {
            int ranks = near * groups;
            for (int rank = 0; rank < ranks; rank++) {
                struct mesh mesh = context_mesh(ranks, rank), merged = context_merge(&mesh, near);
                EXPECT_INT(merged.length[AXIS_CONTEXT], groups);
                // Which of the many short strips the long ones have, and which the neighbours.
                bool is_held[2][2 * MOST_RANKS] = {{0}};
                int length = context_all_strips(&mesh) / context_all_strips(&merged);
                for (int which = 0; which < context_strips(&merged); which++)
                    for (int i = 0; i < length; i++)
                        is_held[0][context_strip(&merged, merged.place[AXIS_CONTEXT], which) * length + i] = true;
                for (int other = rank / near * near; other < rank / near * near + near; other++)
                    for (int which = 0; which < context_strips(&mesh); which++)
                        is_held[1][context_strip(&mesh, other, which)] = true;
                EXPECT(memcmp(is_held[0], is_held[1], sizeof is_held[0]) == 0);
            }
        }
}

TEST_MAIN(TEST_CASE(a_rank_alone_has_one_strip), TEST_CASE(every_token_has_one_owner_and_all_see_as_much),
          TEST_CASE(arrays_are_cut_by_strips_then_samples), TEST_CASE(neighbours_together_have_two_strips))
