// MT19937 against NumPy, Philox against the known answers of its authors (Random123), and normal deviates: against an
// independent computation, for equality under any split, and for their moments.
#include "test.h"

#include "base/buffer.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/memory.h"
#include "base/rng.h"

static void expect_words(struct philox p, const uint32_t words[4]) {
    for (int i = 0; i < 4; i++)
        EXPECT_INT(p.word[i], words[i]);
}

// Zeros, ones, and digits of pi as counter and key.
TEST(philox_known_answers) {
    static const struct {
        uint64_t key;
        uint32_t counter[4], seven[4], ten[4];
    } answers[] = {
        {0,
         {0, 0, 0, 0},
         {0x5f6fb709, 0x0d893f64, 0x4f121f81, 0x4f730a48},
         {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
        {UINT64_MAX,
         {UINT32_MAX, UINT32_MAX, UINT32_MAX, UINT32_MAX},
         {0x5207ddc2, 0x45165e59, 0x4d8ee751, 0x8c52f662},
         {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
        {0x299f31d0a4093822u,
         {0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
         {0x4dfccaba, 0x190a87f0, 0xc47362ba, 0xb6b5242a},
         {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
    };
    for (size_t i = 0; i < sizeof answers / sizeof answers[0]; i++) {
        const uint32_t *c = answers[i].counter;
        expect_words(philox4x32_7(answers[i].key, c[0], c[1], c[2], c[3]), answers[i].seven);
        expect_words(philox4x32(answers[i].key, c[0], c[1], c[2], c[3]), answers[i].ten);
    }
}

// The values of one golden line, read in order.
struct rng_golden {
    const char *at;
};

static uint64_t next_number(struct rng_golden *g) {
    char *end;
    uint64_t value = strtoull(g->at, &end, 10);
    if (end == g->at)
        test_fail("the golden line ends too early");
    g->at = end;
    return value;
}

static double next_double(struct rng_golden *g) {
    char *end;
    double value = strtod(g->at, &end);
    if (end == g->at)
        test_fail("the golden line ends too early");
    g->at = end;
    return value;
}

static void check_words(struct rng_golden *g, struct mt19937 *mt, int skipped) {
    for (int i = 0; i < skipped; i++)
        mt19937_next(mt);
    uint64_t count = next_number(g);
    for (uint64_t i = 0; i < count; i++)
        EXPECT_INT(mt19937_next(mt), next_number(g));
}

static void check_random(struct rng_golden *g, struct mt19937 *mt) {
    uint64_t count = next_number(g);
    for (uint64_t i = 0; i < count; i++)
        EXPECT(mt19937_random(mt) == next_double(g));
}

static void check_shuffle(struct rng_golden *g, struct mt19937 *mt) {
    int32_t narrow[64];
    int64_t wide[64];
    struct mt19937 again = *mt;
    size_t n = next_number(g);
    for (size_t i = 0; i < n; i++)
        wide[i] = narrow[i] = (int32_t)i;
    mt19937_shuffle_i32(mt, narrow, n);
    mt19937_shuffle_i64(&again, wide, n);
    for (size_t i = 0; i < n; i++) {
        EXPECT_INT(narrow[i], next_number(g));
        EXPECT_INT(wide[i], narrow[i]);
    }
    EXPECT_INT(mt19937_next(mt), next_number(g));
}

static void check_shuffle_sum(struct rng_golden *g, struct mt19937 *mt) {
    size_t n = next_number(g);
    int64_t *x = memory_alloc(n * sizeof *x), sum = 0;
    mt19937_permutation(mt, x, n);
    for (size_t i = 0; i < n; i++)
        sum += x[i] * (int64_t)(i + 1);
    int64_t first = x[0], last = x[n - 1];
    free(x);
    EXPECT_INT(sum, next_number(g));
    EXPECT_INT(first, next_number(g));
    EXPECT_INT(last, next_number(g));
}

static void check_permutation(struct rng_golden *g, struct mt19937 *mt) {
    int64_t x[64];
    size_t n = next_number(g);
    mt19937_permutation(mt, x, n);
    for (size_t i = 0; i < n; i++)
        EXPECT_INT(x[i], next_number(g));
}

static void check_normal(struct rng_golden *g, uint64_t seed) {
    float x[9];
    int64_t first = (int64_t)next_number(g);
    uint64_t stream = next_number(g);
    philox_normal(x, 9, first, seed, stream, 0.02);
    for (int i = 0; i < 9; i++) {
        double expected = 0.02 * next_double(g);
        if (fabs(x[i] - expected) > 1.2e-7 * fabs(expected))
            test_fail("deviate %d is %.9g, expected %.9g", i, (double)x[i], expected);
    }
}

static void check_line(const char *line, struct mt19937 *intervals) {
    char kind[32];
    int used;
    uint64_t seed;
    if (sscanf(line, "%31s %" SCNu64 "%n", kind, &seed, &used) != 2)
        test_fail("a golden line without kind and seed: %s", line);
    struct rng_golden g = {line + used};
    struct mt19937 mt;
    mt19937_seed(&mt, (uint32_t)seed);
    if (strcmp(kind, "word") == 0)
        check_words(&g, &mt, 0);
    else if (strcmp(kind, "word_5004") == 0)
        check_words(&g, &mt, 5004);
    else if (strcmp(kind, "random") == 0)
        check_random(&g, &mt);
    else if (strcmp(kind, "shuffle") == 0)
        check_shuffle(&g, &mt);
    else if (strcmp(kind, "shuffle_sum") == 0)
        check_shuffle_sum(&g, &mt);
    else if (strcmp(kind, "permutation") == 0)
        check_permutation(&g, &mt);
    else if (strcmp(kind, "normal") == 0)
        check_normal(&g, seed);
    else if (strcmp(kind, "interval") == 0) {
        uint64_t most = next_number(&g);
        if (most == 1)
            mt19937_seed(intervals, (uint32_t)seed);
        for (int i = 0; i < 3; i++)
            EXPECT_INT(mt19937_interval(intervals, most), next_number(&g));
    } else {
        test_fail("unknown golden line %s", kind);
    }
}

TEST(golden_values) {
    struct buffer text = {0};
    struct mt19937 intervals;
    int lines = 0;
    mt19937_seed(&intervals, 0);
    EXPECT_OK(file_read_all("tests/golden/numpy_rng.txt", 1 << 20, &text));
    char *line = text.data;
    for (char *end; (end = strchr(line, '\n')); line = end + 1) {
        *end = '\0';
        if (line[0] == '#')
            continue;
        check_line(line, &intervals);
        lines++;
    }
    buffer_free(&text);
    EXPECT_INT(lines, 6 * 21 + 4);
}

TEST(interval_bounds) {
    struct mt19937 mt;
    mt19937_seed(&mt, 7);
    uint32_t before = mt19937_next(&mt);
    mt19937_seed(&mt, 7);
    EXPECT_INT(mt19937_interval(&mt, 0), 0);
    EXPECT_INT(mt19937_next(&mt), before);  // a range of one value draws nothing
    for (int i = 0; i < 1000; i++)
        EXPECT(mt19937_interval(&mt, 5) <= 5);
    mt19937_seed(&mt, 7);
    EXPECT_INT(mt19937_interval(&mt, UINT32_MAX), before);
    // The full 64-bit range takes two words, the high one first.
    mt19937_seed(&mt, 7);
    EXPECT_INT(mt19937_interval(&mt, UINT64_MAX) >> 32, before);
}

TEST(normal_any_split_is_equal) {
    enum { COUNT = 1500 };
    float whole[COUNT], parts[COUNT];
    philox_normal(whole, COUNT, 5, 99, 3, 1.0);
    for (int64_t cut = 1; cut < COUNT; cut += cut < 20 ? 1 : 131) {
        memset(parts, 0, sizeof parts);
        for (int64_t at = 0; at < COUNT; at += cut)
            philox_normal(parts + at, cut < COUNT - at ? cut : COUNT - at, 5 + at, 99, 3, 1.0);
        EXPECT(memcmp(whole, parts, sizeof whole) == 0);
    }
}

// Not an external value but a guarantee: the same bits from every compiler, option and processor. First taken on
// aarch64.
TEST(normal_bits_are_the_same_everywhere) {
    enum { COUNT = 1000000 };
    float *x = memory_alloc(COUNT * sizeof *x);
    struct sha256 hash;
    unsigned char digest[32];
    char text[65];
    philox_normal(x, COUNT, 1, 1234, 42, 0.02);
    sha256_init(&hash);
    sha256_update(&hash, x, COUNT * sizeof *x);
    sha256_final(&hash, digest);
    sha256_hex(digest, text);
    free(x);
    EXPECT_STRING(text, "1b166492eb3001f5d2571ee14c7580b13bbc2915258cbf02fa46902b6bcb8efe");
}

TEST(normal_streams_and_seeds_differ) {
    float a[8], b[8], c[8];
    philox_normal(a, 8, 0, 1, 1, 1.0);
    philox_normal(b, 8, 0, 1, 2, 1.0);
    philox_normal(c, 8, 0, 2, 1, 1.0);
    for (int i = 0; i < 8; i++)
        EXPECT(a[i] != b[i] && a[i] != c[i] && b[i] != c[i]);
}

TEST(normal_moments) {
    enum { COUNT = 1 << 20 };
    float *x = memory_alloc(COUNT * sizeof *x);
    philox_normal(x, COUNT, 0, 20260101, 1, 1.0);
    double sum[5] = {0}, product = 0;
    int64_t inside = 0;
    for (int64_t i = 0; i < COUNT; i++) {
        double power = 1;
        for (int k = 1; k <= 4; k++)
            sum[k] += power *= x[i];
        inside += fabs(x[i]) < 1;
        product += i > 0 ? (double)x[i] * x[i - 1] : 0;
    }
    free(x);
    // Five standard errors of each estimate.
    double error = 5 / sqrt((double)COUNT);
    EXPECT_NEAR(sum[1] / COUNT, 0, error);
    EXPECT_NEAR(sum[2] / COUNT, 1, error * sqrt(2));
    EXPECT_NEAR(sum[3] / COUNT, 0, error * sqrt(15));
    EXPECT_NEAR(sum[4] / COUNT, 3, error * sqrt(96) / 3);
    EXPECT_NEAR((double)inside / COUNT, 0.682689492137, error * 0.4655);
    EXPECT_NEAR(product / COUNT, 0, error);
}

TEST_MAIN(TEST_CASE(philox_known_answers), TEST_CASE(golden_values), TEST_CASE(interval_bounds),
          TEST_CASE(normal_any_split_is_equal), TEST_CASE(normal_bits_are_the_same_everywhere),
          TEST_CASE(normal_streams_and_seeds_differ), TEST_CASE(normal_moments))
