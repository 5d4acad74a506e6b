// The keepers of each rank's copies.
#include "recovery/memory_checkpoint.h"
#include "test.h"

enum { MOST = 12 };

// Everybody's copy is on another node, and no rank keeps many more than others.
static void check(const int64_t *vaults, int ranks, int nodes, const int *expected) {
    int keepers[MOST];
    EXPECT_INT(memory_copies_assign(vaults, ranks, keepers), nodes);
    for (int rank = 0; rank < ranks; rank++) {
        EXPECT_INT(keepers[rank], expected[rank]);
        EXPECT(nodes == 1 || vaults[keepers[rank]] != vaults[rank]);
    }
}

TEST(copies_are_on_the_next_node) {
    check((const int64_t[]){7, 7, 7}, 3, 1, (const int[]){-1, -1, -1});
    check((const int64_t[]){9}, 1, 1, (const int[]){-1});
    check((const int64_t[]){9, 9, -4, -4}, 4, 2, (const int[]){2, 3, 0, 1});
    check((const int64_t[]){1, 1, 2, 2, 3, 3}, 6, 3, (const int[]){2, 3, 4, 5, 0, 1});
    check((const int64_t[]){5, 6, 5, 6}, 4, 2, (const int[]){1, 0, 3, 2});
    check((const int64_t[]){1, 1, 1, 2}, 4, 2, (const int[]){3, 3, 3, 0});
    check((const int64_t[]){0, 1, 1, 1, 1}, 5, 2, (const int[]){1, 0, 0, 0, 0});
}

TEST_MAIN(TEST_CASE(copies_are_on_the_next_node))
