// fp32 to and from the 16-bit float types, rounding to nearest, ties to even; NaN stays NaN.
#ifndef OPS_CPU_CONVERT_H
#define OPS_CPU_CONVERT_H

#include "tensor/tensor.h"

// count elements of `from` (dtype from_dtype) become count elements of `to`; the ranges do not overlap. Float dtypes.
void cpu_convert(void *to, enum dtype to_dtype, const void *from, enum dtype from_dtype, int64_t count);

#endif
