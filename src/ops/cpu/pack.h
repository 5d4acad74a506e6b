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

// Input of the two files with fast paths: whole groups of full panels, and for fp32 also the first lines of a partial
// panel, a multiple of four. All distances are in bytes.
struct pack_job {
    unsigned char *panels;
    const unsigned char *from;
    int64_t stride, panel_bytes;
    int64_t count, groups, width, lines;
};

// Packs lines that are contiguous in memory, in groups of 4, 8 or 64 bytes.
void pack_lines(const struct pack_job *job, int64_t group_bytes);
// Pack lines that are strided in memory: fp32 one by one; bf16 in groups of 2, 4 or 32.
void pack_across_f32(const struct pack_job *job);
void pack_across_bf16(const struct pack_job *job, int64_t group);

#endif
