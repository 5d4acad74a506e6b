// A test bench for operations on any device: memory on the device, the same values as doubles on the host, and
// comparison. Inputs are rounded to the dtype before both sides see them, so a difference is due to the operation.
// Failing tests leave by longjmp and leak; passing ones free everything in lab_close.
#ifndef TESTS_OPS_LAB_H
#define TESTS_OPS_LAB_H

#include "test.h"
#include "base/rng.h"
#include "ops/device.h"
#include "tensor/arena.h"

enum { LAB_HOST_BLOCKS = 4096 };

// For the innermost loops of the naive formulas. They read and write nothing but arrays of doubles that the test made,
// and checks of each access would take most of the time of a build with sanitizers.
#if defined(__GNUC__) && !defined(__clang__)
#define LAB_INNER_LOOP __attribute__((optimize("O3"), no_sanitize("address", "undefined", "thread")))
#else
#define LAB_INNER_LOOP
#endif

struct lab {
    struct device *device;
    enum dtype dtype;         // of activations and parameters
    double tolerance;         // see lab_expect
    double length_tolerance;  // for all values together, see lab_compare; 0: none
    uint64_t seed;            // for the next random tensor
    void *memory;
    struct arena arena;
    void *blocks[LAB_HOST_BLOCKS];  // host memory to free
    int block_count;
};

// BEVATRON_TEST_TINY=1 skips the larger shapes of cases with many barriers, for runs under a race checker.
static inline bool lab_is_tiny(void) {
    return getenv("BEVATRON_TEST_TINY") != NULL;
}

// A tensor on the device and its initial values.
struct sample {
    struct tensor t;
    double *x;
};

static inline void lab_open(struct lab *lab, struct device *device, enum dtype dtype, double tolerance) {
    enum { LAB_BYTES = 64 << 20 };
    *lab = (struct lab){.device = device, .dtype = dtype, .tolerance = tolerance, .seed = 1};
    lab->memory = device_alloc(device, LAB_BYTES);
    EXPECT(lab->memory != NULL);
    arena_init(&lab->arena, "lab", lab->memory, LAB_BYTES);
}

// Drops all tensors and host copies, so that the next variant of a case has all the memory.
static inline void lab_clear(struct lab *lab) {
    for (int i = 0; i < lab->block_count; i++)
        free(lab->blocks[i]);
    lab->block_count = 0;
    arena_release(&lab->arena, 0);
}

static inline void lab_close(struct lab *lab) {
    lab_clear(lab);
    device_free(lab->device, lab->memory);
}

static inline void *lab_host(struct lab *lab, size_t bytes) {
    EXPECT(lab->block_count < LAB_HOST_BLOCKS);
    void *block = calloc(bytes > 0 ? bytes : 1, 1);
    EXPECT(block != NULL);
    lab->blocks[lab->block_count++] = block;
    return block;
}

static inline double *lab_doubles(struct lab *lab, int64_t count) {
    return lab_host(lab, (size_t)count * sizeof(double));
}

// bf16 is the upper half of an fp32; rounded to nearest, ties to even.
static inline uint16_t lab_bf16(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return (uint16_t)((bits + 0x7FFFu + ((bits >> 16) & 1u)) >> 16);
}

static inline float lab_from_bf16(uint16_t half) {
    uint32_t bits = (uint32_t)half << 16;
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

// fp16 computed with doubles: 11 bits of mantissa, exponents from -14 to 15.
static inline uint16_t lab_f16(float value) {
    int exponent;
    if (isnan(value) || fabsf(value) >= 65520)
        return isnan(value) ? 0x7E00 : value < 0 ? 0xFC00 : 0x7C00;
    (void)frexp((double)value, &exponent);
    exponent = exponent < -13 ? -13 : exponent;
    double units = nearbyint(ldexp(fabs((double)value), 11 - exponent));
    if (units == 2048) {
        units = 1024;
        exponent++;
    }
    int bits = units < 1024 ? (int)units : (exponent + 14) * 1024 + (int)units - 1024;
    return (uint16_t)(bits | (value < 0 ? 0x8000 : 0));
}

static inline float lab_from_f16(uint16_t half) {
    int exponent = half >> 10 & 31, units = half & 1023;
    if (exponent == 31)
        return units ? NAN : half & 0x8000 ? -INFINITY : INFINITY;
    double value = exponent == 0 ? ldexp(units, -24) : ldexp(1024 + units, exponent - 25);
    return (float)(half & 0x8000 ? -value : value);
}

static inline uint16_t lab_half(enum dtype dtype, float value) {
    return dtype == DTYPE_F16 ? lab_f16(value) : lab_bf16(value);
}

static inline float lab_from_half(enum dtype dtype, uint16_t half) {
    return dtype == DTYPE_F16 ? lab_from_f16(half) : lab_from_bf16(half);
}

// Writes x to the tensor and rounds x itself to what the tensor can hold.
static inline void lab_write(struct lab *lab, struct tensor t, double *x) {
    int64_t count = tensor_count(t);
    unsigned char *host = lab_host(lab, tensor_bytes(t));
    for (int64_t i = 0; i < count; i++) {
        float value = (float)x[i];
        if (t.dtype == DTYPE_F32) {
            memcpy(host + 4 * i, &value, sizeof value);
            x[i] = (double)value;
        } else if (t.dtype == DTYPE_BF16 || t.dtype == DTYPE_F16) {
            uint16_t half = lab_half(t.dtype, value);
            memcpy(host + 2 * i, &half, sizeof half);
            x[i] = (double)lab_from_half(t.dtype, half);
        } else {
            test_fail("lab_write: no %s", dtype_name(t.dtype));
        }
    }
    device_copy_in(lab->device, t, host);
    device_synchronize(lab->device);
}

// The current values of a contiguous tensor.
static inline double *lab_read(struct lab *lab, struct tensor t) {
    int64_t count = tensor_count(t);
    unsigned char *host = lab_host(lab, tensor_bytes(t));
    double *x = lab_doubles(lab, count);
    device_copy_out(lab->device, host, t);
    for (int64_t i = 0; i < count; i++) {
        if (t.dtype == DTYPE_F32) {
            float value;
            memcpy(&value, host + 4 * i, sizeof value);
            x[i] = (double)value;
        } else if (t.dtype == DTYPE_BF16 || t.dtype == DTYPE_F16) {
            uint16_t half;
            memcpy(&half, host + 2 * i, sizeof half);
            x[i] = (double)lab_from_half(t.dtype, half);
        } else {
            test_fail("lab_read: no %s", dtype_name(t.dtype));
        }
    }
    return x;
}

static inline struct sample lab_sample(struct lab *lab, struct tensor t, double scale) {
    struct sample s = {t, lab_doubles(lab, tensor_count(t))};
    lab->seed++;
    for (int64_t i = 0; i < tensor_count(t); i++) {
        // Two uniform words give a symmetric distribution: most values small, some large.
        struct philox r = philox4x32(lab->seed, (uint32_t)i, (uint32_t)(i >> 32), 0, 0);
        double a = (double)r.word[0] / 4294967296.0, b = (double)r.word[1] / 4294967296.0;
        s.x[i] = scale * 2.0 * (a + b - 1.0);
    }
    lab_write(lab, t, s.x);
    return s;
}

// Random tensors of the lab's dtype, and fp32 ones.
static inline struct sample lab_1d(struct lab *lab, int64_t a, double scale) {
    return lab_sample(lab, arena_1d(&lab->arena, lab->dtype, a), scale);
}
static inline struct sample lab_2d(struct lab *lab, int64_t a, int64_t b, double scale) {
    return lab_sample(lab, arena_2d(&lab->arena, lab->dtype, a, b), scale);
}
static inline struct sample lab_4d(struct lab *lab, const int64_t shape[4], double scale) {
    return lab_sample(lab, arena_4d(&lab->arena, lab->dtype, shape[0], shape[1], shape[2], shape[3]), scale);
}
static inline struct sample lab_fp32_1d(struct lab *lab, int64_t a, double scale) {
    return lab_sample(lab, arena_1d(&lab->arena, DTYPE_F32, a), scale);
}
static inline struct sample lab_fp32_2d(struct lab *lab, int64_t a, int64_t b, double scale) {
    return lab_sample(lab, arena_2d(&lab->arena, DTYPE_F32, a, b), scale);
}

static inline struct tensor lab_ints(struct lab *lab, int64_t count, const int32_t *values) {
    struct tensor t = arena_1d(&lab->arena, DTYPE_I32, count);
    device_copy_in(lab->device, t, values);
    device_synchronize(lab->device);
    return t;
}

// Dropout at this rate for `rows` rows with scattered global numbers, some beyond 32 bits.
static inline struct dropout lab_dropout(struct lab *lab, float rate, int64_t rows) {
    int64_t *ids = lab_host(lab, (size_t)rows * sizeof *ids);
    for (int64_t i = 0; i < rows; i++)
        ids[i] = 977 * i + (i % 3 == 2 ? (int64_t)5 << 33 : 0);
    struct dropout dropout = {.rate = rate, .seed = 0x1234567890ABCDEFu, .site = 41, .first_head = 2};
    dropout.row_ids = arena_1d(&lab->arena, DTYPE_I64, rows);
    device_copy_in(lab->device, dropout.row_ids, ids);
    device_synchronize(lab->device);
    return dropout;
}

// The half of a word that is drawn for element (row, column), as specified in ops.h; `site` includes the head if there
// is one.
static inline uint32_t lab_drawn(const struct dropout *dropout, int64_t row, int64_t column, uint32_t site) {
    int64_t id = 977 * row + (row % 3 == 2 ? (int64_t)5 << 33 : 0);
    struct philox r = philox4x32_7(dropout->seed, (uint32_t)(column / 8), (uint32_t)(uint64_t)id,
                                   (uint32_t)((uint64_t)id >> 32), site);
    uint32_t word = r.word[column % 8 / 2];
    return column % 2 == 0 ? word % 65536 : word / 65536;
}

// The factor of element (row, column).
static inline double lab_factor(const struct dropout *dropout, int64_t row, int64_t column, uint32_t site) {
    if (dropout->rate == 0)
        return 1;
    uint32_t half = lab_drawn(dropout, row, column, site);
    double threshold = fmin(ceil((double)dropout->rate * 65536), 65535);
    return (double)half >= threshold ? 65536 / (65536 - threshold) : 0;
}

// Every |actual - expected| <= tolerance * (|expected| + root mean square of expected). One NaN fails. With a tolerance
// for all of them together, the norm of the difference is at most that share of the norm of the expected values.
#define lab_expect_values(lab, actual, expected, count) lab_compare(lab, #actual, actual, expected, count, __LINE__)
static inline void lab_compare(struct lab *lab, const char *name, const double *actual, const double *expected,
                               int64_t count, int line) {
    double squares = 0, difference = 0;
    for (int64_t i = 0; i < count; i++) {
        squares += expected[i] * expected[i];
        difference += (actual[i] - expected[i]) * (actual[i] - expected[i]);
    }
    double size = count > 0 ? sqrt(squares / (double)count) : 0;
    for (int64_t i = 0; i < count; i++) {
        double allowed = lab->tolerance * (fabs(expected[i]) + size) + 1e-30;
        if (!(fabs(actual[i] - expected[i]) <= allowed))
            test_fail("line %d: %s[%" PRId64 "] is %.9g, expected %.9g within %.3g (of %" PRId64 " values)", line, name,
                      i, actual[i], expected[i], allowed, count);
    }
    if (lab->length_tolerance > 0 && !(sqrt(difference) <= lab->length_tolerance * sqrt(squares) + 1e-30))
        test_fail("line %d: %s differs by %.3g of its length, allowed %.3g", line, name, sqrt(difference / squares),
                  lab->length_tolerance);
}

// The tensor now holds these values.
#define lab_expect(lab, tensor, expected)                                                                              \
    lab_compare(lab, #tensor, lab_read(lab, tensor), expected, tensor_count(tensor), __LINE__)

// Directional derivative: `slope` follows from the gradients, the other two are the loss one step ahead and behind.
#define lab_expect_slope(lab, slope, ahead, behind, step)                                                              \
    do {                                                                                                               \
        double measured_ = ((ahead) - (behind)) / (2 * (step));                                                        \
        double allowed_ = (lab)->tolerance * 20 * (1 + fabs(measured_));                                               \
        if (!(fabs((slope)-measured_) <= allowed_))                                                                    \
            test_fail("the gradients give a slope of %.9g, finite differences %.9g", (double)(slope), measured_);      \
    } while (0)

LAB_INNER_LOOP static inline double lab_inner(const double *a, const double *b, int64_t count) {
    double sum = 0;
    for (int64_t i = 0; i < count; i++)
        sum += a[i] * b[i];
    return sum;
}

// sum += factor * x
LAB_INNER_LOOP static inline void lab_add(double *restrict sum, double factor, const double *restrict x,
                                          int64_t count) {
    for (int64_t i = 0; i < count; i++)
        sum[i] += factor * x[i];
}

// x + step * direction, in new memory.
static inline double *lab_moved(struct lab *lab, const double *x, const double *direction, double step, int64_t count) {
    double *result = lab_doubles(lab, count);
    for (int64_t i = 0; i < count; i++)
        result[i] = x[i] + step * direction[i];
    return result;
}

static inline double *lab_direction(struct lab *lab, int64_t count) {
    double *direction = lab_doubles(lab, count);
    lab->seed++;
    for (int64_t i = 0; i < count; i++)
        direction[i] = (double)philox4x32(lab->seed, (uint32_t)i, 0, 0, 1).word[0] / 2147483648.0 - 1.0;
    return direction;
}

#endif
