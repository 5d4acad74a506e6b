// Packing: copies a part of a matrix into the panels that a micro-kernel reads (kernel.h). Private to ops/cpu.
#ifndef OPS_CPU_PACK_H
#define OPS_CPU_PACK_H

#include "ops/cpu/cpu.h"
#include "ops/cpu/kernel.h"

// An operand of a matmul as lines along the inner dimension: rows of a, columns of b.
struct pack_source {
    const void *data;
    enum dtype dtype;       // that of the panels, or 16 bits for fp32 panels
    int64_t stride;         // between lines, or between steps if lines_are_across
    bool lines_are_across;  // the steps of a line are `stride` apart and neighbouring lines 1; else the other way round
};

// The distance between panels of this many steps, in elements.
int64_t pack_panel_size(const struct panel_shape *shape, int64_t steps);

struct pack_part {
    struct cpu_range lines, inner;
    int64_t distance;  // between panels, in elements; larger than these steps need if the panels have more steps
};

// Packs these lines, which start a new panel, and these steps of the inner dimension. The last panel is padded with
// zero lines and each panel with zero steps.
void pack_panels(void *panels, const struct panel_shape *shape, const struct pack_source *source,
                 const struct pack_part *part);

#endif
