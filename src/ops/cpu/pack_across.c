// Packs lines that are strided in memory, where one step of neighbouring lines is contiguous. fp32 is copied as it is;
// in bf16 the steps of a group are interleaved in registers. Packs several panels at once, so that memory is read in
// long runs.
#include "ops/cpu/pack.h"
#include "base/error.h"
#include <string.h>

// Addresses are those of single elements, so vectors are read and written by memcpy.
typedef uint16_t half4 __attribute__((vector_size(8)));
typedef uint16_t half8 __attribute__((vector_size(16)));
typedef uint32_t word2 __attribute__((vector_size(8)));
typedef uint32_t word4 __attribute__((vector_size(16)));
typedef uint64_t long2 __attribute__((vector_size(16)));

CPU_INLINE half4 load4(const unsigned char *from) {
    half4 x;
    memcpy(&x, from, sizeof x);
    return x;
}

CPU_INLINE half8 load8(const unsigned char *from) {
    half8 x;
    memcpy(&x, from, sizeof x);
    return x;
}

CPU_INLINE half8 zip_low(half8 a, half8 b) {
    return __builtin_shufflevector(a, b, 0, 8, 1, 9, 2, 10, 3, 11);
}

CPU_INLINE half8 zip_high(half8 a, half8 b) {
    return __builtin_shufflevector(a, b, 4, 12, 5, 13, 6, 14, 7, 15);
}

// One group of a few lines; the steps are `stride` apart.
typedef void move_group(unsigned char *to, const unsigned char *from, int64_t stride);

CPU_INLINE void copy_floats(unsigned char *to, const unsigned char *from, int64_t stride) {
    (void)stride;
    memcpy(to, from, 4 * sizeof(float));
}

CPU_INLINE void zip_pairs(unsigned char *to, const unsigned char *from, int64_t stride) {
    half8 k0 = load8(from), k1 = load8(from + stride);
    half8 low = zip_low(k0, k1), high = zip_high(k0, k1);
    memcpy(to, &low, sizeof low);
    memcpy(to + sizeof low, &high, sizeof high);
}

CPU_INLINE void transpose4(unsigned char *to, const unsigned char *from, int64_t stride) {
    half4 k0 = load4(from), k1 = load4(from + stride), k2 = load4(from + 2 * stride), k3 = load4(from + 3 * stride);
    word2 low01 = (word2)__builtin_shufflevector(k0, k1, 0, 4, 1, 5);
    word2 high01 = (word2)__builtin_shufflevector(k0, k1, 2, 6, 3, 7);
    word2 low23 = (word2)__builtin_shufflevector(k2, k3, 0, 4, 1, 5);
    word2 high23 = (word2)__builtin_shufflevector(k2, k3, 2, 6, 3, 7);
    word2 lines[4] = {
        __builtin_shufflevector(low01, low23, 0, 2),
        __builtin_shufflevector(low01, low23, 1, 3),
        __builtin_shufflevector(high01, high23, 0, 2),
        __builtin_shufflevector(high01, high23, 1, 3),
    };
    memcpy(to, lines, sizeof lines);
}

CPU_INLINE word4 zip_words_low(word4 a, word4 b) {
    return __builtin_shufflevector(a, b, 0, 4, 1, 5);
}

CPU_INLINE word4 zip_words_high(word4 a, word4 b) {
    return __builtin_shufflevector(a, b, 2, 6, 3, 7);
}

// Two lines, eight steps each.
CPU_INLINE void store_lines(unsigned char *to, word4 first, word4 second) {
    long2 line = __builtin_shufflevector((long2)first, (long2)second, 0, 2);
    long2 next = __builtin_shufflevector((long2)first, (long2)second, 1, 3);
    memcpy(to, &line, sizeof line);
    memcpy(to + 64, &next, sizeof next);
}

// Eight steps of eight lines, of groups of 64 bytes.
CPU_INLINE void transpose8(unsigned char *to, const unsigned char *from, int64_t stride) {
    half8 k[8];
    CPU_UNROLL
    for (int i = 0; i < 8; i++)
        k[i] = load8(from + i * stride);
    // Pairs of steps of lines 0 to 3, and of lines 4 to 7.
    word4 low01 = (word4)zip_low(k[0], k[1]), high01 = (word4)zip_high(k[0], k[1]);
    word4 low23 = (word4)zip_low(k[2], k[3]), high23 = (word4)zip_high(k[2], k[3]);
    word4 low45 = (word4)zip_low(k[4], k[5]), high45 = (word4)zip_high(k[4], k[5]);
    word4 low67 = (word4)zip_low(k[6], k[7]), high67 = (word4)zip_high(k[6], k[7]);
    store_lines(to, zip_words_low(low01, low23), zip_words_low(low45, low67));
    store_lines(to + 128, zip_words_high(low01, low23), zip_words_high(low45, low67));
    store_lines(to + 256, zip_words_low(high01, high23), zip_words_low(high45, high67));
    store_lines(to + 384, zip_words_high(high01, high23), zip_words_high(high45, high67));
}

CPU_INLINE void transpose32(unsigned char *to, const unsigned char *from, int64_t stride) {
    for (int64_t k = 0; k < 32; k += 8)
        transpose8(to + k * 2, from + k * stride, stride);
}

// A function that moves groups, with its number of lines and the size of elements.
struct way {
    move_group *move;
    int64_t lines, element_bytes, group;
};

CPU_INLINE void walk_lines(const struct pack_job *job, const struct way *way, int64_t width, int64_t lines) {
    enum { PANELS_AT_ONCE = 8 };
    int64_t group_bytes = way->element_bytes * way->group, stride = job->stride;
    for (int64_t first = 0; first < job->count; first += PANELS_AT_ONCE) {
        int64_t end = first + PANELS_AT_ONCE < job->count ? first + PANELS_AT_ONCE : job->count;
        for (int64_t g = 0; g < job->groups; g++) {
            const unsigned char *from = job->from + g * way->group * stride;
            for (int64_t p = first; p < end; p++) {
                unsigned char *to = job->panels + p * job->panel_bytes + g * width * group_bytes;
                for (int64_t line = 0; line < lines; line += way->lines)
                    way->move(to + line * group_bytes, from + (p * width + line) * way->element_bytes, stride);
            }
        }
    }
}

CPU_INLINE void walk(const struct pack_job *job, const struct way *way, int64_t width) {
    walk_lines(job, way, width, width);
}

void pack_across_f32(const struct pack_job *job) {
    static const struct way way = {copy_floats, 4, 4, 1};
    if (job->lines < job->width) {
        walk_lines(job, &way, job->width, job->lines);
        return;
    }
    switch (job->width) {
    case 4:
        return walk(job, &way, 4);
    case 8:
        return walk(job, &way, 8);
    case 12:
        return walk(job, &way, 12);
    case 32:
        return walk(job, &way, 32);
    default:
        return walk(job, &way, job->width);
    }
}

CPU_CLONES static void zip_panels(const struct pack_job *job) {
    static const struct way way = {zip_pairs, 8, 2, 2};
    walk(job, &way, job->width);
}

static void transpose_panels_4(const struct pack_job *job) {
    static const struct way way = {transpose4, 4, 2, 4};
    if (job->width == 8)
        walk(job, &way, 8);
    else
        walk(job, &way, job->width);
}

CPU_CLONES static void transpose_panels_32(const struct pack_job *job) {
    static const struct way way = {transpose32, 8, 2, 32};
    walk(job, &way, job->width);
}

void pack_across_bf16(const struct pack_job *job, int64_t group) {
    CHECK(group == 2 || group == 4 || group == 32);
    CHECK(group == 4 || job->width % 8 == 0);
    if (group == 2)
        zip_panels(job);
    else if (group == 4)
        transpose_panels_4(job);
    else
        transpose_panels_32(job);
}
