// Packing of bf16 operands: four steps of a line lie side by side in a panel, then the same of the next line. Lines
// that follow the memory are copied eight bytes at a time; lines that lie across it are transposed four by four.
#include "ops/cpu/pack_bf16.h"
#include "ops/cpu/kernel.h"
#include <string.h>

typedef uint16_t half4 __attribute__((vector_size(8)));
typedef uint32_t word2 __attribute__((vector_size(8)));

enum { GROUP = 4 };  // steps side by side

CPU_INLINE half4 load4(const uint16_t *from) {
    half4 x;
    memcpy(&x, from, sizeof x);
    return x;
}

// Four steps of four lines, where the steps are `stride` apart.
CPU_INLINE void transpose4(uint16_t *to, const uint16_t *from, int64_t stride) {
    half4 k0 = load4(from), k1 = load4(from + stride), k2 = load4(from + 2 * stride), k3 = load4(from + 3 * stride);
    word2 low01 = (word2)__builtin_shufflevector(k0, k1, 0, 4, 1, 5);
    word2 high01 = (word2)__builtin_shufflevector(k0, k1, 2, 6, 3, 7);
    word2 low23 = (word2)__builtin_shufflevector(k2, k3, 0, 4, 1, 5);
    word2 high23 = (word2)__builtin_shufflevector(k2, k3, 2, 6, 3, 7);
    word2 lines[GROUP] = {
        __builtin_shufflevector(low01, low23, 0, 2),
        __builtin_shufflevector(low01, low23, 1, 3),
        __builtin_shufflevector(high01, high23, 0, 2),
        __builtin_shufflevector(high01, high23, 1, 3),
    };
    memcpy(to, lines, sizeof lines);
}

// Whole groups of a full panel of lines that follow the memory, a cache line of each line at a time.
CPU_INLINE void copy_panel(uint16_t *panel, const uint16_t *from, int64_t stride, int64_t groups, int64_t width) {
    enum { GROUPS_AT_ONCE = 8 };
    for (int64_t first = 0; first < groups; first += GROUPS_AT_ONCE) {
        int64_t end = first + GROUPS_AT_ONCE < groups ? first + GROUPS_AT_ONCE : groups;
        for (int64_t line = 0; line < width; line++) {
            for (int64_t g = first; g < end; g++)
                memcpy(panel + (g * width + line) * GROUP, from + line * stride + g * GROUP, GROUP * sizeof *panel);
        }
    }
}

// Whole groups of full panels of lines that lie across.
CPU_INLINE void transpose_panels(uint16_t *to, int64_t panels, const uint16_t *from, int64_t stride, int64_t steps,
                                 int64_t width) {
    int64_t size = pack_panel_size(width, steps);
    for (int64_t g = 0; g < steps / GROUP; g++) {
        for (int64_t p = 0; p < panels; p++) {
            for (int64_t line = 0; line < width; line += 4)
                transpose4(to + p * size + (g * width + line) * GROUP, from + g * GROUP * stride + p * width + line,
                           stride);
        }
    }
}

CPU_INLINE void pack_full(uint16_t *panels, const struct pack_source *source, const uint16_t *from, int64_t count,
                          int64_t steps, int64_t width) {
    enum { PANELS_AT_ONCE = 8 };
    int64_t size = pack_panel_size(width, steps);
    for (int64_t p = 0; p < count && source->lines_are_across; p += PANELS_AT_ONCE)
        transpose_panels(panels + p * size, count - p < PANELS_AT_ONCE ? count - p : PANELS_AT_ONCE, from + p * width,
                         source->stride, steps, width);
    for (int64_t p = 0; p < count && !source->lines_are_across; p++)
        copy_panel(panels + p * size, from + p * width * source->stride, source->stride, steps / GROUP, width);
}

// What the fast ways leave out: the last steps, and zeros behind the last line and the last step.
static void pack_rest(uint16_t *panel, const struct pack_source *source, const uint16_t *from, int64_t lines,
                      struct cpu_range steps, int64_t width) {
    int64_t line_step = source->lines_are_across ? 1 : source->stride;
    int64_t inner_step = source->lines_are_across ? source->stride : 1;
    for (int64_t k = steps.first; k < pack_panel_size(1, steps.end); k++) {
        for (int64_t line = 0; line < width; line++)
            panel[(k / GROUP * width + line) * GROUP + k % GROUP] =
                line < lines && k < steps.end ? from[line * line_step + k * inner_step] : 0;
    }
}

void pack_panels_bf16(uint16_t *panels, const struct pack_source *source, struct cpu_range lines,
                      struct cpu_range inner, int64_t width) {
    int64_t count = lines.end - lines.first, steps = inner.end - inner.first, full = count / width;
    int64_t size = pack_panel_size(width, steps), line_step = source->lines_are_across ? 1 : source->stride;
    int64_t inner_step = source->lines_are_across ? source->stride : 1;
    const uint16_t *from = (const uint16_t *)source->data + lines.first * line_step + inner.first * inner_step;
    if (width == 8)
        pack_full(panels, source, from, full, steps, 8);
    else
        pack_full(panels, source, from, full, steps, 12);
    for (int64_t p = 0; p < cpu_pieces(count, width); p++) {
        struct cpu_range rest = {p < full ? steps / GROUP * GROUP : 0, steps};
        pack_rest(panels + p * size, source, from + p * width * line_step, p < full ? width : count % width, rest,
                  width);
    }
}
