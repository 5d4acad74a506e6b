// SHA-256 blocks by the processor's own instructions, for aarch64 (SHA2 extension) and x86-64 (SHA extensions). The
// program is compiled for the baseline of each architecture; only these functions use more, and they run only on
// processors that report the extension.
#include "base/sha256_blocks.h"

#if defined(__aarch64__)

#include <arm_neon.h>
#include <sys/auxv.h>

enum { HWCAP_HAS_SHA2 = 1 << 6 };  // HWCAP_SHA2 of the Linux ABI

// The four instructions in assembly: compilers disagree about when their intrinsics may be used.
#define SHA2 ".arch_extension sha2\n\t"

// Four rounds. The copy is of abcd, which is ready first: a copy of efgh would lengthen the chain from round to round.
static inline void four_rounds(uint32x4_t *abcd, uint32x4_t *efgh, uint32x4_t keyed) {
    uint32x4_t before;
    __asm__(SHA2 "mov %2.16b, %0.16b\n\t"
                 "sha256h %q0, %q1, %3.4s\n\t"
                 "sha256h2 %q1, %q2, %3.4s"
            : "+w"(*abcd), "+w"(*efgh), "=&w"(before)
            : "w"(keyed));
}

// The message words sixteen further on, from the four groups of four before them.
static inline uint32x4_t next_words(uint32x4_t w0, uint32x4_t w1, uint32x4_t w2, uint32x4_t w3) {
    __asm__(SHA2 "sha256su0 %0.4s, %1.4s" : "+w"(w0) : "w"(w1));
    __asm__(SHA2 "sha256su1 %0.4s, %1.4s, %2.4s" : "+w"(w0) : "w"(w2), "w"(w3));
    return w0;
}

static void add_blocks(uint32_t state[8], const unsigned char *blocks, size_t count) {
    uint32x4_t abcd = vld1q_u32(state), efgh = vld1q_u32(state + 4);
    for (; count > 0; count--, blocks += 64) {
        uint32x4_t words[4], abcd_before = abcd, efgh_before = efgh;
        for (int i = 0; i < 4; i++)
            words[i] = vreinterpretq_u32_u8(vrev32q_u8(vld1q_u8(blocks + 16 * i)));
        // Four rounds at a time; words[i % 4] holds the message words of step i, replaced four steps ahead.
        for (int i = 0; i < 16; i++) {
            uint32x4_t keyed = vaddq_u32(words[i % 4], vld1q_u32(sha256_constants + 4 * i));
            if (i < 12)
                words[i % 4] = next_words(words[i % 4], words[(i + 1) % 4], words[(i + 2) % 4], words[(i + 3) % 4]);
            four_rounds(&abcd, &efgh, keyed);
        }
        abcd = vaddq_u32(abcd, abcd_before);
        efgh = vaddq_u32(efgh, efgh_before);
    }
    vst1q_u32(state, abcd);
    vst1q_u32(state + 4, efgh);
}

bool sha256_blocks_hardware(uint32_t state[8], const unsigned char *blocks, size_t count) {
    if (!(getauxval(AT_HWCAP) & HWCAP_HAS_SHA2))
        return false;
    add_blocks(state, blocks, count);
    return true;
}

#elif defined(__x86_64__)

#include <cpuid.h>
#include <immintrin.h>

__attribute__((target("sha,sse4.1"))) static void add_blocks(uint32_t state[8], const unsigned char *blocks,
                                                             size_t count) {
    const __m128i swap = _mm_set_epi64x(0x0c0d0e0f08090a0b, 0x0405060700010203);
    // The instructions want the state as ABEF and CDGH, highest word first.
    __m128i dcba = _mm_loadu_si128((const __m128i *)state), hgfe = _mm_loadu_si128((const __m128i *)(state + 4));
    __m128i cdab = _mm_shuffle_epi32(dcba, 0xB1), efgh = _mm_shuffle_epi32(hgfe, 0x1B);
    __m128i abef = _mm_alignr_epi8(cdab, efgh, 8), cdgh = _mm_blend_epi16(efgh, cdab, 0xF0);
    for (; count > 0; count--, blocks += 64) {
        __m128i words[4], abef_before = abef, cdgh_before = cdgh;
        for (int i = 0; i < 4; i++)
            words[i] = _mm_shuffle_epi8(_mm_loadu_si128((const __m128i *)(blocks + 16 * i)), swap);
        for (int i = 0; i < 16; i++) {
            __m128i keyed = _mm_add_epi32(words[i % 4], _mm_loadu_si128((const __m128i *)(sha256_constants + 4 * i)));
            if (i < 12) {
                __m128i half = _mm_sha256msg1_epu32(words[i % 4], words[(i + 1) % 4]);
                half = _mm_add_epi32(half, _mm_alignr_epi8(words[(i + 3) % 4], words[(i + 2) % 4], 4));
                words[i % 4] = _mm_sha256msg2_epu32(half, words[(i + 3) % 4]);
            }
            cdgh = _mm_sha256rnds2_epu32(cdgh, abef, keyed);
            abef = _mm_sha256rnds2_epu32(abef, cdgh, _mm_shuffle_epi32(keyed, 0x0E));
        }
        abef = _mm_add_epi32(abef, abef_before);
        cdgh = _mm_add_epi32(cdgh, cdgh_before);
    }
    __m128i feba = _mm_shuffle_epi32(abef, 0x1B), dchg = _mm_shuffle_epi32(cdgh, 0xB1);
    _mm_storeu_si128((__m128i *)state, _mm_blend_epi16(feba, dchg, 0xF0));
    _mm_storeu_si128((__m128i *)(state + 4), _mm_alignr_epi8(dchg, feba, 8));
}

// cpuid: SHA is bit 29 of EBX in leaf 7, SSSE3 and SSE4.1 are bits 9 and 19 of ECX in leaf 1.
static bool processor_has_sha(void) {
    unsigned a, b, c, d;
    if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & 1u << 9) || !(c & 1u << 19))
        return false;
    return __get_cpuid_count(7, 0, &a, &b, &c, &d) && (b & 1u << 29);
}

bool sha256_blocks_hardware(uint32_t state[8], const unsigned char *blocks, size_t count) {
    if (!processor_has_sha())
        return false;
    add_blocks(state, blocks, count);
    return true;
}

#else

bool sha256_blocks_hardware(uint32_t state[8], const unsigned char *blocks, size_t count) {
    (void)state, (void)blocks, (void)count;
    return false;
}

#endif
