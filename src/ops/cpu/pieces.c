// Loops over pieces of rows, shared by the operations of experts.
#include "ops/cpu/pieces.h"

CPU_CLONES void piece_add(float *sum, const float *x, int64_t count) {
#pragma omp simd
    for (int64_t i = 0; i < count; i++)
        sum[i] += x[i];
}

CPU_CLONES void piece_add_scaled(float *sum, const float *x, float factor, int64_t count) {
#pragma omp simd
    for (int64_t i = 0; i < count; i++)
        sum[i] += factor * x[i];
}

CPU_CLONES float piece_inner(const float *a, const float *b, int64_t count) {
    float sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < count; i++)
        sum += a[i] * b[i];
    return sum;
}
