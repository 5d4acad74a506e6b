// Moments in 8 bits: every code beside the formula, there and back, and rounding beside a search among all values.
#include "test.h"
#include "base/rng.h"
#include "tensor/moment8.h"

static const enum moment8_kind kinds[] = {MOMENT8_FIRST, MOMENT8_SECOND};
static const int exponents[] = {-35, -20, -7, 0, 3, 40, 62};

// The size of a code as a float of 3 bits of exponent whose largest power of two is 2^E, in double.
static double size_of(enum moment8_kind kind, int code, int E) {
    int mantissa = kind == MOMENT8_FIRST ? 4 : 5, field = code >> mantissa, units = code % (1 << mantissa);
    double size =
        field == 0 ? ldexp(units, E - 6 - mantissa) : ldexp(units + (1 << mantissa), E - 7 + field - mantissa);
    return kind == MOMENT8_FIRST ? size : size * size;
}

static int code_count(enum moment8_kind kind) {
    return kind == MOMENT8_FIRST ? 128 : 256;
}

TEST(codes_beside_the_formula_and_back) {
    for (int n = 0; n < 14; n++) {
        enum moment8_kind kind = kinds[n % 2];
        int E = exponents[n / 2];
        uint8_t exponent = (uint8_t)(E + MOMENT8_BIAS);
        double largest = size_of(kind, code_count(kind) - 1, E);
        EXPECT_INT(moment8_exponent(kind, moment8_size(kind, (float)largest)), exponent);
        for (int code = 0; code < 256; code++) {
            float value = moment8_decode(kind, (uint8_t)code, exponent);
            double sign = code >= code_count(kind) ? -1 : 1;
            EXPECT((double)value == sign * size_of(kind, code % code_count(kind), E));
            for (uint32_t dice = 0; dice < 0x10000; dice += 0x5555)
                EXPECT_INT(moment8_encode(kind, value, exponent, dice), code);
            EXPECT(kind == MOMENT8_SECOND || half_from_bf16(half_to_bf16(value)) == value);
        }
    }
    EXPECT(moment8_exact_dtype(MOMENT8_FIRST) == DTYPE_BF16 && moment8_exact_dtype(MOMENT8_SECOND) == DTYPE_F32);
    EXPECT(moment8_decode(MOMENT8_FIRST, 0, 0) == 0 && moment8_decode(MOMENT8_SECOND, 0, 0) == 0);
}

// Over all dice, x becomes one of its two neighbours, and the mean is x.
static void expect_dithered(enum moment8_kind kind, double x, int E) {
    enum { STEP = 64 };
    uint8_t exponent = (uint8_t)(E + MOMENT8_BIAS);
    double low = 0, high = INFINITY, sum = 0, size = fabs(x);
    for (int code = 0; code < code_count(kind); code++) {
        double value = size_of(kind, code, E);
        low = value <= size && value > low ? value : low;
        high = value >= size && value < high ? value : high;
    }
    for (uint32_t dice = 0; dice < 0x10000; dice += STEP) {
        double found = fabs((double)moment8_decode(kind, moment8_encode(kind, (float)x, exponent, dice), exponent));
        EXPECT(found == low || found == high);
        sum += found;
    }
    bool is_raised = kind == MOMENT8_SECOND && low == 0 && size > 0;
    EXPECT_NEAR(sum * STEP / 0x10000, is_raised ? high : size, (high - low) * 2e-3 + size * 1e-6);
    double nearer = size - low < high - size ? low : high;
    float found = moment8_decode(kind, moment8_encode(kind, (float)x, exponent, MOMENT8_NEAREST), exponent);
    bool is_tie = fabs(size - low - (high - size)) < (high - low) * 1e-4;
    EXPECT(is_tie || is_raised || fabs((double)found) == nearer);
    EXPECT(kind == MOMENT8_SECOND || x == 0 || (found < 0) == (x < 0) || found == 0);
}

TEST(numbers_become_neighbours_with_the_right_mean) {
    for (uint32_t i = 0; i < 600; i++) {
        struct philox random = philox4x32(7, i, 0, 0, 0);
        enum moment8_kind kind = kinds[i % 2];
        int E = exponents[i / 2 % 7];
        double most = size_of(kind, code_count(kind) - 1, E), power = kind == MOMENT8_FIRST ? 24 : 48;
        double x = most * exp2(-power * random.word[0] / 4294967296.0);
        expect_dithered(kind, (double)(float)(kind == MOMENT8_FIRST && random.word[1] % 2 ? -x : x), E);
    }
    expect_dithered(MOMENT8_FIRST, 0, 3);
    expect_dithered(MOMENT8_SECOND, 0, 3);
    expect_dithered(MOMENT8_SECOND, 0x1p-120, 3);
}

// The exponent is the least with which all sizes have a code.
TEST(exponents_of_the_largest) {
    for (uint32_t i = 0; i < 2000; i++) {
        struct philox random = philox4x32(8, i, 0, 0, 0);
        enum moment8_kind kind = kinds[i % 2];
        float size = (float)exp2(80.0 * random.word[0] / 4294967296.0 - 34);
        int E = (int)moment8_exponent(kind, size) - MOMENT8_BIAS, top = code_count(kind) - 1;
        double square = kind == MOMENT8_FIRST ? (double)size : (double)size * (double)size;
        EXPECT(size_of(kind, top, E) >= square && size_of(kind, top, E - 1) < square);
    }
    for (int k = 0; k < 2; k++) {
        EXPECT_INT(moment8_exponent(kinds[k], INFINITY), 127 + MOMENT8_BIAS);
        EXPECT_INT(moment8_exponent(kinds[k], NAN), 127 + MOMENT8_BIAS);
        EXPECT_INT(moment8_exponent(kinds[k], 0), k == 0 ? 0 : MOMENT8_BIAS - 35);
    }
    EXPECT_INT(moment8_encode(MOMENT8_FIRST, INFINITY, 227, 0), 0x7F);
    EXPECT_INT(moment8_encode(MOMENT8_FIRST, -INFINITY, 227, 0xFFFF), 0xFF);
    EXPECT_INT(moment8_encode(MOMENT8_SECOND, INFINITY, 227, 0), 0xFF);
}

TEST_MAIN(TEST_CASE(codes_beside_the_formula_and_back), TEST_CASE(numbers_become_neighbours_with_the_right_mean),
          TEST_CASE(exponents_of_the_largest))
