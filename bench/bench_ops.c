// layer: ops
// Times every operation of a GPT training step but the matrix products, at the shapes of one step, and prints what each
// kind adds to the step: processor time over all threads (not disturbed by other programs) and wall time.
// Usage: bench_ops [L C H V B T threads repeats]; the default is GPT-2 124M with 4 sequences of 256 tokens.
#include "base/clock.h"
#include "base/error.h"
#include "ops/device.h"
#include "tensor/arena.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

struct sizes {
    int64_t L, C, H, V, B, T, threads, repeats;
};

struct bench_setup {
    struct device *device;
    struct sizes size;
    struct arena arena;
    float rate;  // of dropout
};

static double processor_seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static struct tensor filled(struct tensor t) {
    float *x = t.data;
    int64_t count = tensor_count(t);
    for (int64_t i = 0; i < count; i++)
        x[i] = (float)(i * 2654435761u % 1000) * 2e-3f - 1.0f;
    return t;
}

static struct tensor matrix(struct bench_setup *s, int64_t rows, int64_t columns) {
    return filled(arena_2d(&s->arena, DTYPE_F32, rows, columns));
}

static struct tensor vector(struct bench_setup *s, int64_t count) {
    return filled(arena_1d(&s->arena, DTYPE_F32, count));
}

static struct tensor integers(struct bench_setup *s, int64_t count, int64_t below) {
    struct tensor t = arena_1d(&s->arena, DTYPE_I32, count);
    for (int64_t i = 0; i < count; i++)
        ((int32_t *)t.data)[i] = (int32_t)(i * 7919 % below);
    return t;
}

static struct dropout dropout(struct bench_setup *s) {
    struct dropout d = {.rate = s->rate, .seed = 1234, .site = 3};
    d.row_ids = arena_1d(&s->arena, DTYPE_I64, s->size.B * s->size.T);
    for (int64_t i = 0; i < s->size.B * s->size.T; i++)
        ((int64_t *)d.row_ids.data)[i] = i;
    return d;
}

struct timing {
    double processor, wall;
};

// The fastest of several runs of one call.
#define TIME(s, t, call)                                                                                               \
    for (int64_t run_ = 0; run_ <= (s)->size.repeats; run_++) {                                                        \
        double processor_ = processor_seconds(), wall_ = clock_seconds();                                              \
        call;                                                                                                          \
        processor_ = processor_seconds() - processor_;                                                                 \
        wall_ = clock_seconds() - wall_;                                                                               \
        (t)->processor = run_ <= 1 || processor_ < (t)->processor ? processor_ : (t)->processor;                       \
        (t)->wall = run_ <= 1 || wall_ < (t)->wall ? wall_ : (t)->wall;                                                \
    }

static double report(const char *name, struct timing t, int64_t times) {
    printf("%-22s %4lld x %9.3f ms processor, %9.3f ms wall = %8.1f ms processor a step\n", name, (long long)times,
           t.processor * 1e3, t.wall * 1e3, t.processor * 1e3 * (double)times);
    return t.processor * (double)times;
}

static double time_norms(struct bench_setup *s) {
    int64_t N = s->size.B * s->size.T, C = s->size.C;
    size_t mark = arena_mark(&s->arena);
    struct timing t = {0};
    struct tensor x = matrix(s, N, C), y = matrix(s, N, C), delta = matrix(s, N, C), sum = matrix(s, N, C);
    struct tensor mean = vector(s, N), rstd = vector(s, N), gain = vector(s, C), bias = vector(s, C);
    struct op_norm_forward forward = {.y = y,
                                      .mean = mean,
                                      .rstd = rstd,
                                      .x = x,
                                      .gain = gain,
                                      .bias = bias,
                                      .epsilon = 1e-5f,
                                      .delta = delta,
                                      .delta_bias = bias,
                                      .sum = sum,
                                      .dropout = dropout(s)};
    TIME(s, &t, op_norm_forward(s->device, &forward));
    double total = report("norm forward", t, 2 * s->size.L + 1);
    struct tensor dx = matrix(s, N, C), dgain = vector(s, C), dbias = vector(s, C), ddelta_bias = vector(s, C);
    struct op_norm_backward backward = {.dx = dx,
                                        .dgain = dgain,
                                        .dbias = dbias,
                                        .dy = y,
                                        .x = sum,
                                        .gain = gain,
                                        .mean = mean,
                                        .rstd = rstd,
                                        .dresidual = dx,
                                        .ddelta = y,
                                        .ddelta_bias = ddelta_bias,
                                        .dropout = forward.dropout};
    TIME(s, &t, op_norm_backward(s->device, &backward));
    total += report("norm backward", t, 2 * s->size.L + 1);
    arena_release(&s->arena, mark);
    return total;
}

static double time_attention(struct bench_setup *s) {
    int64_t B = s->size.B, T = s->size.T, C = s->size.C, H = s->size.H, D = C / H;
    size_t mark = arena_mark(&s->arena);
    struct timing t = {0};
    struct tensor qkv = tensor_reshape_4d(matrix(s, B * T, 3 * C), B, T, 3 * H, D);
    struct tensor dqkv = tensor_reshape_4d(matrix(s, B * T, 3 * C), B, T, 3 * H, D);
    struct tensor out = tensor_reshape_4d(matrix(s, B * T, C), B, T, H, D);
    struct tensor dout = tensor_reshape_4d(matrix(s, B * T, C), B, T, H, D);
    struct tensor lse = arena_3d(&s->arena, DTYPE_F32, B, H, T), scratch = arena_3d(&s->arena, DTYPE_F32, B, H, T);
    struct op_attention_forward forward = {.out = out,
                                           .lse = lse,
                                           .q = tensor_slice(qkv, 2, 0, H),
                                           .k = tensor_slice(qkv, 2, H, H),
                                           .v = tensor_slice(qkv, 2, 2 * H, H),
                                           .scale = 1 / sqrtf((float)D),
                                           .is_causal = true,
                                           .dropout = dropout(s)};
    TIME(s, &t, op_attention_forward(s->device, &forward));
    double total = report("attention forward", t, s->size.L);
    struct op_attention_backward backward = {.dq = tensor_slice(dqkv, 2, 0, H),
                                             .dk = tensor_slice(dqkv, 2, H, H),
                                             .dv = tensor_slice(dqkv, 2, 2 * H, H),
                                             .dout = dout,
                                             .out = out,
                                             .lse = lse,
                                             .scratch = scratch,
                                             .q = forward.q,
                                             .k = forward.k,
                                             .v = forward.v,
                                             .scale = forward.scale,
                                             .is_causal = true,
                                             .dropout = forward.dropout};
    TIME(s, &t, op_attention_backward(s->device, &backward));
    total += report("attention backward", t, s->size.L);
    arena_release(&s->arena, mark);
    return total;
}

// What an epilogue costs is the difference to the same small product without it.
static double time_epilogues(struct bench_setup *s) {
    int64_t N = s->size.B * s->size.T, F = 4 * s->size.C, inner = 1;
    size_t mark = arena_mark(&s->arena);
    struct timing t = {0};
    struct tensor a = matrix(s, N, inner), b = matrix(s, inner, F), d = matrix(s, N, F), aux = matrix(s, N, F);
    struct op_matmul op = {.a = a, .b = b, .d = d, .alpha = 1, .bias = vector(s, F), .aux = aux};
    TIME(s, &t, op_matmul(s->device, &op));
    double total = -2 * report("product alone", t, s->size.L);
    op.epilogue = EPILOGUE_BIAS_ACTIVATION;
    TIME(s, &t, op_matmul(s->device, &op));
    total += report("bias and gelu", t, s->size.L);
    op.epilogue = EPILOGUE_ACTIVATION_GRADIENT;
    TIME(s, &t, op_matmul(s->device, &op));
    total += report("gelu gradient", t, s->size.L);
    struct tensor bias = vector(s, F);
    TIME(s, &t, op_column_sum(s->device, &(struct op_column_sum){.out = bias, .x = d}));
    total += report("column sum (4C)", t, s->size.L * 2);
    arena_release(&s->arena, mark);
    return total;
}

static double time_loss(struct bench_setup *s) {
    int64_t N = s->size.B * s->size.T, V = s->size.V, C = s->size.C;
    size_t mark = arena_mark(&s->arena);
    struct timing t = {0};
    struct tensor logits = matrix(s, N, V), max = vector(s, N), sum = vector(s, N), target = vector(s, N);
    struct tensor labels = integers(s, N, V);
    TIME(s, &t,
         op_softmax_stats(
             s->device, &(struct op_softmax_stats){
                            .row_max = max, .row_sum = sum, .row_target = target, .logits = logits, .labels = labels}));
    double total = report("softmax statistics", t, 1);
    struct op_cross_entropy loss = {.losses = vector(s, N),
                                    .logits = logits,
                                    .row_max = max,
                                    .row_sum = sum,
                                    .row_target = target,
                                    .labels = labels,
                                    .weights = vector(s, N)};
    TIME(s, &t, op_cross_entropy(s->device, &loss));
    total += report("cross entropy", t, 1);
    struct tensor table = matrix(s, V, C), places = matrix(s, s->size.T, C), out = matrix(s, N, C);
    struct tensor positions = integers(s, N, s->size.T);
    TIME(s, &t,
         op_embedding_forward(s->device, &(struct op_embedding_forward){.out = out,
                                                                        .tokens = labels,
                                                                        .table = table,
                                                                        .positions = positions,
                                                                        .position_table = places,
                                                                        .dropout = dropout(s)}));
    total += report("embedding forward", t, 1);
    TIME(s, &t,
         op_embedding_backward(s->device, &(struct op_embedding_backward){.dtable = table,
                                                                          .dposition_table = places,
                                                                          .dout = out,
                                                                          .tokens = labels,
                                                                          .positions = positions,
                                                                          .dropout = dropout(s)}));
    total += report("embedding backward", t, 1);
    arena_release(&s->arena, mark);
    return total;
}

static double time_optimizer(struct bench_setup *s) {
    int64_t C = s->size.C, n = 12 * s->size.L * C * C + s->size.V * C;
    size_t mark = arena_mark(&s->arena);
    struct timing t = {0};
    struct tensor master = vector(s, n), grad = vector(s, n), m = vector(s, n), v = vector(s, n);
    struct tensor scale = vector(s, 1), squares = vector(s, 1);
    for (int64_t i = 0; i < n; i++)
        ((float *)v.data)[i] = 1e-4f;
    TIME(s, &t, op_sum_squares(s->device, &(struct op_sum_squares){.out = squares, .x = grad}));
    double total = report("sum of squares", t, 1);
    struct op_adam adam = {.master = master,
                           .grad = grad,
                           .m = m,
                           .v = v,
                           .scale = scale,
                           .rate = vector(s, RATE_GROUP),
                           .beta1 = 0.9f,
                           .beta2 = 0.95f,
                           .epsilon = 1e-8f,
                           .is_decayed = true};
    TIME(s, &t, op_adam(s->device, &adam));
    total += report("adam", t, 1);
    TIME(s, &t, device_zero(s->device, grad));
    total += report("zero gradients", t, 1);
    arena_release(&s->arena, mark);
    return total;
}

// Small products of a fresh OpenBLAS are slow until a large one has touched its buffers, as in a step it always has.
static void warm_up(struct bench_setup *s) {
    size_t mark = arena_mark(&s->arena);
    struct tensor a = matrix(s, 1024, 1024), b = matrix(s, 1024, 1024), d = matrix(s, 1024, 1024);
    op_matmul(s->device, &(struct op_matmul){.a = a, .b = b, .d = d, .alpha = 1});
    arena_release(&s->arena, mark);
}

int main(int argc, char **argv) {
    long long numbers[8] = {12, 768, 12, 50304, 4, 256, 1, 5};
    for (int i = 1; i < argc && i <= 8; i++)
        numbers[i - 1] = strtoll(argv[i], NULL, 10);
    for (int i = 0; i < 8; i++) {
        if (numbers[i] < 1) {
            (void)fprintf(stderr, "usage: bench_ops [L C H V B T threads repeats]\n");
            return 2;
        }
    }
    struct bench_setup s = {
        .size = {numbers[0], numbers[1], numbers[2], numbers[3], numbers[4], numbers[5], numbers[6], numbers[7]}};
    size_t bytes = (size_t)3 << 30;
    void *memory = NULL;
    if (device_open(&s.device, &(struct device_options){.name = "cpu", .threads = (int)s.size.threads}) < 0 ||
        !(memory = device_alloc(s.device, bytes))) {
        (void)fprintf(stderr, "%s\n", error_message());
        return 1;
    }
    arena_init(&s.arena, "bench", memory, bytes);
    warm_up(&s);
    for (int pass = 0; pass < 2; pass++) {
        s.rate = pass == 0 ? 0.0f : 0.1f;
        printf("dropout %.1f\n", (double)s.rate);
        double total = time_norms(&s) + time_attention(&s);
        if (pass == 0)
            total += time_epilogues(&s) + time_loss(&s) + time_optimizer(&s);
        printf("in all %.1f ms processor a step\n\n", total * 1e3);
    }
    device_free(s.device, memory);
    device_close(s.device);
    return 0;
}
