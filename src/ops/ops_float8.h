// Operations around fp8 matmuls: quantization of operands, and their ranges. A part of ops.h, whose rules hold here.
#ifndef OPS_OPS_FLOAT8_H
#define OPS_OPS_FLOAT8_H

#include "base/layer_kinds.h"
#include "tensor/tensor.h"

// An operand of a matmul: unquantized, or in fp8. In fp8 it has a range: four fp32 numbers on the device, at a multiple
// of 16 bytes. They are the factor that converts a stored number back to its value; the scale by which a value is
// multiplied when stored; the largest magnitude seen since the range was last moved (infinity for NaN, so that the
// maximum over ranks does not depend on their order); and the largest number of the dtype. See float8.h.
enum { RANGE_FACTOR, RANGE_SCALE, RANGE_SEEN, RANGE_LARGEST, RANGE_LENGTH };
//
// By blocks, an operand instead has a factor per block of elements, a power of two: the smallest with which the block's
// largest magnitude fits the dtype. It is 1 for a block of zeros, and NaN for one with an infinity or NaN, so that
// neither is hidden. Factors of blocks are stored as cuBLASLt reads them.
enum scaling {
    SCALING_TENSOR,     // a range
    SCALING_VECTOR128,  // 128 neighbours of a row: fp32 (blocks of a row, rows rounded up to 4)
    SCALING_BLOCK128,   // 128 x 128 elements: fp32 (blocks down, blocks of a row rounded up to 4)
    SCALING_VECTOR32,  // 32 neighbours of a row: bytes E, for 2^(E - 127) or NaN (255), in tiles of 128 rows x 4 blocks
    // For E2M1X2 (NVFP4). Each block has a scale and the tensor a factor; a value is code * scale * factor. Scales are
    // E4M3, in tiles as above; the factor is an fp32 in a row after them, NaN if a number is not finite. It is 1 / (448
    // * 6) of the largest magnitude, and a scale is its block's largest magnitude / (6 * factor). The inverses of the
    // factor and of its product with a scale are clamped to the largest fp32 number, as in Transformer Engine, so that
    // numbers below 1e-32 keep some of their digits.
    SCALING_VECTOR16,  // 16 neighbours of a row
    SCALING_BLOCK16,   // 16 x 16 elements; the scale is stored for each of the rows
    SCALING_COUNT
};
enum { FLOAT4_BLOCK = 16 };
static inline bool scaling_is_float4(enum scaling scaling) {
    return scaling == SCALING_VECTOR16 || scaling == SCALING_BLOCK16;
}
struct operand {
    struct tensor value;       // (N, C), or none
    struct tensor transposed;  // (C, N), or none; fp8 matmuls read both operands along the summed dimension
    struct tensor range;       // (RANGE_LENGTH) fp32, or the factors of value's blocks; none if it is not quantized
    struct tensor transposed_range;  // factors of the blocks of `transposed`; none if `range` serves both
    enum scaling scaling;
};
// Shape of the factors of a matrix by blocks: a (rows, columns) tensor of the dtype.
struct scales_shape {
    enum dtype dtype;
    int64_t rows, columns;
};
static inline struct scales_shape scales_shape(enum scaling scaling, int64_t rows, int64_t columns) {
    if (scaling == SCALING_VECTOR128)
        return (struct scales_shape){DTYPE_F32, (columns + 127) / 128, (rows + 3) / 4 * 4};
    if (scaling == SCALING_BLOCK128)
        return (struct scales_shape){DTYPE_F32, (rows + 127) / 128, ((columns + 127) / 128 + 3) / 4 * 4};
    if (scaling_is_float4(scaling))
        return (struct scales_shape){DTYPE_U8, (rows + 127) / 128 * 128 + 1, ((columns + 15) / 16 + 3) / 4 * 4};
    return (struct scales_shape){DTYPE_U8, (rows + 127) / 128 * 128, ((columns + 31) / 32 + 3) / 4 * 4};
}
// The range of a matrix, or of its transpose.
static inline struct tensor operand_range(const struct operand *operand, bool is_transposed) {
    return is_transposed && operand->transposed_range.data ? operand->transposed_range : operand->range;
}

// Quantizes tensors of an activation dtype to fp8, and optionally transposes them. The stored number is the value times
// the range's scale. An activation (as E4M3) or its gradient (as E5M2) can be fused, in fp32; plain values may be
// either.
enum quantize_kind {
    QUANTIZE_PLAIN,                // x
    QUANTIZE_ACTIVATION,           // activation(x + bias)
    QUANTIZE_GLU,                  // x + bias is (N, 2C), [gate | up]: activation(gate) * up
    QUANTIZE_ACTIVATION_GRADIENT,  // dy * activation'(x + bias)
    QUANTIZE_GLU_GRADIENT,         // as op_glu_backward: x and the values are (N, C), dy is (N, C / 2)
};
struct op_quantize {
    enum quantize_kind kind;
    enum activation activation;
    // Out. If both matrices are none, only the range's largest magnitude seen is updated.
    struct operand y;
    struct tensor x;      // (N, C), with QUANTIZE_GLU (N, 2C); contiguous, C a multiple of 16, N of 4
    struct tensor bias;   // one row of x, or none; never with QUANTIZE_PLAIN
    struct tensor dy;     // for the gradients
    struct tensor dbias;  // (C) fp32, accumulated: column sums of the values before rounding; or none
    // For the gradients, out or none: the activation's recomputed result (N, F), as QUANTIZE_ACTIVATION or QUANTIZE_GLU
    // stores it with this range, which is not updated.
    struct operand result;
};
// Stochastic rounding: a number becomes one of its two neighbours; the expectation is the number itself. Drawn as
// dropout is (ops.h), 16 bits per element, but with site + 2^31, which no dropout has: with the same bits, elements
// kept by dropout would be rounded in a biased way. The transpose adds 2^30.
struct stochastic {
    struct tensor row_ids;  // (N) i64; none: to nearest, ties to even
    uint64_t seed;
    uint32_t site;         // below 65536
    int64_t first_column;  // global number of column 0, a multiple of 8
};
// Quantizes x (N, C), of an activation dtype, by the blocks of y.scaling. The transpose has its own blocks along N, so
// its values differ from those of y.value unless blocks are square. C is a multiple of 16, N of 4; in NVFP4 both are
// multiples of 32.
//
// x may consist of several matrices (N / parts, C), one below the other, e.g. those of experts; then each is quantized
// separately, so that no block spans two. Their transposes lie side by side in y.transposed (C, N). The factors of each
// have the layout of a single matrix, (N / parts, C) or its transpose (C, N / parts), and are stacked: those of part p
// begin at row p * scales_shape(...).rows of the range.
struct op_quantize_blocks {
    struct operand y;
    struct tensor x;
    int64_t parts;  // 0: 1; N / parts is a multiple of 4; always 1 in NVFP4
    // In NVFP4 only:
    struct stochastic rounding;
    // First multiplies each 16 neighbours of the transpose's rows by a fixed orthogonal matrix: signs, then a Hadamard
    // matrix. This spreads large numbers, and cancels out in a matmul of two such operands.
    bool mixes;
};
// y (C, N) = the transpose of x (N, C), both in fp8; C is a multiple of 16, N of 4.
struct op_transpose {
    struct tensor y, x;
};
// After a step: appends the magnitude seen in each range to its history, and sets the scale such that the expected
// magnitude (the latest one, or the largest in the history) maps to the largest number of the dtype, divided by
// 2^margin. If the expected magnitude is 0 or not finite, the scale stays as it is. The factor becomes the scale's
// inverse either way. Then the magnitude seen is reset.
struct op_move_ranges {
    struct tensor ranges;   // (R, RANGE_LENGTH) fp32
    struct tensor scaled;   // (R, RANGE_LENGTH) fp32: the ranges whose scales are set; none: `ranges` themselves
    struct tensor history;  // (R, length) fp32; or none: the latest magnitude counts
    int64_t place;          // column of the history for the latest magnitude
    bool takes_largest;
    int margin;
};

#endif
