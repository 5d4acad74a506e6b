// How long operations take on a device, and the most that it can do: the ceilings that the time of an operation is held
// against.
#ifndef CLI_BENCH_TIME_H
#define CLI_BENCH_TIME_H

#include "ops/device.h"

// The dtypes in which matmuls are timed; TF32 is fp32 whose factors a GPU may round.
enum bench_dtype { BENCH_FP32, BENCH_TF32, BENCH_BF16, BENCH_FP16, BENCH_FP8, BENCH_DTYPES };
const char *bench_dtype_name(enum bench_dtype dtype);
enum dtype bench_dtype_factors(enum bench_dtype dtype);  // of a and b
// Whether the device multiplies so, in units of its own.
bool bench_dtype_is_in(const struct device *device, enum bench_dtype dtype);

// A matmul with its memory, filled with random numbers. The dtype of d is its own.
struct bench_matmul {
    int64_t m, n, k;
    bool transpose_a, transpose_b;
    enum dtype factors, result;
    struct op_matmul op;
    void *memory[4];  // a, b, d and, for fp8, a range
};
// Takes the memory; -1 after error_set if there is not enough. In fp8 only b is transposed, whatever was asked for.
int bench_matmul_open(struct bench_matmul *matmul, struct device *device);
void bench_matmul_close(struct bench_matmul *matmul, struct device *device);

// The seconds of one call: the best of `rounds` rounds of as many calls as a clock can resolve, after one to warm up.
// Rounds end early when they have taken a second and a half.
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
// `has_float8`, in fp8; a copy, a sum and a memset of what no cache holds, of which the fastest counts. Values that
// are not 0 stay as they are and are not measured.
int ceilings_measure(struct ceilings *ceilings, const struct device_options *options, enum dtype dtype,
                     bool has_float8);
// The least seconds that this much work takes: 0 if it is not known.
double ceilings_least(const struct ceilings *ceilings, enum dtype dtype, double flops, double bytes);

#endif
