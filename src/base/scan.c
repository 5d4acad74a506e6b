// The inner loops over bulk text. They take a chunk of bytes at a time, of the size that suits the processor: 16 with
// NEON or SSE2, which every processor of their kind has, and 8 in a plain integer elsewhere.
//
// A chunk answers two questions with a mask of MASK_BITS per byte, lowest byte first: which bytes are special in a
// JSON string (a quote, a backslash, or below 0x20), and which are not ASCII. Only the lowest special bit counts;
// above it the plain-integer mask may be wrong.
#include "base/json_lex.h"

#include <stdint.h>
#include <string.h>

#if defined(__ARM_NEON)

#include <arm_neon.h>

enum { CHUNK_BYTES = 16, MASK_BITS = 4 };

struct scan_chunk {
    uint8x16_t bytes;
};

static inline struct scan_chunk chunk_load(const char *text) {
    return (struct scan_chunk){vld1q_u8((const uint8_t *)text)};
}

static inline void chunk_store(char *out, struct scan_chunk chunk) {
    vst1q_u8((uint8_t *)out, chunk.bytes);
}

// Narrowing each pair of bytes to one byte leaves four bits of each: NEON's way to a mask.
static inline uint64_t mask_of(uint8x16_t is) {
    return vget_lane_u64(vreinterpret_u64_u8(vshrn_n_u16(vreinterpretq_u16_u8(is), 4)), 0);
}

static inline uint64_t chunk_special(struct scan_chunk chunk) {
    uint8x16_t quote = vceqq_u8(chunk.bytes, vdupq_n_u8('"')), backslash = vceqq_u8(chunk.bytes, vdupq_n_u8('\\'));
    return mask_of(vorrq_u8(vorrq_u8(quote, backslash), vcltq_u8(chunk.bytes, vdupq_n_u8(0x20))));
}

static inline uint64_t chunk_high(struct scan_chunk chunk) {
    return mask_of(vcgeq_u8(chunk.bytes, vdupq_n_u8(0x80)));
}

#elif defined(__SSE2__)

#include <emmintrin.h>

enum { CHUNK_BYTES = 16, MASK_BITS = 1 };

struct scan_chunk {
    __m128i bytes;
};

static inline struct scan_chunk chunk_load(const char *text) {
    return (struct scan_chunk){_mm_loadu_si128((const __m128i *)text)};
}

static inline void chunk_store(char *out, struct scan_chunk chunk) {
    _mm_storeu_si128((__m128i *)out, chunk.bytes);
}

static inline uint64_t chunk_special(struct scan_chunk chunk) {
    __m128i quote = _mm_cmpeq_epi8(chunk.bytes, _mm_set1_epi8('"'));
    __m128i backslash = _mm_cmpeq_epi8(chunk.bytes, _mm_set1_epi8('\\'));
    // There is no unsigned comparison; a byte is at most 0x1F if the minimum with 0x1F is itself.
    __m128i control = _mm_cmpeq_epi8(_mm_min_epu8(chunk.bytes, _mm_set1_epi8(0x1F)), chunk.bytes);
    return (uint64_t)(uint32_t)_mm_movemask_epi8(_mm_or_si128(_mm_or_si128(quote, backslash), control));
}

static inline uint64_t chunk_high(struct scan_chunk chunk) {
    return (uint64_t)(uint32_t)_mm_movemask_epi8(chunk.bytes);
}

#else

enum { CHUNK_BYTES = 8, MASK_BITS = 8 };

struct scan_chunk {
    uint64_t bytes;
};

static const uint64_t ones = 0x0101010101010101u, highs = 0x8080808080808080u;

static inline struct scan_chunk chunk_load(const char *text) {
    struct scan_chunk chunk;
    memcpy(&chunk.bytes, text, sizeof chunk.bytes);
    return chunk;
}

static inline void chunk_store(char *out, struct scan_chunk chunk) {
    memcpy(out, &chunk.bytes, sizeof chunk.bytes);
}

// A byte x is zero if (x - 1) & ~x has its high bit; borrows may mark bytes above such a byte, never below.
static inline uint64_t chunk_special(struct scan_chunk chunk) {
    uint64_t quote = chunk.bytes ^ (ones * '"'), backslash = chunk.bytes ^ (ones * '\\');
    uint64_t is_quote = (quote - ones) & ~quote, is_backslash = (backslash - ones) & ~backslash;
    uint64_t is_control = (chunk.bytes - ones * 0x20) & ~chunk.bytes;
    return (is_quote | is_backslash | is_control) & highs;
}

static inline uint64_t chunk_high(struct scan_chunk chunk) {
    return chunk.bytes & highs;
}

#endif

// Scans the end of the text, shorter than a chunk; out may be NULL.
static inline size_t scan_tail(char *restrict out, const char *restrict text, size_t length, bool *has_high) {
    size_t at = 0;
    for (; at < length; at++) {
        unsigned char byte = (unsigned char)text[at];
        if (byte < 0x20 || byte == '"' || byte == '\\')
            break;
        *has_high |= byte >= 0x80;
        if (out)
            out[at] = (char)byte;
    }
    return at;
}

static inline __attribute__((always_inline)) size_t scan(char *restrict out, const char *restrict text, size_t length,
                                                         bool *has_high) {
    size_t at = 0;
    uint64_t high = 0;
    for (; length - at >= CHUNK_BYTES; at += CHUNK_BYTES) {
        struct scan_chunk chunk = chunk_load(text + at);
        uint64_t special = chunk_special(chunk);
        if (out)
            chunk_store(out + at, chunk);
        if (special) {
            uint64_t before = (special & (0 - special)) - 1;  // the bits below the lowest one
            high |= chunk_high(chunk) & before;
            *has_high |= high != 0;
            return at + (size_t)__builtin_ctzll(special) / MASK_BITS;
        }
        high |= chunk_high(chunk);
    }
    *has_high |= high != 0;
    return at + scan_tail(out ? out + at : NULL, text + at, length - at, has_high);
}

size_t scan_plain(const char *text, size_t length, bool *has_high) {
    return scan(NULL, text, length, has_high);
}

size_t scan_copy_plain(char *restrict out, const char *restrict text, size_t length, bool *has_high) {
    return scan(out, text, length, has_high);
}
