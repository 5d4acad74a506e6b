// Packing: copies a part of a matrix into the panels that a micro-kernel reads (kernel.h). Private to ops/cpu.
#ifndef OPS_CPU_PACK_H
#define OPS_CPU_PACK_H

#include "ops/cpu/cpu.h"

// An operand of a product as lines along the inner dimension: rows of a, columns of b.
struct pack_source {
    const void *data;
    enum dtype dtype;       // fp32 or bf16
    int64_t stride;         // between lines, or between steps where lines lie across
    bool lines_are_across;  // the steps of a line are `stride` apart and neighbouring lines 1; else the other way round
};

// The distance between panels of this many lines and steps, in elements.
int64_t pack_panel_size(int64_t width, int64_t steps);

// Panels of `width` lines, 8 or 12: those of `lines`, which start a new panel, and of `inner`. The last panel is filled
// up with zero lines and each panel with zero steps. A panel of fp32 is (steps, width); one of bf16 (steps / 4, width,
// 4).
void pack_panels(void *panels, const struct pack_source *source, struct cpu_range lines, struct cpu_range inner,
                 int64_t width);

#endif
