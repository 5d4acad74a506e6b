// SHA-256 (FIPS 180-4). Blocks use the processor's own instructions if it has them (the end of this file), otherwise
// the plain code here; both give the same state.
#include "base/error.h"
#include "base/file.h"
#include "base/file_patience.h"
#include "base/hash.h"
#include "base/interrupt.h"
#include "base/watchdog.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { FILE_CHUNK_BYTES = 1 << 20 };

// The first 32 bits of the fractional parts of the cube roots of the first 64 primes.
// clang-format off
static const uint32_t round_constants[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
};
// The first 32 bits of the fractional parts of the square roots of the first eight primes.
static const uint32_t start[8] = {
    0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19,
};
// clang-format on

static inline uint32_t rotate_right(uint32_t value, unsigned bits) {
    return value >> bits | value << (32 - bits);
}

// Eight more message words, from the sixteen before them.
static inline void extend_words(uint32_t *words) {
    for (int i = 0; i < 8; i++) {
        uint32_t near = words[i - 2], far = words[i - 15];
        uint32_t mixed_far = rotate_right(far, 7) ^ rotate_right(far, 18) ^ far >> 3;
        uint32_t mixed_near = rotate_right(near, 17) ^ rotate_right(near, 19) ^ near >> 10;
        words[i] = words[i - 16] + mixed_far + words[i - 7] + mixed_near;
    }
}

// One round. The eight working variables do not move from round to round; their roles do, `turn` steps down the array.
static inline void one_round(uint32_t v[8], unsigned turn, uint32_t keyed_word) {
    uint32_t a = v[(0 - turn) & 7], b = v[(1 - turn) & 7], c = v[(2 - turn) & 7];
    uint32_t e = v[(4 - turn) & 7], f = v[(5 - turn) & 7], g = v[(6 - turn) & 7];
    uint32_t mixed_e = rotate_right(e, 6) ^ rotate_right(e, 11) ^ rotate_right(e, 25);
    uint32_t mixed_a = rotate_right(a, 2) ^ rotate_right(a, 13) ^ rotate_right(a, 22);
    uint32_t choice = g ^ (e & (f ^ g)), majority = (a & b) | (c & (a | b));
    // e is known last, so terms that depend on it are added last.
    uint32_t sum = v[(7 - turn) & 7] + keyed_word + choice;
    v[(3 - turn) & 7] = (v[(3 - turn) & 7] + sum) + mixed_e;
    v[(7 - turn) & 7] = (sum + mixed_e) + (mixed_a + majority);
}

void sha256_blocks_plain(uint32_t state[8], const unsigned char *blocks, size_t count) {
    uint32_t words[64], v[8];
    for (; count > 0; count--, blocks += 64) {
        memcpy(words, blocks, 64);
        for (int i = 0; i < 16; i++)
            words[i] = __builtin_bswap32(words[i]);
        memcpy(v, state, sizeof v);
        // Eight rounds bring every role back to its place, so compilers keep v in registers. The words of later rounds
        // are computed in between: the two chains run side by side in the processor.
        for (int i = 0; i < 64; i += 8) {
            const uint32_t *k = round_constants + i, *w = words + i;
            if (i < 48)
                extend_words(words + i + 16);
            one_round(v, 0, k[0] + w[0]);
            one_round(v, 1, k[1] + w[1]);
            one_round(v, 2, k[2] + w[2]);
            one_round(v, 3, k[3] + w[3]);
            one_round(v, 4, k[4] + w[4]);
            one_round(v, 5, k[5] + w[5]);
            one_round(v, 6, k[6] + w[6]);
            one_round(v, 7, k[7] + w[7]);
        }
        for (int i = 0; i < 8; i++)
            state[i] += v[i];
    }
}

static void add_blocks(struct sha256 *hash, const unsigned char *blocks, size_t count) {
    if (count > 0 && !sha256_blocks_hardware(hash->state, blocks, count))
        sha256_blocks_plain(hash->state, blocks, count);
}

void sha256_init(struct sha256 *hash) {
    *hash = (struct sha256){0};
    memcpy(hash->state, start, sizeof start);
}

void sha256_update(struct sha256 *hash, const void *bytes, size_t count) {
    const unsigned char *at = bytes;
    hash->total_bytes += count;
    if (hash->block_bytes > 0) {
        size_t missing = sizeof hash->block - hash->block_bytes;
        size_t taken = count < missing ? count : missing;
        if (taken > 0)
            memcpy(hash->block + hash->block_bytes, at, taken);
        hash->block_bytes += taken;
        at += taken;
        count -= taken;
        if (hash->block_bytes < sizeof hash->block)
            return;
        add_blocks(hash, hash->block, 1);
        hash->block_bytes = 0;
    }
    add_blocks(hash, at, count / 64);
    size_t rest = count % 64;
    if (rest > 0)
        memcpy(hash->block, at + (count - rest), rest);
    hash->block_bytes = rest;
}

void sha256_final(struct sha256 *hash, unsigned char digest[32]) {
    static const unsigned char padding[64] = {0x80};
    uint64_t bits = __builtin_bswap64(hash->total_bytes * 8);
    size_t used = hash->block_bytes;
    sha256_update(hash, padding, used < 56 ? 56 - used : 120 - used);
    sha256_update(hash, &bits, sizeof bits);
    for (int i = 0; i < 8; i++) {
        uint32_t word = __builtin_bswap32(hash->state[i]);
        memcpy(digest + 4 * i, &word, sizeof word);
    }
}

void sha256_hex(const unsigned char digest[32], char text[65]) {
    static const char digits[] = "0123456789abcdef";
    for (int i = 0; i < 32; i++) {
        text[2 * i] = digits[digest[i] >> 4];
        text[2 * i + 1] = digits[digest[i] & 15];
    }
    text[64] = '\0';
}

static uint64_t running_sum(const struct sha256 *hash) {
    struct sha256 copy = *hash;
    unsigned char digest[32];
    uint64_t sum = 0;
    sha256_final(&copy, digest);
    for (int i = 0; i < 6; i++)
        sum = sum << 8 | digest[i];
    return sum;
}

void sha256_update_marked(struct sha256 *hash, const void *bytes, size_t count, struct sha256_marks *marks) {
    const unsigned char *at = bytes;
    for (;;) {
        for (; marks->next < marks->count && marks->ends[marks->next] <= hash->total_bytes; marks->next++)
            marks->sums[marks->next] = running_sum(hash);
        if (count == 0)
            return;
        uint64_t left = marks->next < marks->count ? marks->ends[marks->next] - hash->total_bytes : count;
        size_t piece = left < count ? (size_t)left : count;
        sha256_update(hash, at, piece);
        at += piece;
        count -= piece;
    }
}

// Adds all of an open file. Returns 0, -1, or -errno if it cannot be read.
static int add_file(struct sha256 *hash, int descriptor, unsigned char *chunk, struct sha256_marks *marks,
                    const char *path) {
    for (;;) {
        TRY(interrupt_check());
        ssize_t count = read(descriptor, chunk, FILE_CHUNK_BYTES);
        if (count < 0 && errno == EINTR)
            continue;
        if (count < 0) {
            int error = errno;
            error_set("cannot read %s: %s", path, strerror(error));
            return -error;
        }
        if (count == 0)
            return 0;
        sha256_update_marked(hash, chunk, (size_t)count, marks);
        watchdog_beat();
        watchdog_beat_all();  // threads of a pool share files
    }
}

int sha256_file(const char *path, char text[65]) {
    struct sha256_marks none = {0};
    return sha256_file_marked(path, text, &none);
}

static int add_file_once(const char *path, char text[65], struct sha256_marks *marks) {
    struct sha256 hash;
    unsigned char digest[32];
    struct stat status;
    int descriptor = file_open_input(path, &status);
    TRY(descriptor);
    unsigned char *chunk = malloc(FILE_CHUNK_BYTES);
    int result = chunk ? 0 : -ENOMEM;
    if (!chunk)
        error_set_code(EXIT_CODE_OUT_OF_MEMORY, "out of memory while reading %s", path);
    sha256_init(&hash);
    if (chunk)
        result = add_file(&hash, descriptor, chunk, marks, path);
    sha256_final(&hash, digest);
    sha256_hex(digest, text);
    free(chunk);
    close(descriptor);
    return result;
}

// Each attempt starts over: after a server has come back, the file must be reopened.
int sha256_file_marked(const char *path, char text[65], struct sha256_marks *marks) {
    int result;
    do {
        marks->next = 0;
        result = add_file_once(path, text, marks);
    } while (result < -1 && file_try_again(-result, path));
    return result < 0 ? -1 : 0;
}

// HMAC (RFC 2104) with SHA-256.

enum { BLOCK_BYTES = 64, DIGEST_BYTES = 32 };

void hmac_sha256(const void *key, size_t key_bytes, const void *text, size_t text_bytes, unsigned char out[32]) {
    unsigned char block[BLOCK_BYTES] = {0}, inner[DIGEST_BYTES];
    struct sha256 hash;
    if (key_bytes > BLOCK_BYTES) {
        sha256_init(&hash);
        sha256_update(&hash, key, key_bytes);
        sha256_final(&hash, block);
    } else if (key_bytes > 0) {
        memcpy(block, key, key_bytes);
    }
    for (size_t i = 0; i < BLOCK_BYTES; i++)
        block[i] ^= 0x36;
    sha256_init(&hash);
    sha256_update(&hash, block, BLOCK_BYTES);
    sha256_update(&hash, text, text_bytes);
    sha256_final(&hash, inner);
    for (size_t i = 0; i < BLOCK_BYTES; i++)
        block[i] ^= 0x36 ^ 0x5C;
    sha256_init(&hash);
    sha256_update(&hash, block, BLOCK_BYTES);
    sha256_update(&hash, inner, DIGEST_BYTES);
    sha256_final(&hash, out);
    explicit_bzero(block, sizeof block);
}

// ---- blocks by the processor's own instructions ----

// For aarch64 (SHA2 extension) and x86-64 (SHA extensions). The
// program is compiled for the baseline of each architecture; only these functions use more, and they run only on
// processors that report the extension.

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

static void add_blocks_by_hardware(uint32_t state[8], const unsigned char *blocks, size_t count) {
    uint32x4_t abcd = vld1q_u32(state), efgh = vld1q_u32(state + 4);
    for (; count > 0; count--, blocks += 64) {
        uint32x4_t words[4], abcd_before = abcd, efgh_before = efgh;
        for (int i = 0; i < 4; i++)
            words[i] = vreinterpretq_u32_u8(vrev32q_u8(vld1q_u8(blocks + 16 * i)));
        // Four rounds at a time; words[i % 4] holds the message words of step i, replaced four steps ahead.
        for (int i = 0; i < 16; i++) {
            uint32x4_t keyed = vaddq_u32(words[i % 4], vld1q_u32(round_constants + 4 * i));
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
    add_blocks_by_hardware(state, blocks, count);
    return true;
}

#elif defined(__x86_64__)

#include <cpuid.h>
#include <immintrin.h>

__attribute__((target("sha,sse4.1"))) static void add_blocks_by_hardware(uint32_t state[8], const unsigned char *blocks,
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
            __m128i keyed = _mm_add_epi32(words[i % 4], _mm_loadu_si128((const __m128i *)(round_constants + 4 * i)));
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
    add_blocks_by_hardware(state, blocks, count);
    return true;
}

#else

bool sha256_blocks_hardware(uint32_t state[8], const unsigned char *blocks, size_t count) {
    (void)state, (void)blocks, (void)count;
    return false;
}

#endif
