// Chunks of sequences that ranks share: every token has one owner, fronts and backs are paired, arrays are cut alike.
#include "parallel/context.h"
#include "test.h"

enum { MOST_RANKS = 8, B = 3, CHUNK = 5 };

static struct mesh context_mesh(int ranks, int rank) {
    return (struct mesh){.size = ranks, .length = {1, ranks, 1, 1}, .place = {0, rank, 0, 0}};
}

TEST(a_rank_alone_has_one_chunk) {
    struct mesh mesh = context_mesh(1, 0);
    int32_t whole[B * CHUNK], own[B * CHUNK];
    for (int i = 0; i < B * CHUNK; i++)
        whole[i] = i;
    EXPECT_INT(context_chunks(&mesh), 1);
    EXPECT_INT(context_chunk(&mesh, 0, 0), 0);
    context_take(&mesh, own, whole, &(struct context_slice){B, CHUNK, sizeof *own});
    for (int i = 0; i < B * CHUNK; i++)
        EXPECT_INT(own[i], i);
}

TEST(every_token_has_one_owner_and_all_see_as_much) {
    for (int ranks = 2; ranks <= MOST_RANKS; ranks++) {
        int chunks = 2 * ranks, owners[2 * MOST_RANKS] = {0};
        for (int rank = 0; rank < ranks; rank++) {
            struct mesh mesh = context_mesh(ranks, rank);
            EXPECT_INT(context_all_chunks(&mesh), chunks);
            for (int which = 0; which < context_chunks(&mesh); which++)
                owners[context_chunk(&mesh, rank, which)]++;
            // Causal queries of a chunk see as many chunks as its place says: the pairs add up to the same.
            EXPECT_INT(context_chunk(&mesh, rank, 0) + context_chunk(&mesh, rank, 1), chunks - 1);
        }
        for (int chunk = 0; chunk < chunks; chunk++)
            EXPECT_INT(owners[chunk], 1);
    }
}

TEST(arrays_are_cut_by_chunks_then_samples) {
    for (int ranks = 2; ranks <= MOST_RANKS; ranks++) {
        int T = 2 * ranks * CHUNK;
        int64_t whole[B * 2 * MOST_RANKS * CHUNK], own[B * 2 * CHUNK];
        for (int i = 0; i < B * T; i++)
            whole[i] = i;
        for (int rank = 0; rank < ranks; rank++) {
            struct mesh mesh = context_mesh(ranks, rank);
            context_take(&mesh, own, whole, &(struct context_slice){B, T, sizeof *own});
            for (int n = 0; n < B * 2 * CHUNK; n++) {
                int which = n / (B * CHUNK), b = n / CHUNK % B, t = n % CHUNK;
                int chunk = which == 0 ? rank : 2 * ranks - 1 - rank;
                EXPECT_INT(own[n], (int64_t)b * T + chunk * CHUNK + t);
            }
        }
    }
}

TEST_MAIN(TEST_CASE(a_rank_alone_has_one_chunk), TEST_CASE(every_token_has_one_owner_and_all_see_as_much),
          TEST_CASE(arrays_are_cut_by_chunks_then_samples))
