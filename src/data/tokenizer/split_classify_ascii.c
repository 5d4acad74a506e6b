// Classes of ASCII bytes, 64 at a time, with NEON, AVX-512 or AVX2, or with plain loops for any compiler. Bytes that
// are not ASCII get no class here.
#include "data/tokenizer/split_block.h"
#include <string.h>

#if defined(__ARM_NEON)

#include <arm_neon.h>

// Byte 4 i + k of the block is lane i of part k, so that three shifts bring the bits of four bytes together.
static inline uint64_t mask_of(uint8x16x4_t is) {
    uint8x16_t low = vsriq_n_u8(is.val[1], is.val[0], 1), high = vsriq_n_u8(is.val[3], is.val[2], 1);
    uint8x16_t four = vsriq_n_u8(high, low, 2), twice = vsriq_n_u8(four, four, 4);
    return vget_lane_u64(vreinterpret_u64_u8(vshrn_n_u16(vreinterpretq_u16_u8(twice), 4)), 0);
}

static inline uint8x16x4_t equal(uint8x16x4_t bytes, uint8_t value) {
    for (int i = 0; i < 4; i++)
        bytes.val[i] = vceqq_u8(bytes.val[i], vdupq_n_u8(value));
    return bytes;
}

static inline uint8x16x4_t between(uint8x16x4_t bytes, uint8_t first, uint8_t last) {
    for (int i = 0; i < 4; i++)
        bytes.val[i] = vcleq_u8(vsubq_u8(bytes.val[i], vdupq_n_u8(first)), vdupq_n_u8((uint8_t)(last - first)));
    return bytes;
}

static inline uint8x16x4_t either(uint8x16x4_t a, uint8x16x4_t b) {
    for (int i = 0; i < 4; i++)
        a.val[i] = vorrq_u8(a.val[i], b.val[i]);
    return a;
}

static inline uint8x16x4_t small(uint8x16x4_t bytes) {
    for (int i = 0; i < 4; i++)
        bytes.val[i] = vorrq_u8(bytes.val[i], vdupq_n_u8(0x20));
    return bytes;
}

static inline uint64_t classify(const unsigned char *text, int count, bool wide, struct split_block *blocks) {
    uint64_t any_high = 0;
    for (int i = 0; i < count; i++) {
        struct split_block *block = &blocks[i];
        uint8x16x4_t bytes = vld4q_u8(text + (size_t)i * SPLIT_BLOCK), spaces = equal(bytes, ' ');
        block->letters = mask_of(between(small(bytes), 'a', 'z'));
        block->numbers = mask_of(between(bytes, '0', '9'));
        block->blanks = mask_of(either(between(bytes, 9, 13), spaces));
        block->spaces = mask_of(spaces);
        block->quotes = mask_of(equal(bytes, '\''));
        block->tails = 0;
        if (wide) {
            block->capitals = mask_of(between(bytes, 'A', 'Z'));
            block->feeds = mask_of(equal(bytes, '\n'));
            block->lines = block->feeds | mask_of(equal(bytes, '\r'));
            block->slashes = mask_of(equal(bytes, '/'));
        }
        block->high = mask_of(bytes);
        any_high |= block->high;
    }
    return any_high;
}

uint64_t split_classify_ascii(const unsigned char *text, int count, bool wide, struct split_block *blocks) {
    return wide ? classify(text, count, true, blocks) : classify(text, count, false, blocks);
}

#else

// A byte's classes by their bits, for the plain loop.
enum { LETTER = 1, NUMBER = 2, BLANK = 4, SPACE = 8, QUOTE = 16, CAPITAL = 32, LINE = 64, SLASH = 128 };

static const unsigned char classes[256] = {
    ['0' ... '9'] = NUMBER, ['A' ... 'Z'] = LETTER | CAPITAL,
    ['a' ... 'z'] = LETTER, ['\t'] = BLANK,
    ['\n'] = BLANK | LINE,  ['\v'] = BLANK,
    ['\f'] = BLANK,         ['\r'] = BLANK | LINE,
    [' '] = BLANK | SPACE,  ['\''] = QUOTE,
    ['/'] = SLASH,
};

static uint64_t classify_plain(const unsigned char *text, int count, struct split_block *blocks) {
    uint64_t any_high = 0;
    for (int i = 0; i < count; i++) {
        struct split_block block = {0};
        for (int k = 0; k < SPLIT_BLOCK; k++) {
            unsigned char byte = text[(size_t)i * SPLIT_BLOCK + (size_t)k];
            uint64_t class = classes[byte];
            block.letters |= (class & 1) << k;
            block.numbers |= (class >> 1 & 1) << k;
            block.blanks |= (class >> 2 & 1) << k;
            block.spaces |= (class >> 3 & 1) << k;
            block.quotes |= (class >> 4 & 1) << k;
            block.capitals |= (class >> 5 & 1) << k;
            block.lines |= (class >> 6 & 1) << k;
            block.slashes |= (class >> 7 & 1) << k;
            block.high |= (uint64_t)(byte >> 7) << k;
            block.feeds |= (uint64_t)(byte == '\n') << k;
        }
        blocks[i] = block;
        any_high |= block.high;
    }
    return any_high;
}

#if defined(__x86_64__)

#include <immintrin.h>

#define AVX2 __attribute__((target("avx2"))) static inline
#define AVX512 __attribute__((target("avx512bw"))) static inline

struct vector_halves {
    __m256i low, high;
};

AVX2 uint64_t mask_of(struct vector_halves is) {
    return (uint32_t)_mm256_movemask_epi8(is.low) | (uint64_t)(uint32_t)_mm256_movemask_epi8(is.high) << 32;
}

AVX2 struct vector_halves equal(struct vector_halves bytes, char value) {
    __m256i all = _mm256_set1_epi8(value);
    return (struct vector_halves){_mm256_cmpeq_epi8(bytes.low, all), _mm256_cmpeq_epi8(bytes.high, all)};
}

// There is no unsigned comparison; a difference is at most the width if its minimum with the width is itself.
AVX2 struct vector_halves between(struct vector_halves bytes, char first, char last) {
    __m256i start = _mm256_set1_epi8(first), width = _mm256_set1_epi8((char)(last - first));
    __m256i low = _mm256_sub_epi8(bytes.low, start), high = _mm256_sub_epi8(bytes.high, start);
    return (struct vector_halves){_mm256_cmpeq_epi8(_mm256_min_epu8(low, width), low),
                                  _mm256_cmpeq_epi8(_mm256_min_epu8(high, width), high)};
}

__attribute__((target("avx2"))) static uint64_t classify_avx2(const unsigned char *text, int count,
                                                              struct split_block *blocks) {
    uint64_t any_high = 0;
    for (int i = 0; i < count; i++) {
        struct split_block *block = &blocks[i];
        const unsigned char *at = text + (size_t)i * SPLIT_BLOCK;
        struct vector_halves bytes = {_mm256_loadu_si256((const __m256i *)at),
                                      _mm256_loadu_si256((const __m256i *)(at + 32))};
        block->capitals = mask_of(between(bytes, 'A', 'Z'));
        block->letters = block->capitals | mask_of(between(bytes, 'a', 'z'));
        block->numbers = mask_of(between(bytes, '0', '9'));
        block->spaces = mask_of(equal(bytes, ' '));
        block->blanks = block->spaces | mask_of(between(bytes, 9, 13));
        block->quotes = mask_of(equal(bytes, '\''));
        block->feeds = mask_of(equal(bytes, '\n'));
        block->lines = block->feeds | mask_of(equal(bytes, '\r'));
        block->slashes = mask_of(equal(bytes, '/'));
        block->tails = 0;
        block->high = mask_of(bytes);
        any_high |= block->high;
    }
    return any_high;
}

AVX512 uint64_t equal_512(__m512i bytes, char value) {
    return _mm512_cmpeq_epi8_mask(bytes, _mm512_set1_epi8(value));
}

AVX512 uint64_t between_512(__m512i bytes, char first, char last) {
    return _mm512_cmple_epu8_mask(_mm512_sub_epi8(bytes, _mm512_set1_epi8(first)),
                                  _mm512_set1_epi8((char)(last - first)));
}

__attribute__((target("avx512bw"))) static uint64_t classify_avx512(const unsigned char *text, int count,
                                                                    struct split_block *blocks) {
    uint64_t any_high = 0;
    for (int i = 0; i < count; i++) {
        struct split_block *block = &blocks[i];
        __m512i bytes = _mm512_loadu_si512(text + (size_t)i * SPLIT_BLOCK);
        block->capitals = between_512(bytes, 'A', 'Z');
        block->letters = block->capitals | between_512(bytes, 'a', 'z');
        block->numbers = between_512(bytes, '0', '9');
        block->spaces = equal_512(bytes, ' ');
        block->blanks = block->spaces | between_512(bytes, 9, 13);
        block->quotes = equal_512(bytes, '\'');
        block->feeds = equal_512(bytes, '\n');
        block->lines = block->feeds | equal_512(bytes, '\r');
        block->slashes = equal_512(bytes, '/');
        block->tails = 0;
        block->high = _mm512_movepi8_mask(bytes);
        any_high |= block->high;
    }
    return any_high;
}

uint64_t split_classify_ascii(const unsigned char *text, int count, bool wide, struct split_block *blocks) {
    (void)wide;  // costs next to nothing here
    if (__builtin_cpu_supports("avx512bw"))
        return classify_avx512(text, count, blocks);
    if (__builtin_cpu_supports("avx2"))
        return classify_avx2(text, count, blocks);
    return classify_plain(text, count, blocks);
}

#else

uint64_t split_classify_ascii(const unsigned char *text, int count, bool wide, struct split_block *blocks) {
    (void)wide;
    return classify_plain(text, count, blocks);
}

#endif
#endif
