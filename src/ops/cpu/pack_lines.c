// Packing of lines that are contiguous in memory. Groups of 4 bytes, an fp32 or two bf16, are transposed in registers,
// four by four; longer ones are copied.
#include "ops/cpu/pack.h"
#include "base/error.h"
#include <string.h>

// Addresses are those of single elements, so vectors are read and written by memcpy.
typedef uint32_t word4 __attribute__((vector_size(16)));

CPU_INLINE word4 load(const unsigned char *from) {
    word4 x;
    memcpy(&x, from, sizeof x);
    return x;
}

CPU_INLINE void store(unsigned char *to, word4 x) {
    memcpy(to, &x, sizeof x);
}

// Four groups of four lines into places `distance` apart.
CPU_INLINE void transpose(unsigned char *to, int64_t distance, const unsigned char *from, int64_t stride) {
    word4 a = load(from), b = load(from + stride), c = load(from + 2 * stride), d = load(from + 3 * stride);
    word4 ab_low = __builtin_shufflevector(a, b, 0, 4, 1, 5), ab_high = __builtin_shufflevector(a, b, 2, 6, 3, 7);
    word4 cd_low = __builtin_shufflevector(c, d, 0, 4, 1, 5), cd_high = __builtin_shufflevector(c, d, 2, 6, 3, 7);
    store(to, __builtin_shufflevector(ab_low, cd_low, 0, 1, 4, 5));
    store(to + distance, __builtin_shufflevector(ab_low, cd_low, 2, 3, 6, 7));
    store(to + 2 * distance, __builtin_shufflevector(ab_high, cd_high, 0, 1, 4, 5));
    store(to + 3 * distance, __builtin_shufflevector(ab_high, cd_high, 2, 3, 6, 7));
}

// Sixteen groups of four lines at a time: whole cache lines, and few enough that they do not evict each other if the
// stride is a power of two.
CPU_INLINE void transpose_width(unsigned char *panel, const unsigned char *from, const struct pack_job *job,
                                int64_t width, int64_t lines) {
    int64_t distance = width * 4, stride = job->stride, g = 0;
    for (; g + 16 <= job->groups; g += 16) {
        for (int64_t line = 0; line < lines; line += 4) {
            for (int64_t i = g; i < g + 16; i += 4)
                transpose(panel + i * distance + line * 4, distance, from + line * stride + i * 4, stride);
        }
    }
    for (; g < job->groups; g++) {
        for (int64_t line = 0; line < lines; line++)
            memcpy(panel + g * distance + line * 4, from + line * stride + g * 4, 4);
    }
}

CPU_CLONES static void transpose_panel(unsigned char *panel, const unsigned char *from, const struct pack_job *job) {
    if (job->lines < job->width)
        transpose_width(panel, from, job, job->width, job->lines);
    else if (job->width == 8)
        transpose_width(panel, from, job, 8, 8);
    else if (job->width == 12)
        transpose_width(panel, from, job, 12, 12);
    else
        transpose_width(panel, from, job, job->width, job->width);
}

// Copies one cache line of each line at a time.
CPU_INLINE void copy_panel(unsigned char *panel, const unsigned char *from, const struct pack_job *job, int64_t bytes) {
    int64_t at_once = 64 / bytes;
    for (int64_t first = 0; first < job->groups; first += at_once) {
        int64_t end = first + at_once < job->groups ? first + at_once : job->groups;
        for (int64_t line = 0; line < job->width; line++) {
            for (int64_t g = first; g < end; g++)
                memcpy(panel + (g * job->width + line) * bytes, from + line * job->stride + g * bytes, (size_t)bytes);
        }
    }
}

CPU_CLONES static void copy_panel_64(unsigned char *panel, const unsigned char *from, const struct pack_job *job) {
    copy_panel(panel, from, job, 64);
}

static void copy_panel_8(unsigned char *panel, const unsigned char *from, const struct pack_job *job) {
    copy_panel(panel, from, job, 8);
}

void pack_lines(const struct pack_job *job, int64_t group_bytes) {
    CHECK(group_bytes == 4 || group_bytes == 8 || group_bytes == 64);
    for (int64_t p = 0; p < job->count; p++) {
        unsigned char *panel = job->panels + p * job->panel_bytes;
        const unsigned char *from = job->from + p * job->width * job->stride;
        if (group_bytes == 4)
            transpose_panel(panel, from, job);
        else if (group_bytes == 8)
            copy_panel_8(panel, from, job);
        else
            copy_panel_64(panel, from, job);
    }
}
