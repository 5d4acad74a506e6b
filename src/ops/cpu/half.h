// bf16 and fp16 on the CPU: storage of 16 bits, arithmetic in fp32. Private to ops/cpu.
#ifndef OPS_CPU_HALF_H
#define OPS_CPU_HALF_H

#include "ops/cpu/cpu.h"

// The operations of cpu.h for any float dtype; fp32 goes straight through.
#define DECLARE(name_) void half_##name_(struct device *device, const struct op_##name_ *op);
ACTIVATION_OPERATIONS(DECLARE)
#undef DECLARE

// In grouped.c.
struct own_need grouped_matmul_own_bytes(const struct device *device, const struct op_grouped_matmul *op);

// The fp32 copies of an operation's tensors of 16 bits.
extern const struct own_bytes half_own_bytes;

#endif
