// Newton-Schulz steps: a few of them make a matrix of norm 1 nearly orthogonal. A step is a polynomial of the matrix,
// which --muon-coefficient-type names. In bf16 two steps of a long matrix are combined.
#ifndef OPTIM_NEWTON_SCHULZ_H
#define OPTIM_NEWTON_SCHULZ_H

#include "config/config.h"
#include "ops/ops.h"
#include "tensor/arena.h"

// Least divisor, for matrices of smaller norm.
#define NEWTON_SCHULZ_LEAST 1e-15f

struct newton_schulz {
    struct device *device;
    struct arena *scratch;
    struct tensor x;        // (n, M, N), in newton_schulz_dtype; overwritten
    struct tensor squares;  // (n) fp32: sums of squares of x, which is not yet divided by their roots; none if it is
};
// Makes every matrix of x nearly orthogonal. Returns the result, in memory from the arena or in x.
struct tensor newton_schulz(const struct config *config, const struct newton_schulz *work);

// bf16, or fp32 with --muon-fp32-matmul-prec high.
enum dtype newton_schulz_dtype(const struct config *config);
// FLOPs of the steps of an M x N matrix; symmetric products count half.
double newton_schulz_flops(const struct config *config, int64_t M, int64_t N);
// Whether matrices are divided by their norms in the first matmuls, which saves a pass over memory on devices that
// multiply many at once. Rounding to 16 bits before or after the division is equally precise.
bool newton_schulz_divides(const struct config *config, struct device *device);
// Number of matrices of this shape to orthogonalize together: one, or on a device that gains from more, as many as fit
// into a gigabyte with their powers. The bits of a matrix do not depend on it.
int64_t newton_schulz_together(const struct config *config, struct device *device, int64_t M, int64_t N);

#endif
