// An fp32 in two halves, see tensor/half.h: for every upper half of its bits with the lower halves where something
// changes, and for many others, the bf16 is the nearest one and the fp32 is restored.
#include "test.h"
#include "base/rng.h"
#include "tensor/half.h"
#include <math.h>

// The magnitude of a pattern that is not NaN as a real number; infinity is where the next number would be.
static double magnitude_of(uint32_t bits) {
    uint32_t magnitude = bits & 0x7FFFFFFFu;
    return magnitude >= 0x7F800000u ? 0x1p128 : fabs((double)half_bits_float(magnitude));
}

// The bf16 nearest to the number, found by distances; in a tie, the even one.
static uint16_t nearest_bf16(uint32_t bits) {
    uint32_t below = bits & 0xFFFF0000u, above = below + 0x10000u;
    if (bits == below)
        return (uint16_t)(below >> 16);
    double down = magnitude_of(bits) - magnitude_of(below), up = magnitude_of(above) - magnitude_of(bits);
    bool is_up = up < down || (up == down && (below & 0x10000u));
    return (uint16_t)((is_up ? above : below) >> 16);
}

static void expect_pair(uint32_t bits) {
    float x = half_bits_float(bits);
    uint16_t value = half_to_bf16(x);
    uint32_t back = half_float_bits(half_merge(value, half_rest(x, value)));
    if ((bits & 0x7FFFFFFFu) > 0x7F800000u) {
        if (!isnan(half_bits_float(back)) || !isnan(half_from_bf16(value)))
            test_fail("%08x is NaN and comes back as %08x", (unsigned)bits, (unsigned)back);
        return;
    }
    bool is_tie_down = (bits & 0x1FFFFu) == 0x8000u;
    uint32_t expected = is_tie_down ? bits - 1 : bits;
    if (value != nearest_bf16(bits) || back != expected)
        test_fail("%08x is %04x with a rest, expected %04x; it comes back as %08x, expected %08x", (unsigned)bits,
                  (unsigned)value, (unsigned)nearest_bf16(bits), (unsigned)back, (unsigned)expected);
    // The restored value splits in the same way: nothing moves a second time.
    float again = half_bits_float(back);
    EXPECT(half_to_bf16(again) == value && half_rest(again, value) == half_rest(x, value));
}

TEST(every_upper_half) {
    static const uint32_t lower[] = {0, 1, 2, 0x3FFF, 0x7FFE, 0x7FFF, 0x8000, 0x8001, 0x8002, 0xC000, 0xFFFE, 0xFFFF};
    for (uint32_t upper = 0; upper < 0x10000; upper++)
        for (size_t i = 0; i < sizeof lower / sizeof lower[0]; i++)
            expect_pair(upper << 16 | lower[i]);
}

TEST(many_numbers) {
    for (uint32_t i = 0; i < 1000000; i++) {
        struct philox random = philox4x32(77, i, 0, 0, 0);
        for (int n = 0; n < 4; n++)
            expect_pair(random.word[n]);
    }
}

// A number just below infinity rounds to it and is restored as finite; subnormal numbers are restored too.
TEST(ends_of_the_range) {
    float most = half_bits_float(0x7F7FFFFFu), least = half_bits_float(1);
    EXPECT(isinf(half_from_bf16(half_to_bf16(most))));
    EXPECT(half_merge(half_to_bf16(most), half_rest(most, half_to_bf16(most))) == most);
    EXPECT(half_from_bf16(half_to_bf16(-least)) == 0);
    EXPECT(half_merge(half_to_bf16(-least), half_rest(-least, half_to_bf16(-least))) == -least);
    EXPECT(half_merge(half_to_bf16(INFINITY), half_rest(INFINITY, 0x7F80)) == INFINITY);
}

TEST_MAIN(TEST_CASE(every_upper_half), TEST_CASE(many_numbers), TEST_CASE(ends_of_the_range))
