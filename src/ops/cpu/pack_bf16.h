// pack_panels for bf16. Private to ops/cpu.
#ifndef OPS_CPU_PACK_BF16_H
#define OPS_CPU_PACK_BF16_H

#include "ops/cpu/pack.h"

void pack_panels_bf16(uint16_t *panels, const struct pack_source *source, struct cpu_range lines,
                      struct cpu_range inner, int64_t width);

#endif
