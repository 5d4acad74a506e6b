// Sorting and scattering with little memory, against the same in memory.
#include "data/index/spill.h"

#include "base/rng.h"
#include "fixture.h"

static int words_compared;

static int compare(const void *a, const void *b) {
    const uint64_t *of_a = a, *of_b = b;
    for (int i = 0; i < words_compared; i++)
        if (of_a[i] != of_b[i])
            return of_a[i] < of_b[i] ? -1 : 1;
    return 0;
}

static uint64_t random_word(struct mt19937 *mt, int kind) {
    uint64_t word = (uint64_t)mt19937_next(mt) << 32 | mt19937_next(mt);
    return kind == 0 ? word : kind == 1 ? word % 5 : word % 1000000;
}

static void check_sort(int64_t count, int words, size_t memory, int kind) {
    struct mt19937 mt;
    mt19937_seed(&mt, (uint32_t)(count * 7 + words));
    size_t bytes = (size_t)count * (size_t)words * sizeof(uint64_t);
    uint64_t *expected = memory_alloc(bytes + 1), record[EXTERNAL_SORT_WORDS];
    struct external_sort sort;
    external_sort_open(&sort, words, memory, scratch_path("sort"));
    for (int64_t i = 0; i < count; i++) {
        for (int j = 0; j < words; j++)
            expected[i * words + j] = random_word(&mt, kind);
        EXPECT_OK(external_sort_add(&sort, expected + i * words));
    }
    words_compared = words;
    qsort(expected, (size_t)count, (size_t)words * sizeof *expected, compare);
    EXPECT_OK(external_sort_finish(&sort));
    for (int again = 0; again < 2; again++) {
        for (int64_t i = 0; i < count; i++) {
            EXPECT_INT(external_sort_next(&sort, record), 1);
            EXPECT(memcmp(record, expected + i * words, (size_t)words * sizeof *record) == 0);
        }
        EXPECT_INT(external_sort_next(&sort, record), 0);
        EXPECT_OK(external_sort_rewind(&sort));
    }
    external_sort_close(&sort);
    free(expected);
}

TEST(sorting) {
    static const int64_t counts[] = {0, 1, 2, 25, 511, 512, 513, 2048, 30000};
    scratch_open();
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++)
        for (int words = 1; words <= EXTERNAL_SORT_WORDS; words++)
            for (int kind = 0; kind < 3; kind++) {
                check_sort(counts[i], words, 0, kind);  // runs of 16 KiB, four at a time: several rounds
                check_sort(counts[i], words, 1 << 26, kind);
            }
    EXPECT_INT(scratch_entries(), 0);
    scratch_close();
}

struct collected {
    unsigned char *bytes;
    size_t count;
};

static int collect(void *context, const unsigned char *bytes, size_t count) {
    struct collected *all = context;
    memcpy(all->bytes + all->count, bytes, count);
    all->count += count;
    return 0;
}

// The pieces of an array, cut at random, in random order.
static void check_scatter(size_t total, size_t memory, uint64_t longest) {
    struct mt19937 mt;
    mt19937_seed(&mt, (uint32_t)total);
    size_t *cuts = memory_alloc((total + 2) * sizeof *cuts), count = 0;
    for (size_t at = 0; at < total; at += 1 + mt19937_interval(&mt, longest - 1))
        cuts[count++] = at;
    cuts[count] = total;
    int64_t *order = memory_alloc((count + 1) * sizeof *order);
    mt19937_permutation(&mt, order, count);
    unsigned char *bytes = memory_alloc(total + 1), *out = memory_alloc(total + 1);
    for (size_t i = 0; i < total; i++)
        bytes[i] = (unsigned char)mt19937_next(&mt);
    struct scatter scatter;
    EXPECT_OK(scatter_open(&scatter, total, memory, scratch_path("scatter")));
    for (size_t i = 0; i < count; i++) {
        size_t begin = cuts[order[i]], end = cuts[order[i] + 1];
        EXPECT_OK(scatter_put(&scatter, begin, bytes + begin, end - begin));
    }
    struct collected all = {.bytes = out};
    EXPECT_OK(scatter_drain(&scatter, (struct scatter_sink){&all, collect}));
    EXPECT_INT(all.count, total);
    EXPECT(memcmp(out, bytes, total) == 0);
    scatter_close(&scatter);
    free(cuts);
    free(order);
    free(bytes);
    free(out);
}

TEST(scattering) {
    scratch_open();
    check_scatter(0, 1 << 20, 10);
    check_scatter(1, 1 << 20, 10);
    check_scatter(100000, 1 << 26, 5000);
    check_scatter(100000, 0, 3);
    check_scatter(1000000, 0, 100000);  // eight regions of 125 kB in 8 KiB of memory: scattered repeatedly
    check_scatter(3000000, 1 << 16, 4000);
    EXPECT_INT(scratch_entries(), 0);
    scratch_close();
}

TEST_MAIN(TEST_CASE(sorting), TEST_CASE(scattering))
