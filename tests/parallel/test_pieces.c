// Pieces of a divided optimizer: every element belongs to one part, wherever buckets and parameters begin and end.
#include "parallel/param.h"
#include "parallel/pieces.h"
#include "test.h"

#include <stdlib.h>

// All parts together hold [first, end) exactly once, and each part's elements lie where its whole buffer has them.
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

// Who holds each element and where, from the definition: part * total + local offset.
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

TEST_MAIN(TEST_CASE(every_element_is_held_once), TEST_CASE(pieces_of_a_bucket_make_the_bucket))
