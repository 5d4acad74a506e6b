// Rows of logits that are computed at a time.
#include "model/head.h"
#include "test.h"

static int64_t rows_of_rank(int64_t vocabulary, int parts, int part, int64_t rows) {
    struct param weight = {.shard = shard_split(shard_whole(2, vocabulary, 64), 0, parts, part)};
    struct head head = {.weight = &weight, .V = shard_local_size(&weight.shard, 0)};
    struct pass pass = {.dtype = DTYPE_BF16};
    return head_rows_at_once(&head, &pass, rows);
}

// The last rank may hold less of the vocabulary. With a number of its own it would wait for sums of parts that the
// others do not have.
TEST(ranks_agree_on_the_rows) {
    for (int parts = 1; parts < 8; parts++)
        for (int64_t rows = 128; rows < 1 << 17; rows = rows * 9 / 8 + 1)
            for (int64_t vocabulary = 50257; vocabulary < 50257 + 4; vocabulary++) {
                int64_t first = rows_of_rank(vocabulary, parts, 0, rows);
                EXPECT(first == rows || first % 128 == 0);
                EXPECT(first * ((vocabulary + parts - 1) / parts) * 2 <= ((int64_t)1 << 30) + 128 * 2 * 50260);
                for (int part = 1; part < parts; part++)
                    EXPECT_INT(rows_of_rank(vocabulary, parts, part, rows), first);
            }
    // 8192 rows of 65536 numbers of two bytes are 1 GiB.
    EXPECT_INT(rows_of_rank(131071, 2, 0, 8192), 8192);
    EXPECT_INT(rows_of_rank(131073, 2, 1, 8192), 4096);
}

TEST_MAIN(TEST_CASE(ranks_agree_on_the_rows))
