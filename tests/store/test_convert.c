// Conversions between float types, against those of torch for the same bits (tests/golden/make_convert.py).
#include "base/hash.h"
#include "store/convert.h"
#include "store/temporary.h"
#include "test.h"

static uint16_t narrow(uint32_t bits, enum dtype dtype) {
    uint16_t result = 0;
    convert_elements(
        &(struct convert){.to = &result, .to_dtype = dtype, .from = &bits, .from_dtype = DTYPE_F32, .count = 1});
    return result;
}

static uint32_t widen(uint16_t bits, enum dtype dtype) {
    uint32_t result = 0;
    convert_elements(
        &(struct convert){.to = &result, .to_dtype = DTYPE_F32, .from = &bits, .from_dtype = dtype, .count = 1});
    return result;
}

TEST(narrow_like_torch) {
    struct buffer golden = read_whole("tests/golden/convert.txt");
    int seen = 0;
    for (const char *line = golden.data; line && *line; line = strchr(line, '\n') + 1) {
        char kind[16];
        unsigned from, to;
        if (sscanf(line, "%15s %8x %4x", kind, &from, &to) != 3 || strcmp(kind, "f16_all") == 0)
            continue;
        uint16_t got = narrow(from, strcmp(kind, "bf16") == 0 ? DTYPE_BF16 : DTYPE_F16);
        if (got != to)
            test_fail("%s of %08x is %04x, expected %04x", kind, from, got, to);
        seen++;
    }
    EXPECT(seen > 500);
    buffer_free(&golden);
}

TEST(widen_every_half) {
    struct buffer golden = read_whole("tests/golden/convert.txt");
    struct sha256 hash;
    unsigned char digest[32];
    char text[65];
    sha256_init(&hash);
    for (uint32_t half = 0; half < 65536; half++) {
        if ((half & 0x7fff) > 0x7c00)
            continue;
        uint32_t bits = widen((uint16_t)half, DTYPE_F16);
        sha256_update(&hash, &bits, 4);
        EXPECT_INT(narrow(bits, DTYPE_F16), half);
    }
    sha256_final(&hash, digest);
    sha256_hex(digest, text);
    const char *expected = strstr(golden.data, "f16_all ");
    EXPECT(expected && strncmp(expected + 8, text, 64) == 0);
    buffer_free(&golden);
}

TEST(every_bf16_survives) {
    for (uint32_t bits = 0; bits < 65536; bits++) {
        uint32_t wide = widen((uint16_t)bits, DTYPE_BF16);
        EXPECT_INT(wide, bits << 16);
        if ((bits & 0x7fff) <= 0x7f80)
            EXPECT_INT(narrow(wide, DTYPE_BF16), bits);
    }
}

TEST(nan_stays_nan) {
    const uint32_t nans[] = {0x7f800001, 0x7fc00000, 0x7fffffff, 0xffffffff, 0xff800001};
    for (size_t i = 0; i < sizeof nans / sizeof nans[0]; i++) {
        EXPECT((narrow(nans[i], DTYPE_BF16) & 0x7fff) > 0x7f80);
        EXPECT((narrow(nans[i], DTYPE_F16) & 0x7fff) > 0x7c00);
    }
    for (uint32_t half = 0x7c01; half < 0x8000; half++)
        EXPECT((widen((uint16_t)half, DTYPE_F16) & 0x7fffffff) > 0x7f800000);
}

TEST(unaligned_and_between_halves) {
    unsigned char bytes[9] = {0xaa, 0x80, 0x3f, 0x20, 0xc0};  // 1.0 and -2.5 in bf16, from an odd address
    uint16_t halves[2] = {0};
    convert_elements(&(struct convert){
        .to = halves, .to_dtype = DTYPE_F16, .from = bytes + 1, .from_dtype = DTYPE_BF16, .count = 2});
    EXPECT_INT(halves[0], 0x3c00);
    EXPECT_INT(halves[1], 0xc100);
    EXPECT(convert_is_possible(DTYPE_I64, DTYPE_I64));
    EXPECT(!convert_is_possible(DTYPE_I64, DTYPE_F32));
    EXPECT(!convert_is_possible(DTYPE_F32, DTYPE_I32));
}

TEST_MAIN(TEST_CASE(narrow_like_torch), TEST_CASE(widen_every_half), TEST_CASE(every_bf16_survives),
          TEST_CASE(nan_stays_nan), TEST_CASE(unaligned_and_between_halves))
