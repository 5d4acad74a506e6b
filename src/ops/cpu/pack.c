// Packing of operands into panels: calls the fast path for the part, and packs the rest element by element.
#include "ops/cpu/pack.h"
#include "ops/cpu/convert.h"
#include "base/error.h"
#include <string.h>

int64_t pack_panel_size(const struct panel_shape *shape, int64_t steps) {
    return shape->width * cpu_pieces(steps, shape->unit) * shape->unit;
}

// A panel with missing lines, or missing steps at the end.
struct rest {
    unsigned char *panel;
    const unsigned char *from;
    int64_t line_step, inner_step;  // in bytes
    int64_t first_line, lines;      // the first to pack, and the number that exist
    struct cpu_range steps;         // the first to pack, and the end of those that exist
};

// Packs the rest, with zeros after the last line and the last step.
CPU_INLINE void pack_rest_of(const struct rest *rest, const struct panel_shape *shape, size_t size, int64_t group) {
    int64_t width = shape->width;
    for (int64_t k = rest->steps.first; k < pack_panel_size(shape, rest->steps.end) / width; k++) {
        int64_t place = k / group * width * group + k % group, lines = k < rest->steps.end ? rest->lines : 0;
        const unsigned char *from = rest->from + k * rest->inner_step;
        int64_t line = rest->first_line;
        for (; line < lines; line++)
            memcpy(rest->panel + (size_t)(place + line * group) * size, from + line * rest->line_step, size);
        for (; line < width; line++)
            memset(rest->panel + (size_t)(place + line * group) * size, 0, size);
    }
}

static void pack_rest(const struct rest *rest, const struct panel_shape *shape, enum dtype dtype) {
    if (dtype == DTYPE_F32)
        pack_rest_of(rest, shape, sizeof(float), 1);
    else
        pack_rest_of(rest, shape, sizeof(uint16_t), shape->group);
}

static void pack_fast(const struct pack_job *job, const struct pack_source *source, int64_t group) {
    if (!source->lines_are_across)
        pack_lines(job, group * (int64_t)dtype_bytes(source->dtype));
    else if (source->dtype == DTYPE_F32)
        pack_across_f32(job);
    else
        pack_across_bf16(job, group);
}

// 16-bit operands in fp32 panels: widened a few lines and steps at a time, so that they stay in the L1 cache until
// packed.
static void pack_wide(float *panels, const struct panel_shape *shape, const struct pack_source *source,
                      const struct pack_part *part) {
    enum { LINES = 96, STEPS = 64 };
    float wide[LINES * STEPS];
    bool is_across = source->lines_are_across;
    int64_t most_lines = LINES / shape->width * shape->width;
    int64_t count = part->lines.end - part->lines.first, steps = part->inner.end - part->inner.first;
    CHECK(most_lines > 0 && STEPS % shape->unit == 0);
    for (int64_t i = 0; i < cpu_pieces(count, most_lines) * cpu_pieces(steps, STEPS); i++) {
        struct cpu_range lines = cpu_piece(count, most_lines, i / cpu_pieces(steps, STEPS)),
                         inner = cpu_piece(steps, STEPS, i % cpu_pieces(steps, STEPS));
        int64_t line = part->lines.first + lines.first, step = part->inner.first + inner.first;
        int64_t first = is_across ? step * source->stride + line : line * source->stride + step;
        lines.end -= lines.first;
        inner.end -= inner.first;
        int64_t rows = is_across ? inner.end : lines.end, columns = is_across ? lines.end : inner.end;
        for (int64_t row = 0; row < rows; row++)
            cpu_convert(wide + row * columns, DTYPE_F32, (const uint16_t *)source->data + first + row * source->stride,
                        source->dtype, columns);
        pack_panels(panels + lines.first / shape->width * part->distance + inner.first * shape->width, shape,
                    &(struct pack_source){wide, DTYPE_F32, columns, is_across},
                    &(struct pack_part){{0, lines.end}, {0, inner.end}, part->distance});
    }
}

void pack_panels(void *panels, const struct panel_shape *shape, const struct pack_source *source,
                 const struct pack_part *part) {
    if (shape->group == 1 && source->dtype != DTYPE_F32) {
        pack_wide(panels, shape, source, part);
        return;
    }
    struct cpu_range lines = part->lines, inner = part->inner;
    int64_t size = (int64_t)dtype_bytes(source->dtype), count = lines.end - lines.first;
    int64_t steps = inner.end - inner.first, whole_steps = steps / shape->group * shape->group;
    int64_t line_step = source->lines_are_across ? size : source->stride * size;
    int64_t inner_step = source->lines_are_across ? source->stride * size : size;
    CHECK(shape->width % 4 == 0 && (source->dtype == DTYPE_F32 ? shape->group == 1 : source->dtype == DTYPE_BF16));
    struct pack_job job = {
        .panels = panels,
        .from = (const unsigned char *)source->data + lines.first * line_step + inner.first * inner_step,
        .stride = source->stride * size,
        .panel_bytes = part->distance * size,
        .count = count / shape->width,
        .groups = steps / shape->group,
        .width = shape->width,
        .lines = shape->width,
    };
    pack_fast(&job, source, shape->group);
    // The last, partial panel: groups of four lines take the fast path if no steps need padding.
    struct pack_job last = job;
    last.panels += job.count * job.panel_bytes;
    last.from += job.count * shape->width * line_step;
    last.count = 1;
    last.lines = source->dtype == DTYPE_F32 && steps % shape->unit == 0 ? count % shape->width / 4 * 4 : 0;
    if (last.lines > 0)
        pack_fast(&last, source, shape->group);
    for (int64_t p = 0; p < cpu_pieces(count, shape->width); p++) {
        bool is_full = p < job.count;
        struct rest rest = {.panel = job.panels + p * job.panel_bytes,
                            .from = job.from + p * shape->width * line_step,
                            .line_step = line_step,
                            .inner_step = inner_step,
                            .first_line = is_full ? 0 : last.lines,
                            .lines = is_full ? shape->width : count % shape->width,
                            .steps = {is_full ? whole_steps : 0, steps}};
        pack_rest(&rest, shape, source->dtype);
    }
}
