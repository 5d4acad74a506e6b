// The same tensors on two devices: the CPU in fp32 and a GPU in the dtype under test. Values are rounded to that
// dtype before either side gets them; an operation then runs on both, and their outputs are compared. Each operation
// is written once, in a loop over the sides: op_x(twins.device[side], &(struct op_x){.y = y.on[side], …}).
#ifndef TESTS_OPS_TWIN_H
#define TESTS_OPS_TWIN_H

#include "lab.h"
#include "base/library.h"

enum { TWIN_CPU, TWIN_GPU, TWIN_COUNT };

// Bounds of an error relative to the value plus the root mean square of all. Two roundings to bf16 are 0.4 % of a
// value; sums of rounded values can lose more.
static const double FP32_TOLERANCE = 2e-5;
static const double FP32_LONG_TOLERANCE = 1e-4;  // sums of many terms that cancel, of rounded exponentials
static const double BF16_TOLERANCE = 1.6e-2;
static const double FP16_TOLERANCE = 4e-3;  // as for the CPU's fp16

// BEVATRON_TEST_SMALL=1 shrinks the large shapes, for runs under a memory checker.
static inline bool is_small(void) {
    return getenv("BEVATRON_TEST_SMALL") != NULL;
}

static inline const char *variable_of_environment(const char *name) {
    return getenv(name);
}

// BEVATRON_CUDNN_LIBRARY and the like hold, as for the program.
static inline struct device *gpu_open_as(struct device_options options) {
    struct device *gpu = NULL;
    library_set_environment(variable_of_environment);
    if (cuda_count() == 0)
        test_skip("no GPU can be used");
    EXPECT_OK(cuda_open(&gpu, &options));
    return gpu;
}

static inline struct device *gpu_open(void) {
    return gpu_open_as((struct device_options){.index = 0});
}

struct twins {
    struct device *device[TWIN_COUNT];
    struct arena arena[TWIN_COUNT];
    void *memory[TWIN_COUNT];
    enum dtype dtype;  // of activations and parameters on the GPU
    double tolerance;
    uint64_t seed;
};

struct twin {
    struct tensor on[TWIN_COUNT];
};

static inline void twins_open(struct twins *twins, struct device *cpu, struct device *gpu, size_t bytes) {
    *twins = (struct twins){.device = {cpu, gpu}, .seed = 1000};
    for (int side = 0; side < TWIN_COUNT; side++) {
        twins->memory[side] = device_alloc(twins->device[side], bytes);
        EXPECT(twins->memory[side] != NULL);
        arena_init(&twins->arena[side], "twins", twins->memory[side], bytes);
    }
}

static inline void twins_close(struct twins *twins) {
    for (int side = 0; side < TWIN_COUNT; side++)
        device_free(twins->device[side], twins->memory[side]);
}

static inline void twins_start(struct twins *twins, enum dtype dtype, double tolerance) {
    twins->dtype = dtype;
    twins->tolerance = tolerance;
    for (int side = 0; side < TWIN_COUNT; side++)
        arena_release(&twins->arena[side], 0);
}

// Writes the same float values to both sides, rounded to what the GPU's tensor holds; x is rounded too.
static inline void twin_write(struct twins *twins, struct twin t, float *x) {
    int64_t count = tensor_count(t.on[TWIN_GPU]);
    uint16_t *half = NULL;
    enum dtype dtype = t.on[TWIN_GPU].dtype;
    if (dtype != DTYPE_F32) {
        half = malloc((size_t)count * sizeof *half);
        EXPECT(half != NULL);
        for (int64_t i = 0; i < count; i++) {
            half[i] = lab_half(dtype, x[i]);
            x[i] = lab_from_half(dtype, half[i]);
        }
    }
    device_copy_in(twins->device[TWIN_CPU], t.on[TWIN_CPU], x);
    device_copy_in(twins->device[TWIN_GPU], t.on[TWIN_GPU], half ? (const void *)half : x);
    device_synchronize(twins->device[TWIN_GPU]);
    free(half);
}

static inline struct twin twin_random(struct twins *twins, enum dtype dtype, int64_t rows, int64_t columns,
                                      float scale) {
    struct twin t = {{arena_2d(&twins->arena[TWIN_CPU], DTYPE_F32, rows, columns),
                      arena_2d(&twins->arena[TWIN_GPU], dtype, rows, columns)}};
    float *x = malloc((size_t)(rows * columns) * sizeof *x);
    EXPECT(x != NULL);
    twins->seed++;
    for (int64_t i = 0; i < rows * columns; i++) {
        struct philox r = philox4x32(twins->seed, (uint32_t)i, (uint32_t)(i >> 32), 7, 0);
        x[i] = scale * (float)((double)r.word[0] / 2147483648.0 - 1.0);
    }
    twin_write(twins, t, x);
    free(x);
    return t;
}

// Activations (rows, columns), parameters (columns), and fp32 vectors, random within [-1, 1].
static inline struct twin twin_2d(struct twins *twins, int64_t rows, int64_t columns) {
    return twin_random(twins, twins->dtype, rows, columns, 1);
}

static inline struct twin twin_flat(struct twins *twins, enum dtype dtype, int64_t count) {
    struct twin t = twin_random(twins, dtype, 1, count, 1);
    for (int side = 0; side < TWIN_COUNT; side++)
        t.on[side] = tensor_flat(t.on[side]);
    return t;
}

static inline struct twin twin_1d(struct twins *twins, int64_t count) {
    return twin_flat(twins, twins->dtype, count);
}

static inline struct twin twin_fp32(struct twins *twins, int64_t count) {
    return twin_flat(twins, DTYPE_F32, count);
}

static inline struct twin twin_ints(struct twins *twins, int64_t count, const int32_t *values) {
    struct twin t;
    for (int side = 0; side < TWIN_COUNT; side++) {
        t.on[side] = arena_1d(&twins->arena[side], DTYPE_I32, count);
        device_copy_in(twins->device[side], t.on[side], values);
        device_synchronize(twins->device[side]);
    }
    return t;
}

// row_ids (rows) for dropout, in the order of a batch that begins at a large global token number.
static inline struct twin twin_row_ids(struct twins *twins, int64_t rows) {
    int64_t *ids = malloc((size_t)rows * sizeof *ids);
    EXPECT(ids != NULL);
    for (int64_t i = 0; i < rows; i++)
        ids[i] = ((int64_t)3 << 33) + 5 * i;
    struct twin t;
    for (int side = 0; side < TWIN_COUNT; side++) {
        t.on[side] = arena_1d(&twins->arena[side], DTYPE_I64, rows);
        device_copy_in(twins->device[side], t.on[side], ids);
        device_synchronize(twins->device[side]);
    }
    free(ids);
    return t;
}

// The values of a contiguous tensor as floats; the caller frees them.
static inline float *twin_read(struct device *device, struct tensor t) {
    int64_t count = tensor_count(t);
    float *x = malloc((size_t)(count > 0 ? count : 1) * sizeof *x);
    EXPECT(x != NULL);
    if (t.dtype == DTYPE_F32) {
        device_copy_out(device, x, t);
        return x;
    }
    EXPECT(t.dtype == DTYPE_BF16 || t.dtype == DTYPE_F16);
    uint16_t *half = malloc((size_t)(count > 0 ? count : 1) * sizeof *half);
    EXPECT(half != NULL);
    device_copy_out(device, half, t);
    for (int64_t i = 0; i < count; i++)
        x[i] = lab_from_half(t.dtype, half[i]);
    free(half);
    return x;
}

// Copies the CPU's current values to the GPU, so that the next operation starts from the same numbers on both sides.
static inline void twin_sync(struct twins *twins, struct twin t) {
    float *x = twin_read(twins->device[TWIN_CPU], t.on[TWIN_CPU]);
    twin_write(twins, t, x);
    free(x);
}

// Every |gpu - cpu| <= tolerance * (|cpu| + root mean square of cpu). One NaN fails.
#define twin_expect(twins, t) twin_compare(twins, #t, t, __LINE__)
static inline void twin_compare(struct twins *twins, const char *name, struct twin t, int line) {
    int64_t count = tensor_count(t.on[TWIN_CPU]);
    float *cpu = twin_read(twins->device[TWIN_CPU], t.on[TWIN_CPU]);
    float *gpu = twin_read(twins->device[TWIN_GPU], t.on[TWIN_GPU]);
    double squares = 0, worst = 0;
    int64_t worst_at = -1;
    for (int64_t i = 0; i < count; i++)
        squares += (double)cpu[i] * (double)cpu[i];
    double size = sqrt(squares / (double)(count > 0 ? count : 1)) + 1e-30;
    for (int64_t i = 0; i < count; i++) {
        double error = fabs((double)gpu[i] - (double)cpu[i]) / (fabs((double)cpu[i]) + size);
        if (!(error <= worst)) {
            worst = error;
            worst_at = i;
            if (isnan(error))
                break;
        }
    }
    float got = worst_at >= 0 ? gpu[worst_at] : 0, wanted = worst_at >= 0 ? cpu[worst_at] : 0;
    free(cpu);
    free(gpu);
    if (!(worst <= twins->tolerance))
        test_fail("line %d: %s[%" PRId64 "] of %" PRId64
                  " is %.9g on the GPU, %.9g on the CPU: error %.3g, allowed %.3g",
                  line, name, worst_at, count, (double)got, (double)wanted, worst, twins->tolerance);
    printf("    %-16s %s, worst error %.2e of %.0e allowed\n", name, dtype_name(t.on[TWIN_GPU].dtype), worst,
           twins->tolerance);
}

// The norm of the difference relative to that of the CPU's values: what matters if single values are sums of many
// rounded ones, some of which cancel.
#define twin_expect_length(twins, t, bound) twin_compare_length(twins, #t, t, bound, __LINE__)
static inline void twin_compare_length(struct twins *twins, const char *name, struct twin t, double bound, int line) {
    int64_t count = tensor_count(t.on[TWIN_CPU]);
    float *cpu = twin_read(twins->device[TWIN_CPU], t.on[TWIN_CPU]);
    float *gpu = twin_read(twins->device[TWIN_GPU], t.on[TWIN_GPU]);
    double squares = 0, difference = 0;
    for (int64_t i = 0; i < count; i++) {
        squares += (double)cpu[i] * (double)cpu[i];
        difference += ((double)gpu[i] - (double)cpu[i]) * ((double)gpu[i] - (double)cpu[i]);
    }
    free(cpu);
    free(gpu);
    double error = sqrt(difference / (squares + 1e-300));
    if (!(error <= bound))
        test_fail("line %d: %s differs by %.3g of its length, allowed %.3g", line, name, error, bound);
    printf("    %-16s %s, length of the error %.2e of %.0e allowed\n", name, dtype_name(t.on[TWIN_GPU].dtype), error,
           bound);
}

// Token ids as in text: a few very often, most of them rarely.
static inline int32_t *text_tokens(int64_t count, int64_t vocabulary) {
    int32_t *tokens = malloc((size_t)count * sizeof *tokens);
    EXPECT(tokens != NULL);
    for (int64_t i = 0; i < count; i++) {
        double u = (double)philox4x32(5, (uint32_t)i, 0, 0, 0).word[0] / 4294967296.0;
        tokens[i] = (int32_t)(u * u * u * (double)vocabulary);
    }
    return tokens;
}

#endif
