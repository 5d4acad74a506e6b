// Times of operations on a device, and its ceilings, with which the time of an operation is compared.
#ifndef CLI_BENCH_TIME_H
#define CLI_BENCH_TIME_H

#include "ops/device.h"

// Dtypes of timed matmuls; TF32 is fp32 whose factors a GPU may round.
enum bench_dtype { BENCH_FP32, BENCH_TF32, BENCH_BF16, BENCH_FP16, BENCH_FP8, BENCH_DTYPES };
const char *bench_dtype_name(enum bench_dtype dtype);
enum dtype bench_dtype_factors(enum bench_dtype dtype);  // of a and b
// Whether the device has hardware for matmuls in this dtype.
bool bench_dtype_is_in(const struct device *device, enum bench_dtype dtype);

// A matmul with its memory, filled with random numbers. The dtype of d is that of `result`.
struct bench_matmul {
    int64_t m, n, k;
    bool transpose_a, transpose_b;
    enum dtype factors, result;
    struct op_matmul op;
    void *memory[4];  // a, b, d and, for fp8, a range
};
// Allocates the memory; -1 after error_set if there is not enough. In fp8 only b is transposed, whatever was requested.
int bench_matmul_open(struct bench_matmul *matmul, struct device *device);
void bench_matmul_close(struct bench_matmul *matmul, struct device *device);

// Seconds of one call: the best of `rounds` rounds of as many calls as a clock can resolve, after one to warm up.
// Rounds end early after a second and a half.
struct bench_call {
    void (*run)(struct device *device, const void *context);
    const void *context;
};
double bench_seconds(struct device *device, struct bench_call call, int rounds);
double bench_matmul_seconds(struct device *device, const struct bench_matmul *matmul, int rounds);

struct ceilings {
    double flops[DTYPE_COUNT];  // a second, by the dtype of the factors; 0: not measured. Both fp8 types are one
    double bytes;               // a second
};
// Measures them on a device of its own, in less than a second or two: large square matmuls in `dtype` and, if
// `has_float8`, in fp8; a copy, a sum and a memset of more memory than any cache holds, of which the fastest counts.
// Values other than 0 are kept and not measured.
int ceilings_measure(struct ceilings *ceilings, const struct device_options *options, enum dtype dtype,
                     bool has_float8);
// Lower bound in seconds for this much work; 0 if unknown.
double ceilings_least(const struct ceilings *ceilings, enum dtype dtype, double flops, double bytes);

#endif
