// Packing of operands into panels. Lines that follow the memory are transposed in registers, four by four; lines that
// lie across it are copied a step at a time, for several panels at once, so that memory is read in long pieces.
#include "ops/cpu/pack.h"
#include "ops/cpu/pack_bf16.h"
#include "ops/cpu/kernel.h"
#include "base/error.h"
#include <string.h>

// Four floats. Addresses are those of single floats, so they are read and written by memcpy.
typedef float float4 __attribute__((vector_size(16)));

CPU_INLINE float4 load4(const float *from) {
    float4 x;
    memcpy(&x, from, sizeof x);
    return x;
}

CPU_INLINE void store4(float *to, float4 x) {
    memcpy(to, &x, sizeof x);
}

int64_t pack_panel_size(int64_t width, int64_t steps) {
    return width * ((steps + KERNEL_STEP - 1) / KERNEL_STEP * KERNEL_STEP);
}

// Four steps of four lines into places `width` apart.
CPU_INLINE void transpose4(float *to, int64_t width, const float *from, int64_t stride) {
    float4 a = load4(from), b = load4(from + stride), c = load4(from + 2 * stride), d = load4(from + 3 * stride);
    float4 ab_low = __builtin_shufflevector(a, b, 0, 4, 1, 5), ab_high = __builtin_shufflevector(a, b, 2, 6, 3, 7);
    float4 cd_low = __builtin_shufflevector(c, d, 0, 4, 1, 5), cd_high = __builtin_shufflevector(c, d, 2, 6, 3, 7);
    store4(to, __builtin_shufflevector(ab_low, cd_low, 0, 1, 4, 5));
    store4(to + width, __builtin_shufflevector(ab_low, cd_low, 2, 3, 6, 7));
    store4(to + 2 * width, __builtin_shufflevector(ab_high, cd_high, 0, 1, 4, 5));
    store4(to + 3 * width, __builtin_shufflevector(ab_high, cd_high, 2, 3, 6, 7));
}

// A full panel of lines that follow the memory. Sixteen steps of four lines at a time: whole cache lines, and few
// enough that they do not push each other out of the cache where the stride is a power of two.
CPU_INLINE void transpose_panel(float *panel, const float *from, int64_t stride, int64_t steps, int64_t width) {
    int64_t k = 0;
    for (; k + 16 <= steps; k += 16) {
        for (int64_t line = 0; line < width; line += 4) {
            for (int64_t i = k; i < k + 16; i += 4)
                transpose4(panel + i * width + line, width, from + line * stride + i, stride);
        }
    }
    for (; k < steps; k++) {
        for (int64_t line = 0; line < width; line++)
            panel[k * width + line] = from[line * stride + k];
    }
}

// `panels` full panels of lines that lie across.
CPU_INLINE void copy_panels(float *to, int64_t panels, const float *from, int64_t stride, int64_t steps,
                            int64_t width) {
    int64_t size = pack_panel_size(width, steps);
    for (int64_t k = 0; k < steps; k++) {
        for (int64_t p = 0; p < panels; p++) {
            for (int64_t line = 0; line < width; line += 4)
                store4(to + p * size + k * width + line, load4(from + k * stride + p * width + line));
        }
    }
}

static void pack_last(float *panel, const struct pack_source *source, const float *from, int64_t lines, int64_t steps,
                      int64_t width) {
    int64_t line_step = source->lines_are_across ? 1 : source->stride;
    int64_t inner_step = source->lines_are_across ? source->stride : 1;
    for (int64_t k = 0; k < steps; k++) {
        for (int64_t line = 0; line < width; line++)
            panel[k * width + line] = line < lines ? from[line * line_step + k * inner_step] : 0.0f;
    }
}

CPU_INLINE void pack_width(float *panels, const struct pack_source *source, const float *from, int64_t lines,
                           int64_t steps, int64_t width) {
    enum { PANELS_AT_ONCE = 8 };
    int64_t size = pack_panel_size(width, steps), full = lines / width;
    if (source->lines_are_across) {
        for (int64_t p = 0; p < full; p += PANELS_AT_ONCE) {
            int64_t count = full - p < PANELS_AT_ONCE ? full - p : PANELS_AT_ONCE;
            copy_panels(panels + p * size, count, from + p * width, source->stride, steps, width);
        }
    } else {
        for (int64_t p = 0; p < full; p++)
            transpose_panel(panels + p * size, from + p * width * source->stride, source->stride, steps, width);
    }
}

static void pack_panels_f32(float *panels, const struct pack_source *source, struct cpu_range lines,
                            struct cpu_range inner, int64_t width) {
    int64_t count = lines.end - lines.first, steps = inner.end - inner.first, full = count / width;
    int64_t size = pack_panel_size(width, steps), line_step = source->lines_are_across ? 1 : source->stride;
    int64_t inner_step = source->lines_are_across ? source->stride : 1;
    const float *from = (const float *)source->data + lines.first * line_step + inner.first * inner_step;
    if (width == 8)
        pack_width(panels, source, from, count, steps, 8);
    else
        pack_width(panels, source, from, count, steps, 12);
    if (count % width > 0)
        pack_last(panels + full * size, source, from + full * width * line_step, count % width, steps, width);
    int64_t padding = size - width * steps;
    for (int64_t p = 0; p < cpu_pieces(count, width) && padding > 0; p++)
        memset(panels + (p + 1) * size - padding, 0, (size_t)padding * sizeof *panels);
}

void pack_panels(void *panels, const struct pack_source *source, struct cpu_range lines, struct cpu_range inner,
                 int64_t width) {
    CHECK(width == 8 || width == 12);
    if (source->dtype == DTYPE_F32)
        pack_panels_f32(panels, source, lines, inner, width);
    else
        pack_panels_bf16(panels, source, lines, inner, width);
}
