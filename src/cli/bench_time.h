// Times of operations on a device, and its ceilings, with which the time of an operation is compared.
#ifndef CLI_BENCH_TIME_H
#define CLI_BENCH_TIME_H

#include "config/config.h"
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

// The model that `bench step` and `bench matmul` time: train's flags, with defaults of its own.
// Train's flags for a config at `base` of the options; the short --help shows those of the model and the machine.
struct flag_table bench_model_flags(size_t base);
// To be called after the flags were parsed: applies the preset and the other defaults, and validates. Without flags it
// is GPT-2 124M, 4 sequences of 256 tokens, without dropout.
int bench_model_complete(struct config *config);
// The device requested by the flags. Fields without a flag are empty: no file of algorithms.
struct device_options bench_device_options(const struct config *config);

// One of the matmuls of a training step: d (m, n) = op(a) op(b), summed over k.
enum matmul_pass { PASS_FORWARD, PASS_INPUT_GRADIENT, PASS_WEIGHT_GRADIENT, PASS_COUNT };
struct model_matmul {
    const char *layer;  // "qkv", "fc1", …
    enum matmul_pass pass;
    int64_t m, n, k;
    int64_t times;  // count per step
};
const char *matmul_pass_name(enum matmul_pass pass);
// Layout in memory: x (N, in) W^T (out, in) forward, dy W for the input, dy^T x for the weight.
static inline bool matmul_transposes_a(enum matmul_pass pass) {
    return pass == PASS_WEIGHT_GRADIENT;
}
static inline bool matmul_transposes_b(enum matmul_pass pass) {
    return pass == PASS_FORWARD;
}
// The matmuls of the linear layers of one micro-batch, three for each layer; attention is not included. Returns their
// number, at most MOST_MATMULS.
enum { MOST_MATMULS = 64 };
int bench_model_matmuls(const struct config *config, struct model_matmul *list);

#endif
