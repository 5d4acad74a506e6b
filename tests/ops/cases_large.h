// Tensors of more than 2^31 elements: an operation must address their last rows correctly. The same operation runs
// twice on one device: on a large tensor that is zero except for its last rows, and on a small one with the first row
// and those last ones. Both must give the same there, so a truncated index shows, and only those rows are read back.
// Other cases check the small one. With few elements the cases run anywhere.
#ifndef TESTS_OPS_CASES_LARGE_H
#define TESTS_OPS_CASES_LARGE_H

#include "cases_float8.h"
#include "lab.h"

enum { LARGE, SMALL, SIDES };
enum { LARGE_SLACK_BYTES = 96 << 20, LAST_ROWS = 3, LAST_NUMBERS = 10 };

struct large {
    struct lab lab;      // memory of the small ones, and expected results
    struct arena arena;  // of the large ones
    void *memory;
    int64_t elements;  // a large tensor has more; the checked part lies beyond them
    int64_t last;      // number of rows, or of elements in a tensor with one dimension
};

struct large_pair {
    struct tensor on[SIDES];
};

static inline size_t large_bytes(int64_t elements, int64_t bytes_of_element) {
    return (size_t)(elements * bytes_of_element) + LARGE_SLACK_BYTES;
}

static inline void large_open(struct large *large, struct device *device, int64_t elements, int64_t bytes_of_element) {
    size_t bytes = large_bytes(elements, bytes_of_element);
    lab_open(&large->lab, device, DTYPE_BF16, 1.6e-2);
    large->memory = device_alloc(device, bytes);
    EXPECT(large->memory != NULL);
    arena_init(&large->arena, "large", large->memory, bytes);
    large->elements = elements;
    large->last = LAST_ROWS;
}

static inline void large_clear(struct large *large) {
    arena_release(&large->arena, 0);
    lab_clear(&large->lab);
}

static inline void large_close(struct large *large) {
    device_free(large->lab.device, large->memory);
    lab_close(&large->lab);
}

// Rows of a large tensor with this many columns: the last ones begin beyond `elements`.
static inline int64_t large_rows(const struct large *large, int64_t columns) {
    return large->elements / columns + 1 + large->last;
}

// The columns of a vocabulary, or fewer if there are few elements; both are multiples of eight.
static inline int64_t large_vocabulary(const struct large *large) {
    return large->elements > 1 << 24 ? 50304 : 1000;
}

static inline struct tensor large_last(const struct large *large, struct tensor t) {
    return tensor_rows(t, t.shape[0] - large->last, large->last);
}

// Zeros; without columns the tensors have one dimension.
static inline struct large_pair pair_zero(struct large *large, enum dtype dtype, int64_t rows, int64_t columns) {
    struct large_pair pair;
    for (int side = 0; side < SIDES; side++) {
        struct arena *arena = side == LARGE ? &large->arena : &large->lab.arena;
        int64_t count = side == LARGE ? rows : 1 + large->last;
        pair.on[side] = columns > 0 ? arena_2d(arena, dtype, count, columns) : arena_1d(arena, dtype, count);
        device_zero(large->lab.device, pair.on[side]);
    }
    return pair;
}

// Writes the same random numbers to the last rows of both.
static inline void pair_fill(struct large *large, struct large_pair pair, double scale) {
    struct sample last = lab_sample(&large->lab, large_last(large, pair.on[SMALL]), scale);
    lab_write(&large->lab, large_last(large, pair.on[LARGE]), last.x);
}

static inline struct large_pair pair_random(struct large *large, enum dtype dtype, int64_t rows, int64_t columns,
                                            double scale) {
    struct large_pair pair = pair_zero(large, dtype, rows, columns);
    pair_fill(large, pair, scale);
    return pair;
}

// Writes the last rows of both from host memory.
static inline void pair_write(struct large *large, struct large_pair pair, const void *rows) {
    for (int side = 0; side < SIDES; side++)
        device_copy_in(large->lab.device, large_last(large, pair.on[side]), rows);
    device_synchronize(large->lab.device);
}

// Zeros of the same shape, for sums that must be equal.
static inline struct large_pair pair_sums(struct large *large, int64_t rows, int64_t columns) {
    struct large_pair pair;
    for (int side = 0; side < SIDES; side++) {
        struct arena *arena = &large->lab.arena;
        pair.on[side] = columns > 0 ? arena_2d(arena, DTYPE_F32, rows, columns) : arena_1d(arena, DTYPE_F32, rows);
        device_zero(large->lab.device, pair.on[side]);
    }
    return pair;
}

// If everything expected is 0, the test would show nothing.
static inline void expect_some(const char *name, const double *expected, int64_t count, int line) {
    double size = 0;
    for (int64_t i = 0; i < count; i++)
        size += fabs(expected[i]);
    if (!(size > 0))
        test_fail("line %d: %s is 0 throughout", line, name);
}

// The first row and the last ones of the large tensor equal those of the small one.
#define pair_expect(large, pair) pair_compare(large, #pair, pair, __LINE__)
static inline void pair_compare(struct large *large, const char *name, struct large_pair pair, int line) {
    struct lab *lab = &large->lab;
    int64_t width = tensor_count(pair.on[SMALL]) / (1 + large->last);
    const double *expected = lab_read(lab, pair.on[SMALL]);
    expect_some(name, expected + width, large->last * width, line);
    lab_compare(lab, name, lab_read(lab, tensor_rows(pair.on[LARGE], 0, 1)), expected, width, line);
    lab_compare(lab, name, lab_read(lab, large_last(large, pair.on[LARGE])), expected + width, large->last * width,
                line);
}

#define pair_expect_sums(large, pair) pair_compare_sums(large, #pair, pair, __LINE__)
static inline void pair_compare_sums(struct large *large, const char *name, struct large_pair pair, int line) {
    const double *expected = lab_read(&large->lab, pair.on[SMALL]);
    expect_some(name, expected, tensor_count(pair.on[SMALL]), line);
    lab_compare(&large->lab, name, lab_read(&large->lab, pair.on[LARGE]), expected, tensor_count(pair.on[SMALL]), line);
}

// The loss as in training, and in halves as with ranks that share a vocabulary.
static inline void large_loss_of(struct large *large, int64_t V, bool is_whole) {
    static const int32_t last_labels[LAST_ROWS] = {0, 5, 998};
    static const float last_weights[LAST_ROWS] = {1, 0.5f, -2};
    int64_t N = large_rows(large, V);
    struct large_pair logits = pair_random(large, DTYPE_BF16, N, V, 4), labels = pair_zero(large, DTYPE_I32, N, 0);
    struct large_pair weights = pair_zero(large, DTYPE_F32, N, 0), losses = pair_zero(large, DTYPE_F32, N, 0);
    struct large_pair max = pair_zero(large, DTYPE_F32, N, 0), sum = pair_zero(large, DTYPE_F32, N, 0);
    struct large_pair target = pair_zero(large, DTYPE_F32, N, 0);
    pair_write(large, labels, last_labels);
    pair_write(large, weights, last_weights);
    for (int side = 0; side < SIDES; side++) {
        float first_weight = 1;
        device_copy_in(large->lab.device, tensor_rows(weights.on[side], 0, 1), &first_weight);
        device_synchronize(large->lab.device);
        if (!is_whole)
            op_softmax_stats(large->lab.device, &(struct op_softmax_stats){.row_max = max.on[side],
                                                                           .row_sum = sum.on[side],
                                                                           .row_target = target.on[side],
                                                                           .logits = logits.on[side],
                                                                           .labels = labels.on[side]});
        op_cross_entropy(large->lab.device, &(struct op_cross_entropy){.losses = losses.on[side],
                                                                       .logits = logits.on[side],
                                                                       .row_max = max.on[side],
                                                                       .row_sum = sum.on[side],
                                                                       .row_target = target.on[side],
                                                                       .makes_stats = is_whole,
                                                                       .labels = labels.on[side],
                                                                       .weights = weights.on[side]});
    }
    pair_expect(large, losses);
    pair_expect(large, logits);
    pair_expect(large, max);
    pair_expect(large, sum);
    pair_expect(large, target);
    float loss = 0;  // of a row of zeros
    device_copy_out(large->lab.device, &loss, tensor_rows(losses.on[LARGE], N - LAST_ROWS - 1, 1));
    EXPECT_NEAR(loss, log((double)V), 1e-5);
    large_clear(large);
}

// Rows that are read eight numbers at a time, and rows of odd length.
static inline void large_loss(struct large *large) {
    for (int64_t odd = 0; odd < 2; odd++)
        for (int is_whole = 0; is_whole < 2; is_whole++)
            large_loss_of(large, large_vocabulary(large) - odd, is_whole);
}

// The matmul with a vocabulary: its result, then its gradients, of which one has the large tensor's rows and the other
// is their sum.
static inline void large_matmul_of(struct large *large, int64_t V) {
    enum { C = 64 };
    struct device *device = large->lab.device;
    int64_t N = large_rows(large, V);
    struct tensor table = lab_2d(&large->lab, V, C, 1).t, bias = lab_1d(&large->lab, V, 1).t;
    struct large_pair x = pair_random(large, DTYPE_BF16, N, C, 1), dx = pair_zero(large, DTYPE_BF16, N, C);
    struct large_pair y = pair_zero(large, DTYPE_BF16, N, V), aux = pair_zero(large, DTYPE_BF16, N, V);
    struct large_pair dtable = pair_sums(large, V, C);
    for (int side = 0; side < SIDES; side++)
        op_matmul(device, &(struct op_matmul){.a = x.on[side],
                                              .b = table,
                                              .d = y.on[side],
                                              .transpose_b = true,
                                              .alpha = 0.2f,
                                              .epilogue = EPILOGUE_BIAS_ACTIVATION,
                                              .bias = bias,
                                              .aux = aux.on[side]});
    pair_expect(large, aux);
    pair_expect(large, y);
    for (int side = 0; side < SIDES; side++)
        op_matmul(device, &(struct op_matmul){
                              .a = x.on[side], .b = table, .d = y.on[side], .transpose_b = true, .alpha = 0.2f});
    pair_expect(large, y);
    for (int side = 0; side < SIDES; side++)
        device_zero(device, y.on[side]);
    pair_fill(large, y, 1);
    for (int side = 0; side < SIDES; side++) {
        op_matmul(device, &(struct op_matmul){.a = y.on[side], .b = table, .d = dx.on[side], .alpha = 0.01f});
        op_matmul(device, &(struct op_matmul){
                              .a = y.on[side], .b = x.on[side], .d = dtable.on[side], .transpose_a = true, .alpha = 1});
    }
    pair_expect(large, dx);
    pair_expect_sums(large, dtable);
    large_clear(large);
}

static inline void large_matmul(struct large *large) {
    large_matmul_of(large, large_vocabulary(large));
}

// Half a million rows with the gates of a 7B Llama: 1.1e10 elements, of which the last ones are checked.
static inline void large_matmul_long(struct large *large) {
    enum { TIMES = 5, GATES = 22016 };
    bool is_large = large->elements > 1 << 24;
    large->elements *= TIMES;
    large_matmul_of(large, is_large ? GATES : 1000);
    large->elements /= TIMES;
}

// A norm as in a block, with residual and dropout, forward and backward.
static inline void large_norm_of(struct large *large, int64_t C) {
    static const int64_t last_ids[LAST_ROWS] = {(int64_t)5 << 33, 7, 1234567};
    struct lab *lab = &large->lab;
    int64_t N = large_rows(large, C);
    struct tensor gain = lab_1d(lab, C, 1).t, bias = lab_1d(lab, C, 1).t, delta_bias = lab_1d(lab, C, 1).t;
    struct large_pair ids = pair_zero(large, DTYPE_I64, N, 0);
    struct large_pair mean = pair_zero(large, DTYPE_F32, N, 0), rstd = pair_zero(large, DTYPE_F32, N, 0);
    struct large_pair x = pair_random(large, DTYPE_BF16, N, C, 1), delta = pair_random(large, DTYPE_BF16, N, C, 1);
    struct large_pair y = pair_zero(large, DTYPE_BF16, N, C), dx = y;
    struct large_pair dgain = pair_sums(large, C, 0), dbias = pair_sums(large, C, 0),
                      ddelta_bias = pair_sums(large, C, 0);
    struct dropout dropout[SIDES];
    pair_write(large, ids, last_ids);
    for (int side = 0; side < SIDES; side++) {
        dropout[side] = (struct dropout){.rate = 0.1f, .seed = 77, .site = 9, .row_ids = ids.on[side]};
        op_norm_forward(lab->device, &(struct op_norm_forward){.y = y.on[side],
                                                               .mean = mean.on[side],
                                                               .rstd = rstd.on[side],
                                                               .x = x.on[side],
                                                               .gain = gain,
                                                               .bias = bias,
                                                               .epsilon = 1e-5f,
                                                               .delta = delta.on[side],
                                                               .delta_bias = delta_bias,
                                                               .sum = x.on[side],
                                                               .dropout = dropout[side]});
    }
    pair_expect(large, y);
    pair_expect(large, x);
    pair_expect(large, mean);
    pair_expect(large, rstd);
    // All gradients except those of the last rows are 0, and the column sums are those of the last rows.
    for (int side = 0; side < SIDES; side++)
        device_zero(lab->device, dx.on[side]);
    pair_fill(large, dx, 1);
    for (int side = 0; side < SIDES; side++)
        op_norm_backward(lab->device, &(struct op_norm_backward){.dx = dx.on[side],
                                                                 .dgain = dgain.on[side],
                                                                 .dbias = dbias.on[side],
                                                                 .dy = delta.on[side],
                                                                 .x = x.on[side],
                                                                 .gain = gain,
                                                                 .mean = mean.on[side],
                                                                 .rstd = rstd.on[side],
                                                                 .dresidual = dx.on[side],
                                                                 .ddelta = delta.on[side],
                                                                 .ddelta_bias = ddelta_bias.on[side],
                                                                 .dropout = dropout[side]});
    pair_expect(large, dx);
    pair_expect(large, delta);
    pair_expect_sums(large, dgain);
    pair_expect_sums(large, dbias);
    pair_expect_sums(large, ddelta_bias);
    large_clear(large);
}

static inline void large_norm(struct large *large) {
    large_norm_of(large, 4096);
    large_norm_of(large, 4099);
}

static inline void large_glu_of(struct large *large, int64_t F) {
    struct device *device = large->lab.device;
    int64_t N = large_rows(large, 2 * F);
    struct large_pair x = pair_random(large, DTYPE_BF16, N, 2 * F, 1), y = pair_zero(large, DTYPE_BF16, N, F), dy = y;
    for (int side = 0; side < SIDES; side++)
        op_glu_forward(device,
                       &(struct op_glu_forward){.y = y.on[side], .x = x.on[side], .activation = ACTIVATION_SILU});
    pair_expect(large, y);
    pair_fill(large, dy, 1);
    for (int side = 0; side < SIDES; side++)
        op_glu_backward(device,
                        &(struct op_glu_backward){
                            .dx = x.on[side], .dy = dy.on[side], .x = x.on[side], .activation = ACTIVATION_SILU});
    pair_expect(large, x);
    large_clear(large);
}

static inline void large_activation(struct large *large) {
    enum { F = 4099 };
    struct device *device = large->lab.device;
    int64_t N = large_rows(large, F);
    struct large_pair x = pair_random(large, DTYPE_BF16, N, F, 1), y = pair_zero(large, DTYPE_BF16, N, F);
    struct large_pair dy = pair_random(large, DTYPE_BF16, N, F, 1);
    for (int side = 0; side < SIDES; side++)
        op_activation_forward(device, &(struct op_activation_forward){
                                          .y = y.on[side], .x = x.on[side], .activation = ACTIVATION_GELU_TANH});
    pair_expect(large, y);
    for (int side = 0; side < SIDES; side++)
        op_activation_backward(
            device, &(struct op_activation_backward){
                        .dx = dy.on[side], .dy = dy.on[side], .x = x.on[side], .activation = ACTIVATION_GELU_TANH});
    pair_expect(large, dy);
    large_clear(large);
    large_glu_of(large, 2048);
    large_glu_of(large, 2051);
}

// One range of numbers to another dtype and back, to the same dtype, and rows with larger strides.
static inline void large_copy(struct large *large) {
    enum { C = 4096, GAP = 8 };
    struct device *device = large->lab.device;
    large->last = LAST_NUMBERS;
    int64_t count = large_rows(large, 1);
    struct large_pair wide = pair_random(large, DTYPE_F32, count, 0, 1), half = pair_zero(large, DTYPE_BF16, count, 0);
    for (int side = 0; side < SIDES; side++)
        op_copy(device, &(struct op_copy){.dst = half.on[side], .src = wide.on[side]});
    pair_expect(large, half);
    for (int side = 0; side < SIDES; side++) {
        device_zero(device, wide.on[side]);
        op_copy(device, &(struct op_copy){.dst = wide.on[side], .src = half.on[side]});
    }
    pair_expect(large, wide);
    large_clear(large);
    large->last = LAST_ROWS;
    int64_t N = large_rows(large, C);
    struct large_pair apart = pair_random(large, DTYPE_BF16, N, C + GAP, 1), dense = pair_zero(large, DTYPE_BF16, N, C);
    for (int side = 0; side < SIDES; side++)
        op_copy(device, &(struct op_copy){.dst = dense.on[side], .src = tensor_slice(apart.on[side], 1, GAP, C)});
    pair_expect(large, dense);
    for (int side = 0; side < SIDES; side++) {
        device_zero(device, apart.on[side]);
        op_copy(device, &(struct op_copy){.dst = tensor_slice(apart.on[side], 1, 0, C), .src = dense.on[side]});
    }
    pair_expect(large, apart);
    large_clear(large);
    struct large_pair from = pair_random(large, DTYPE_BF16, N, C, 1), to = pair_zero(large, DTYPE_BF16, N, C);
    for (int side = 0; side < SIDES; side++)
        op_copy(device, &(struct op_copy){.dst = to.on[side], .src = from.on[side]});
    pair_expect(large, to);
}

// Codes of a matrix (rows, columns), or of its transpose: those of the first row and of the last ones are the small
// matrix's. Some rows of a transpose are checked, including the last.
static inline void expect_codes(struct large *large, struct large_pair pair, int line) {
    struct lab *lab = &large->lab;
    int64_t count = tensor_count(pair.on[SMALL]), width = count / (1 + LAST_ROWS), seen = 0;
    const uint8_t *expected = float8_codes(lab, pair.on[SMALL]);
    const uint8_t *first = float8_codes(lab, tensor_rows(pair.on[LARGE], 0, 1));
    const uint8_t *last = float8_codes(lab, large_last(large, pair.on[LARGE]));
    for (int64_t i = 0; i < LAST_ROWS * width; i++)
        seen += expected[width + i] != 0;
    if (seen == 0 || memcmp(first, expected, (size_t)width) != 0 ||
        memcmp(last, expected + width, (size_t)(LAST_ROWS * width)) != 0)
        test_fail("line %d: the codes of the large tensor are others; %" PRId64 " of the small one are not 0", line,
                  seen);
}

static inline void expect_turned(struct large *large, struct large_pair turned, int line) {
    struct lab *lab = &large->lab;
    int64_t columns = turned.on[LARGE].shape[0], rows = turned.on[LARGE].shape[1];
    const uint8_t *expected = float8_codes(lab, turned.on[SMALL]);
    const int64_t chosen[] = {0, columns / 2, columns - 2, columns - 1};
    for (size_t i = 0; i < sizeof chosen / sizeof chosen[0]; i++) {
        const uint8_t *row = float8_codes(lab, tensor_rows(turned.on[LARGE], chosen[i], 1));
        const uint8_t *small = expected + chosen[i] * (1 + LAST_ROWS);
        if (row[0] != small[0] || memcmp(row + rows - LAST_ROWS, small + 1, LAST_ROWS) != 0)
            test_fail("line %d: row %" PRId64 " of the transpose has other codes", line, chosen[i]);
    }
}

static inline struct large_pair pair_turned(struct large *large, enum dtype dtype, int64_t rows, int64_t columns) {
    struct large_pair pair;
    for (int side = 0; side < SIDES; side++) {
        struct arena *arena = side == LARGE ? &large->arena : &large->lab.arena;
        pair.on[side] = arena_2d(arena, dtype, columns, side == LARGE ? rows : 1 + LAST_ROWS);
        device_zero(large->lab.device, pair.on[side]);
    }
    return pair;
}

static inline void large_quantize_of(struct large *large, enum quantize_kind kind, enum dtype dtype) {
    enum { C = 4096 };
    struct lab *lab = &large->lab;
    bool is_gradient = kind == QUANTIZE_GLU_GRADIENT;
    int64_t N = large_rows(large, C);
    struct large_pair ranges = {{float8_range(lab, dtype, 3), float8_range(lab, dtype, 3)}};
    struct large_pair x = pair_random(large, DTYPE_BF16, N, C, 1), dy = {0}, dbias = {0};
    struct large_pair y = pair_zero(large, dtype, N, C), turned = pair_turned(large, dtype, N, C);
    if (is_gradient) {
        dy = pair_random(large, DTYPE_BF16, N, C / 2, 1);
        dbias = pair_sums(large, C, 0);
    }
    for (int side = 0; side < SIDES; side++)
        op_quantize(
            lab->device,
            &(struct op_quantize){.kind = kind,
                                  .activation = ACTIVATION_SILU,
                                  .y = {.value = y.on[side], .transposed = turned.on[side], .range = ranges.on[side]},
                                  .x = x.on[side],
                                  .dy = dy.on[side],
                                  .dbias = dbias.on[side]});
    expect_codes(large, y, __LINE__);
    expect_turned(large, turned, __LINE__);
    pair_expect_sums(large, ranges);
    if (is_gradient)
        pair_expect_sums(large, dbias);
    for (int side = 0; side < SIDES; side++) {
        device_zero(lab->device, turned.on[side]);
        op_transpose(lab->device, &(struct op_transpose){.y = turned.on[side], .x = y.on[side]});
    }
    expect_turned(large, turned, __LINE__);
    large_clear(large);
}

static inline void large_quantize(struct large *large) {
    if (!device_supports(large->lab.device, DTYPE_E4M3)) {
        large_close(large);
        test_skip("this device has no fp8 matmul");
    }
    large_quantize_of(large, QUANTIZE_PLAIN, DTYPE_E4M3);
    large_quantize_of(large, QUANTIZE_GLU_GRADIENT, DTYPE_E5M2);
}

// An optimizer step with master weights in fp32, and then with the lower halves of bf16 ones; and the sums and scaling
// of gradients. The range ends in the middle of what a thread handles at once.
static inline void large_adam(struct large *large) {
    struct lab *lab = &large->lab;
    large->last = LAST_NUMBERS;
    int64_t count = large_rows(large, 1);
    struct large_pair master = pair_random(large, DTYPE_F32, count, 0, 1),
                      grad = pair_random(large, DTYPE_F32, count, 0, 1);
    struct large_pair m = pair_random(large, DTYPE_F32, count, 0, 1), v = pair_zero(large, DTYPE_F32, count, 0);
    struct large_pair copy = pair_zero(large, DTYPE_BF16, count, 0), rest = pair_zero(large, DTYPE_I16, count, 0);
    struct large_pair squares = pair_sums(large, 1, 0), dot = pair_sums(large, 1, 0);
    struct sample scale = lab_fp32_1d(lab, 1, 1), rate = lab_fp32_1d(lab, RATE_GROUP, 1);
    lab_write(lab, scale.t, (double[]){0.5});
    lab_write(lab, rate.t, (double[RATE_GROUP]){[ADAM_STEP] = 0.5, [ADAM_CORRECTION] = 1.5, [ADAM_DECAY] = 0.1});
    struct op_adam op[SIDES];
    for (int side = 0; side < SIDES; side++) {
        op_sum_squares(lab->device, &(struct op_sum_squares){.out = squares.on[side], .x = grad.on[side]});
        op_dot(lab->device, &(struct op_dot){.out = dot.on[side], .a = grad.on[side], .b = m.on[side]});
        op_scale(lab->device, &(struct op_scale){.x = grad.on[side], .factor = 3});
        op[side] = (struct op_adam){.master = master.on[side],
                                    .copy = copy.on[side],
                                    .grad = grad.on[side],
                                    .m = m.on[side],
                                    .v = v.on[side],
                                    .scale = scale.t,
                                    .rate = rate.t,
                                    .beta1 = 0.9f,
                                    .beta2 = 0.95f,
                                    .epsilon = 1e-8f,
                                    .is_decayed = true};
        op_adam(lab->device, &op[side]);
    }
    pair_expect(large, copy);
    lab->tolerance = 1e-5;
    pair_expect_sums(large, squares);
    pair_expect_sums(large, dot);
    pair_expect(large, grad);
    pair_expect(large, master);
    pair_expect(large, m);
    pair_expect(large, v);
    for (int side = 0; side < SIDES; side++) {
        op_split(lab->device, &(struct op_split){.value = copy.on[side], .rest = rest.on[side], .x = master.on[side]});
        op[side].master = rest.on[side];
        op_adam(lab->device, &op[side]);
        op_merge(lab->device, &(struct op_merge){.x = master.on[side], .value = copy.on[side], .rest = rest.on[side]});
    }
    pair_expect(large, master);
    pair_expect(large, m);
}

// Each with the bytes that its tensors of `elements` need per element.
#define EACH_LARGE_CASE(X)                                                                                             \
    X(loss, 2)                                                                                                         \
    X(matmul, 4)                                                                                                       \
    X(matmul_long, 22)                                                                                                 \
    X(norm, 6)                                                                                                         \
    X(activation, 6)                                                                                                   \
    X(copy, 6)                                                                                                         \
    X(quantize, 5)                                                                                                     \
    X(adam, 20)                                                                                                        \
    X(attention, 24)                                                                                                   \
    X(attention_far, 24)

#endif
