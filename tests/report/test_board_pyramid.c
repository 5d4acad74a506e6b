// Curves in bounded memory, against plain arrays; numbers read and written against the C library.
#include "base/json.h"
#include "base/rng.h"
#include "report/board/line_reader.h"
#include "report/board/store.h"
#include "report/board/pyramid.h"
#include "test.h"
#include <float.h>

static uint64_t random_state = 1;

// Numerical Recipes' generator is enough for test data.
static uint64_t draw(void) {
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return random_state >> 17;
}

static double draw_value(void) {
    return (double)(int64_t)(draw() % 2000001) / 1000 - 1000;
}

static void fill(struct pyramid *pyramid, double *values, int64_t count) {
    for (int64_t i = 0; i < count; i++) {
        struct pyramid_place place = {
            .step = i + 1, .time = (double)i, .begin = (uint64_t)i * 10, .end = (uint64_t)i * 10 + 10};
        values[i] = draw_value();
        pyramid_add(pyramid, &place);
        pyramid_value(pyramid, 0, values[i]);
    }
}

// Every bin must have the extremes, the mean and the last of exactly its lines, and the bins must be all lines.
static void check_bins(const struct pyramid *pyramid, const double *values, int64_t count) {
    int64_t at = 0;
    for (int i = 0; i < pyramid->count; i++) {
        const struct pyramid_bin *bin = &pyramid->bins[i];
        const struct pyramid_cell *cell = &pyramid->columns[0][i];
        double min = (double)INFINITY, max = -(double)INFINITY, sum = 0;
        EXPECT_INT(bin->first_step, at + 1);
        EXPECT_INT(bin->last.begin, at * 10);
        for (; at < bin->last.step; at++) {
            min = values[at] < min ? values[at] : min;
            max = values[at] > max ? values[at] : max;
            sum += values[at];
        }
        EXPECT_INT(bin->last.end, at * 10);
        EXPECT_INT(cell->count, bin->last.step - bin->first_step + 1);
        EXPECT_INT(bin->count, cell->count);
        EXPECT(cell->min == (float)min && cell->max == (float)max);
        EXPECT(cell->last == (float)values[at - 1]);
        EXPECT_NEAR(cell->sum, sum, 1e-9);
    }
    EXPECT_INT(at, count);
}

TEST(bins_hold_their_lines) {
    static double values[100000];
    static const int64_t counts[] = {1, 3, 63, 64, 65, 128, 129, 1000, 65537, 100000};
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        struct pyramid pyramid;
        pyramid_init(&pyramid, 128);
        EXPECT_INT(pyramid_add_column(&pyramid), 0);
        fill(&pyramid, values, counts[i]);
        EXPECT(pyramid.count <= 128);
        EXPECT(counts[i] < 128 || pyramid.count >= 64);
        EXPECT_INT(pyramid_last_step(&pyramid), counts[i]);
        check_bins(&pyramid, values, counts[i]);
        pyramid_shrink(&pyramid, 64);
        EXPECT(pyramid.count <= 64);
        check_bins(&pyramid, values, counts[i]);
        EXPECT(pyramid_bytes(&pyramid) <= 64 * (sizeof pyramid.bins[0] + sizeof pyramid.columns[0][0]));
        pyramid_free(&pyramid);
    }
}

TEST(columns_that_come_later_and_nulls) {
    struct pyramid pyramid;
    pyramid_init(&pyramid, 64);
    pyramid_add_column(&pyramid);
    for (int64_t i = 0; i < 1000; i++) {
        pyramid_add(&pyramid, &(struct pyramid_place){.step = i});
        pyramid_value(&pyramid, 0, i == 500 ? (double)NAN : 1e300);
        if (i == 600)
            EXPECT_INT(pyramid_add_column(&pyramid), 1);
        if (i >= 700 && i % 2)
            pyramid_value(&pyramid, 1, (double)-i);
    }
    uint32_t first = 0, second = 0;
    for (int i = 0; i < pyramid.count; i++) {
        const struct pyramid_cell *cell = &pyramid.columns[1][i];
        first += pyramid.columns[0][i].count;
        second += cell->count;
        EXPECT(pyramid.columns[0][i].max == FLT_MAX);
        EXPECT((cell->count > 0) == (pyramid.bins[i].last.step > 700));
        EXPECT(cell->count == 0 || cell->min < cell->max || pyramid.bins[i].count < 3);
    }
    EXPECT_INT(first, 999);
    EXPECT_INT(second, 150);
    pyramid_free(&pyramid);
    // Alone in its bin, a null is known as one.
    pyramid_init(&pyramid, 64);
    pyramid_add_column(&pyramid);
    pyramid_add(&pyramid, &(struct pyramid_place){.step = 1});
    EXPECT(!isnan(pyramid.columns[0][0].last));
    pyramid_value(&pyramid, 0, (double)INFINITY);
    EXPECT(isnan(pyramid.columns[0][0].last) && pyramid.columns[0][0].count == 0);
    pyramid_free(&pyramid);
}

TEST(cut) {
    static double values[1000];
    for (int64_t step = 0; step <= 1000; step += 37) {
        struct pyramid pyramid;
        struct pyramid_bin torn = {0};
        pyramid_init(&pyramid, 64);
        pyramid_add_column(&pyramid);
        fill(&pyramid, values, 1000);
        bool is_torn = pyramid_cut(&pyramid, step, &torn);
        int64_t left = pyramid.count > 0 ? pyramid_last_step(&pyramid) : 0;
        EXPECT(left <= step);
        EXPECT(is_torn == (left < step && step < 1000));
        if (is_torn)
            EXPECT(torn.first_step == left + 1 && torn.first_step <= step && torn.last.step > step);
        check_bins(&pyramid, values, left);
        pyramid_free(&pyramid);
    }
}

TEST(range) {
    static double values[1000];
    struct pyramid pyramid;
    pyramid_init(&pyramid, 64);
    pyramid_add_column(&pyramid);
    fill(&pyramid, values, 1000);
    for (int from = -10; from < 1010; from += 13) {
        for (int to = from; to < 1010; to += 29) {
            struct pyramid_range range = pyramid_find(&pyramid, BOARD_X_STEP, from, to);
            EXPECT(range.begin >= 0 && range.begin <= range.end && range.end <= pyramid.count);
            for (int i = 0; i < pyramid.count; i++) {
                bool touches = pyramid.bins[i].first_step <= to && pyramid.bins[i].last.step >= from;
                EXPECT(!touches || (i >= range.begin && i < range.end));
                // One on each side, and one more where the last begins beyond the range.
                EXPECT(touches || i < range.begin || i >= range.end || pyramid.bins[i].last.step >= from - 32);
                EXPECT(touches || i < range.begin || i >= range.end || pyramid.bins[i].first_step <= to + 32);
            }
        }
    }
    EXPECT(pyramid_find(&pyramid, BOARD_X_TIME, 500, 500).begin > 20);
    pyramid_free(&pyramid);
}

// Bytes after the text, as the reader needs them.
static const char *read_padded(const char *text, double *value) {
    static char padded[512];
    memset(padded, 0, sizeof padded);
    snprintf(padded, sizeof padded - 8, "%s,", text);
    const char *end = line_number_read(padded, value);
    return end ? text + (end - padded) : NULL;
}

static double ulps(double a, double b) {
    return fabs(a - b) / (fabs(b) * DBL_EPSILON + DBL_MIN);
}

TEST(numbers_are_read) {
    static const char *const good[] = {"0",
                                       "-0",
                                       "1",
                                       "12345678",
                                       "123456789",
                                       "1234567890123456789",
                                       "12345678901234567890123",
                                       "0.1",
                                       "0.00014999999999999999",
                                       "1e-05",
                                       "1E+5",
                                       "1.5e-7",
                                       "2.2250738585072014e-308",
                                       "5e-324",
                                       "1.7976931348623157e308",
                                       "-3.14159265358979",
                                       "0.000000000000000000000000000001",
                                       "1e22",
                                       "1e23",
                                       "9007199254740993",
                                       "1e0000000005",
                                       "100000000000000000000e-20",
                                       "10.8253173828125",
                                       "1767322245.678901"};
    static const char *const bad[] = {"",    "-",  "01", "-01", "1.",    ".5",  "1e",
                                      "1e+", "+1", "e5", "--1", "1e999", "nan", "inf"};
    double value = 0;
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        const char *end = read_padded(good[i], &value);
        if (!end || *end || ulps(value, strtod(good[i], NULL)) > 2)
            test_fail("%s was read as %.17g", good[i], value);
    }
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        const char *end = read_padded(bad[i], &value);
        if (end)
            test_fail("%s was read as %.17g", bad[i], value);
    }
    for (int i = 0; i < 20000; i++) {
        char text[64];
        uint64_t bits = draw() << 20 ^ draw();
        double wanted;
        memcpy(&wanted, &bits, 8);
        if (!isfinite(wanted))
            continue;
        if (i % 2)
            wanted = ldexp(draw_value(), (int)(draw() % 60) - 30);
        snprintf(text, sizeof text, "%.*g", (int)(draw() % 17) + 1, wanted);
        wanted = strtod(text, NULL);
        const char *end = read_padded(text, &value);
        if (!end || *end || ulps(value, wanted) > 2)
            test_fail("%s was read as %.17g", text, value);
    }
}

static double relative(double a, double b) {
    return b != 0 ? fabs(a / b - 1) : fabs(a);
}

TEST(numbers_are_written) {
    static const struct {
        double value;
        const char *text;
    } cases[] = {{0, "0"},
                 {1, "1"},
                 {-2, "-2"},
                 {0.5, "0.5"},
                 {123456789012, "123456789012"},
                 {1e14, "100000000000000"},
                 {0.1, "0.1"},
                 {1e-5, "0.00001"},
                 {1.5e-7, "1.5e-7"},
                 {2.5e20, "2.5e20"},
                 {9.9999999999, "10"},
                 {1767322245.5, "1.76732225e9"},
                 {(double)NAN, "null"},
                 {-(double)INFINITY, "null"}};
    struct buffer out = {0};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        buffer_clear(&out);
        number_append(&out, cases[i].value, 9);
        double value = strtod(buffer_string(&out), NULL);
        bool is_null = strcmp(cases[i].text, "null") == 0;
        if (is_null ? strcmp(buffer_string(&out), "null") != 0 : relative(value, strtod(cases[i].text, NULL)) > 1e-15)
            test_fail("%.17g was written as %s", cases[i].value, buffer_string(&out));
    }
    for (int i = 0; i < 20000; i++) {
        int digits = i % 2 ? 9 : 15;
        double value = ldexp(draw_value(), (int)(draw() % 2000) - 1000);
        struct json *root = NULL;
        buffer_clear(&out);
        number_append(&out, value, digits);
        if (json_parse(&root, out.data, out.length, "number") < 0 || root->type != JSON_NUMBER ||
            relative(root->number, value) > (i % 2 ? 5.1e-9 : 6e-15))
            test_fail("%.17g was written as %s", value, buffer_string(&out));
        json_free(root);
    }
    buffer_free(&out);
}

TEST_MAIN(TEST_CASE(bins_hold_their_lines), TEST_CASE(columns_that_come_later_and_nulls), TEST_CASE(cut),
          TEST_CASE(range), TEST_CASE(numbers_are_read), TEST_CASE(numbers_are_written))
