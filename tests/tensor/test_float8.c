// fp8: round trip of every code, and rounding against a search for the nearest of all values.
#include "test.h"
#include "base/rng.h"
#include "tensor/float8.h"

static const enum dtype kinds[] = {DTYPE_E4M3, DTYPE_E5M2};

TEST(values_are_those_of_the_formats) {
    EXPECT(float8_decode(DTYPE_E4M3, 0x7E) == 448 && float8_decode(DTYPE_E4M3, 0x08) == 0x1p-6f);
    EXPECT(float8_decode(DTYPE_E4M3, 0x01) == 0x1p-9f && float8_decode(DTYPE_E4M3, 0xB8) == -1);
    EXPECT(isnan(float8_decode(DTYPE_E4M3, 0x7F)) && isnan(float8_decode(DTYPE_E4M3, 0xFF)));
    EXPECT(float8_decode(DTYPE_E5M2, 0x7B) == 57344 && float8_decode(DTYPE_E5M2, 0x04) == 0x1p-14f);
    EXPECT(float8_decode(DTYPE_E5M2, 0x01) == 0x1p-16f && float8_decode(DTYPE_E5M2, 0xBC) == -1);
    EXPECT(float8_decode(DTYPE_E5M2, 0xFC) == -INFINITY && isnan(float8_decode(DTYPE_E5M2, 0x7D)));
}

TEST(codes_there_and_back) {
    for (int k = 0; k < 2; k++)
        for (int code = 0; code < 256; code++) {
            float value = float8_decode(kinds[k], (uint8_t)code);
            if (isfinite(value))
                EXPECT_INT(float8_encode(kinds[k], value), code);
        }
}

// The finite value nearest to x; in a tie, the one whose code is even.
static uint8_t nearest(enum dtype dtype, float x) {
    int best = 0;
    for (int code = 0; code < 128; code++) {
        double value = (double)float8_decode(dtype, (uint8_t)code);
        if (!isfinite(value))
            continue;
        double distance = fabs(value - fabs((double)x));
        double least = fabs((double)float8_decode(dtype, (uint8_t)best) - fabs((double)x));
        if (distance < least || (distance == least && code % 2 == 0))
            best = code;
    }
    return (uint8_t)(best | (signbit(x) ? 0x80 : 0));
}

TEST(numbers_round_to_the_nearest) {
    for (int k = 0; k < 2; k++) {
        for (uint32_t i = 0; i < 20000; i++) {
            struct philox random = philox4x32(7, i, 0, 0, 0);
            double size = exp2((double)random.word[0] / 4294967296.0 * 40 - 22);
            float x = (float)(random.word[1] % 2 ? -size : size);
            EXPECT_INT(float8_encode(kinds[k], x), nearest(kinds[k], x));
        }
        // The midpoints between neighbours, and their neighbours in fp32.
        for (int code = 0; code < (k == 0 ? 0x7E : 0x7B); code++) {
            float a = float8_decode(kinds[k], (uint8_t)code), b = float8_decode(kinds[k], (uint8_t)(code + 1));
            float x[] = {(a + b) / 2, nextafterf((a + b) / 2, 0), nextafterf((a + b) / 2, INFINITY)};
            for (int i = 0; i < 3; i++)
                EXPECT_INT(float8_encode(kinds[k], x[i]), nearest(kinds[k], x[i]));
        }
    }
}

TEST(what_is_too_large_becomes_the_largest) {
    EXPECT_INT(float8_encode(DTYPE_E4M3, 1e30f), 0x7E);
    EXPECT_INT(float8_encode(DTYPE_E4M3, -INFINITY), 0xFE);
    EXPECT_INT(float8_encode(DTYPE_E5M2, 60000), 0x7B);
    EXPECT_INT(float8_encode(DTYPE_E5M2, INFINITY), 0x7B);
    EXPECT(isnan(float8_decode(DTYPE_E4M3, float8_encode(DTYPE_E4M3, NAN))));
    EXPECT(isnan(float8_decode(DTYPE_E5M2, float8_encode(DTYPE_E5M2, NAN))));
}

TEST_MAIN(TEST_CASE(values_are_those_of_the_formats), TEST_CASE(codes_there_and_back),
          TEST_CASE(numbers_round_to_the_nearest), TEST_CASE(what_is_too_large_becomes_the_largest))
