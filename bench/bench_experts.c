// layer: comm
// Times the operations of one layer of experts, forward and backward, on any device: time, arithmetic or bytes per
// second, and the share of everything but the matmuls.
// Usage: bench_experts [DEVICE DTYPE TOKENS HIDDEN WIDTH EXPERTS CHOSEN REPEATS]; the default is cpu fp32 1024 256 512
// 16 2 3. Experts are SwiGLU units of WIDTH; DTYPE is fp32, bf16, fp16, or between bf16 tensors fp8 (one range for each
// operand) or blockwise (fp8 by blocks of 128). SPREAD=one sends all rows to the first experts; FIRST=1 stores
// gradients of weights, as the first micro-batch of a step does, and does not add to them; THREADS=N is for the CPU.
#include "base/clock.h"
#include "base/error.h"
#include "base/rng.h"
#include "ops/device.h"
#include "tensor/arena.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct experts_bench {
    struct device *device;
    enum dtype dtype;
    bool is_fp8, is_blockwise;
    int64_t N, C, F, E, K, repeats;
    int64_t R;  // places
    struct arena arena;
    struct tensor noise;  // (NOISE) fp32
    double seconds, matmul_seconds;
};
enum { NOISE = 1 << 20, BLOCK = 128 };

static struct tensor filled(struct experts_bench *b, struct tensor t) {
    struct tensor flat = tensor_flat(t);
    for (int64_t first = 0; first < tensor_count(t); first += NOISE) {
        int64_t count = tensor_count(t) - first < NOISE ? tensor_count(t) - first : NOISE;
        op_copy(b->device,
                &(struct op_copy){.dst = tensor_rows(flat, first, count), .src = tensor_rows(b->noise, 0, count)});
    }
    return t;
}

static struct tensor rows_of(struct experts_bench *b, int64_t rows, int64_t columns) {
    return filled(b, arena_2d(&b->arena, b->dtype, rows, columns));
}

static struct tensor floats(struct experts_bench *b, int64_t rows, int64_t columns) {
    return filled(b, arena_2d(&b->arena, DTYPE_F32, rows, columns));
}

static void report(struct experts_bench *b, const char *name, double seconds, double flops, double bytes) {
    b->seconds += seconds;
    b->matmul_seconds += flops > 0 ? seconds : 0;
    printf("%-22s %9.3f ms", name, seconds * 1e3);
    if (flops > 0)
        printf("  %8.2f TFLOP/s\n", flops / seconds * 1e-12);
    else
        printf("  %8.1f GB/s\n", bytes / seconds * 1e-9);
}

// The mean of some calls that are queued one after the other, after one that is not counted.
#define TIME(b, name, flops, bytes, call)                                                                              \
    do {                                                                                                               \
        call;                                                                                                          \
        device_synchronize((b)->device);                                                                               \
        double start_ = clock_seconds();                                                                               \
        for (int64_t run_ = 0; run_ < (b)->repeats; run_++)                                                            \
            call;                                                                                                      \
        device_synchronize((b)->device);                                                                               \
        report(b, name, (clock_seconds() - start_) / (double)(b)->repeats, flops, bytes);                              \
    } while (0)

// Everything that is sorted: the tensors of the operations below.
struct sorted_rows {
    struct tensor logits, dlogits, experts, weights, dweights, offsets, sources, places;
};

static struct sorted_rows time_routing(struct experts_bench *b) {
    int64_t N = b->N, E = b->E, K = b->K;
    struct sorted_rows s = {
        .logits = floats(b, N, E),
        .dlogits = floats(b, N, E),
        .experts = arena_2d(&b->arena, DTYPE_I32, N, K),
        .weights = floats(b, N, K),
        .dweights = floats(b, N, K),
        .offsets = arena_1d(&b->arena, DTYPE_I32, E + 1),
        .sources = arena_1d(&b->arena, DTYPE_I32, b->R),
        .places = arena_2d(&b->arena, DTYPE_I32, N, K),
    };
    if (getenv("SPREAD"))
        device_zero(b->device, s.logits);  // of equal logits the first win
    struct tensor counts = floats(b, 1, E), sums = floats(b, 1, E);
    double bytes = 4.0 * (double)(N * E), slots = (double)(N * K);
    struct router_rule rule = {.score = ROUTER_SOFTMAX, .factor = 1};
    struct op_route_forward forward = {
        .experts = s.experts, .weights = s.weights, .counts = tensor_flat(counts), .logits = s.logits, .rule = rule};
    TIME(b, "route forward", 0, bytes, op_route_forward(b->device, &forward));
    struct op_balance_forward balance = {.sums = sums, .counts = counts, .logits = s.logits, .chosen = K};
    TIME(b, "balance forward", 0, bytes, op_balance_forward(b->device, &balance));
    struct op_sort_slots sort = {.offsets = s.offsets, .sources = s.sources, .places = s.places, .experts = s.experts};
    sort.aligned = b->is_blockwise ? BLOCK : 0;
    TIME(b, "sort", 0, 12 * slots, op_sort_slots(b->device, &sort));
    struct op_route_backward backward = {
        .dlogits = s.dlogits, .dweights = s.dweights, .logits = s.logits, .experts = s.experts, .rule = rule};
    TIME(b, "route backward", 0, 2 * bytes, op_route_backward(b->device, &backward));
    struct op_balance_backward slope = {.dlogits = s.dlogits, .logits = s.logits, .slopes = sums};
    TIME(b, "balance backward", 0, 3 * bytes, op_balance_backward(b->device, &slope));
    return s;
}

static float weight_beta(void) {
    return getenv("FIRST") ? 0 : 1;
}

static struct tensor scales_of(struct experts_bench *b, enum scaling scaling, int64_t parts, const int64_t size[2]) {
    struct scales_shape shape = scales_shape(scaling, size[0], size[1]);
    return arena_2d(&b->arena, shape.dtype, parts * shape.rows, shape.columns);
}

// By blocks; weights are `parts` matrices, one below the other.
static struct operand quantized_blocks(struct experts_bench *b, const char *name, struct tensor x, enum dtype dtype,
                                       int64_t parts) {
    int64_t rows = x.shape[0], columns = x.shape[1];
    struct operand y = {.value = arena_2d(&b->arena, dtype, rows, columns),
                        .transposed = arena_2d(&b->arena, dtype, columns, rows),
                        .scaling = parts > 0 ? SCALING_BLOCK128 : SCALING_VECTOR128};
    int64_t matrices = parts > 0 ? parts : 1, height = rows / matrices;
    y.range = scales_of(b, y.scaling, matrices, (const int64_t[2]){height, columns});
    y.transposed_range = scales_of(b, y.scaling, matrices, (const int64_t[2]){columns, height});
    struct op_quantize_blocks op = {.y = y, .x = x, .parts = parts};
    if (name)
        TIME(b, name, 0, 4.0 * (double)tensor_count(x), op_quantize_blocks(b->device, &op));
    else
        op_quantize_blocks(b->device, &op);
    return y;
}

// A matrix of bf16 in fp8, in both orders; adds the time of quantizing to that of everything but the matmuls. The
// weights of experts are `parts` matrices; of rows it is 0.
static struct operand quantized(struct experts_bench *b, const char *name, struct tensor x, enum dtype dtype,
                                int64_t parts) {
    if (b->is_blockwise)
        return quantized_blocks(b, name, x, dtype, parts);
    struct operand y = {.value = arena_2d(&b->arena, dtype, x.shape[0], x.shape[1]),
                        .transposed = arena_2d(&b->arena, dtype, x.shape[1], x.shape[0]),
                        .range = arena_1d(&b->arena, DTYPE_F32, RANGE_LENGTH)};
    device_copy_in(b->device, y.range, (const float[]){1.0f / 64, 64, 0, 448});
    struct op_quantize op = {.y = y, .x = x};
    if (name)
        TIME(b, name, 0, 4.0 * (double)tensor_count(x), op_quantize(b->device, &op));
    else
        op_quantize(b->device, &op);
    return y;
}

// The ranges of both operands, in the order in which they are multiplied.
static void set_ranges(struct op_grouped_matmul *op, const struct operand *a, const struct operand *b) {
    op->a_range = operand_range(a, op->kind == GROUPED_WEIGHT);
    op->b_range = operand_range(b, op->kind != GROUPED_FORWARD);
    op->a_scaling = a->scaling;
    op->b_scaling = b->scaling;
}

static void time_matmuls8(struct experts_bench *b, const char *name, struct tensor offsets, int64_t outputs,
                          int64_t inputs) {
    size_t mark = arena_mark(&b->arena);
    int64_t R = b->R;
    double flops = 2.0 * (double)(b->N * b->K) * (double)outputs * (double)inputs;
    struct tensor x = rows_of(b, R, inputs), dy = rows_of(b, R, outputs), w = rows_of(b, b->E * outputs, inputs);
    struct tensor dw = filled(b, arena_3d(&b->arena, DTYPE_F32, b->E, outputs, inputs));
    char text[64];
    (void)snprintf(text, sizeof text, "%s quantize weights", name);
    struct operand x8 = quantized(b, NULL, x, DTYPE_E4M3, 0);
    struct operand dy8 = quantized(b, NULL, dy, b->is_blockwise ? DTYPE_E4M3 : DTYPE_E5M2, 0);
    struct operand w8 = quantized(b, text, w, DTYPE_E4M3, b->E);
    struct op_grouped_matmul op = {.kind = GROUPED_FORWARD, .d = dy, .a = x8.value, .offsets = offsets};
    op.b = tensor_3d(w8.value.data, DTYPE_E4M3, b->E, outputs, inputs);
    set_ranges(&op, &x8, &w8);
    (void)snprintf(text, sizeof text, "%s forward", name);
    TIME(b, text, flops, 0, op_grouped_matmul(b->device, &op));
    op = (struct op_grouped_matmul){.kind = GROUPED_INPUT, .d = x, .a = dy8.value, .offsets = offsets};
    op.b = w8.transposed;
    set_ranges(&op, &dy8, &w8);
    (void)snprintf(text, sizeof text, "%s inputs", name);
    TIME(b, text, flops, 0, op_grouped_matmul(b->device, &op));
    op = (struct op_grouped_matmul){.kind = GROUPED_WEIGHT, .d = dw, .a = dy8.transposed, .offsets = offsets};
    op.b = x8.transposed;
    set_ranges(&op, &dy8, &x8);
    op.beta = weight_beta();
    (void)snprintf(text, sizeof text, "%s weights", name);
    TIME(b, text, flops, 0, op_grouped_matmul(b->device, &op));
    arena_release(&b->arena, mark);
}

// What is fused with quantizing in fp8: rows to their places, twice, and between the matmuls.
static void time_rows8(struct experts_bench *b, const struct sorted_rows *s) {
    size_t mark = arena_mark(&b->arena);
    int64_t R = b->R;
    struct tensor rows = rows_of(b, b->N, b->C), x = rows_of(b, R, 2 * b->F), dy = rows_of(b, R, b->F);
    double row = (double)b->C, unit = (double)(R * b->F);
    struct operand places = quantized(b, NULL, rows_of(b, R, b->C), DTYPE_E4M3, 0);
    struct operand y = quantized(b, NULL, dy, DTYPE_E4M3, 0), only_value = y, only_transposed = y;
    struct operand dx = quantized(b, NULL, x, b->is_blockwise ? DTYPE_E4M3 : DTYPE_E5M2, 0);
    only_value.transposed = only_transposed.value = (struct tensor){0};
    struct op_quantize_slots gather = {.y = places, .x = rows, .sources = s->sources, .per_row = b->K};
    struct op_sum_slots sum = {.out = rows, .y = rows_of(b, R, b->C), .places = s->places};
    for (int i = 0; i < 2; i++) {
        TIME(b, "gather to fp8", 0, 4 * (double)R * row, op_quantize_slots(b->device, &gather));
        TIME(b, "sum", 0, 2 * (double)(R + b->N) * row, op_sum_slots(b->device, &sum));
    }
    struct op_quantize_expert_forward forward = {.y = only_value,
                                                 .x = x,
                                                 .weights = s->weights,
                                                 .offsets = s->offsets,
                                                 .sources = s->sources,
                                                 .activation = ACTIVATION_SILU,
                                                 .is_gated = true};
    TIME(b, "activation forward", 0, 5 * unit, op_quantize_expert_forward(b->device, &forward));
    struct op_quantize_expert_backward backward = {.dx = dx,
                                                   .y = only_transposed,
                                                   .dweights = s->dweights,
                                                   .dy = dy,
                                                   .x = x,
                                                   .weights = s->weights,
                                                   .offsets = s->offsets,
                                                   .sources = s->sources,
                                                   .activation = ACTIVATION_SILU,
                                                   .is_gated = true};
    TIME(b, "activation backward", 0, 11 * unit, op_quantize_expert_backward(b->device, &backward));
    arena_release(&b->arena, mark);
}

static void time_matmuls(struct experts_bench *b, const char *name, struct tensor offsets, int64_t outputs,
                         int64_t inputs) {
    size_t mark = arena_mark(&b->arena);
    int64_t R = b->N * b->K;
    struct tensor x = rows_of(b, R, inputs), y = rows_of(b, R, outputs);
    struct tensor w = filled(b, arena_3d(&b->arena, b->dtype, b->E, outputs, inputs));
    struct tensor dw = filled(b, arena_3d(&b->arena, DTYPE_F32, b->E, outputs, inputs));
    double flops = 2.0 * (double)R * (double)outputs * (double)inputs;
    struct op_grouped_matmul op = {.kind = GROUPED_FORWARD, .d = y, .a = x, .b = w, .offsets = offsets};
    char text[64];
    (void)snprintf(text, sizeof text, "%s forward", name);
    TIME(b, text, flops, 0, op_grouped_matmul(b->device, &op));
    op = (struct op_grouped_matmul){.kind = GROUPED_INPUT, .d = x, .a = y, .b = w, .offsets = offsets};
    (void)snprintf(text, sizeof text, "%s inputs", name);
    TIME(b, text, flops, 0, op_grouped_matmul(b->device, &op));
    op = (struct op_grouped_matmul){.kind = GROUPED_WEIGHT, .d = dw, .a = y, .b = x, .offsets = offsets};
    op.beta = weight_beta();
    (void)snprintf(text, sizeof text, "%s weights", name);
    TIME(b, text, flops, 0, op_grouped_matmul(b->device, &op));
    arena_release(&b->arena, mark);
}

// Each is used twice in a step: rows to experts and the gradient of the sum, and the other way round.
static void time_moves(struct experts_bench *b, const struct sorted_rows *s) {
    size_t mark = arena_mark(&b->arena);
    int64_t R = b->N * b->K;
    struct tensor x = rows_of(b, b->N, b->C), y = rows_of(b, R, b->C);
    double row = (double)(b->C * (int64_t)dtype_bytes(b->dtype));
    struct op_gather_slots gather = {.y = y, .x = x, .sources = s->sources, .per_row = b->K};
    struct op_sum_slots sum = {.out = x, .y = y, .places = s->places};
    for (int i = 0; i < 2; i++) {
        TIME(b, "gather", 0, 2 * (double)R * row, op_gather_slots(b->device, &gather));
        TIME(b, "sum", 0, (double)(R + b->N) * row, op_sum_slots(b->device, &sum));
    }
    arena_release(&b->arena, mark);
}

static void time_activation(struct experts_bench *b, const struct sorted_rows *s) {
    size_t mark = arena_mark(&b->arena);
    int64_t R = b->N * b->K;
    struct tensor x = rows_of(b, R, 2 * b->F), y = rows_of(b, R, b->F), dy = rows_of(b, R, b->F);
    struct tensor dx = rows_of(b, R, 2 * b->F);
    double bytes = (double)(R * b->F * (int64_t)dtype_bytes(b->dtype));
    struct op_expert_activation_forward forward = {.y = y,
                                                   .x = x,
                                                   .weights = s->weights,
                                                   .offsets = s->offsets,
                                                   .sources = s->sources,
                                                   .activation = ACTIVATION_SILU,
                                                   .is_gated = true};
    TIME(b, "activation forward", 0, 3 * bytes, op_expert_activation_forward(b->device, &forward));
    struct op_expert_activation_backward backward = {.dx = dx,
                                                     .y = y,
                                                     .dweights = s->dweights,
                                                     .dy = dy,
                                                     .x = x,
                                                     .weights = s->weights,
                                                     .offsets = s->offsets,
                                                     .sources = s->sources,
                                                     .activation = ACTIVATION_SILU,
                                                     .is_gated = true};
    TIME(b, "activation backward", 0, 6 * bytes, op_expert_activation_backward(b->device, &backward));
    arena_release(&b->arena, mark);
}

static void make_noise(struct experts_bench *b) {
    float *host = malloc(sizeof *host * NOISE);
    CHECK(host != NULL);
    for (uint32_t i = 0; i < NOISE; i++)
        host[i] = (float)philox4x32(1, i, 0, 0, 0).word[0] / 2147483648.0f - 1.0f;
    b->noise = arena_1d(&b->arena, DTYPE_F32, NOISE);
    device_copy_in(b->device, b->noise, host);
    device_synchronize(b->device);
    free(host);
}

static enum dtype dtype_of(const char *name) {
    if (strcmp(name, "bf16") == 0 || strcmp(name, "fp8") == 0 || strcmp(name, "blockwise") == 0)
        return DTYPE_BF16;
    return strcmp(name, "fp16") == 0 ? DTYPE_F16 : DTYPE_F32;
}

// What the largest group of tensors above takes, and some more for their alignment.
static size_t needed_bytes(const struct experts_bench *b) {
    size_t R = (size_t)b->R, C = (size_t)b->C, F = (size_t)b->F, E = (size_t)b->E, N = (size_t)b->N;
    return 4 * (3 * R * (C + 2 * F) + N * C + 4 * F * C * E + 2 * N * E + 8 * R) + ((size_t)64 << 20);
}

int main(int argc, char **argv) {
    long long numbers[6] = {1024, 256, 512, 16, 2, 3};
    const char *device = argc > 1 ? argv[1] : "cpu", *dtype = argc > 2 ? argv[2] : "fp32";
    for (int i = 0; i < 6; i++) {
        if (argc > i + 3)
            numbers[i] = strtoll(argv[i + 3], NULL, 10);
        if (numbers[i] < 1) {
            (void)fprintf(stderr, "usage: bench_experts [DEVICE DTYPE TOKENS HIDDEN WIDTH EXPERTS CHOSEN REPEATS]\n");
            return 2;
        }
    }
    struct experts_bench b = {.dtype = dtype_of(dtype),
                              .is_blockwise = strcmp(dtype, "blockwise") == 0,
                              .N = numbers[0],
                              .C = numbers[1],
                              .F = numbers[2],
                              .E = numbers[3],
                              .K = numbers[4],
                              .repeats = numbers[5]};
    b.is_fp8 = b.is_blockwise || strcmp(dtype, "fp8") == 0;
    b.R = slots_room(&(struct op_sort_slots){.aligned = b.is_blockwise ? BLOCK : 0}, b.N * b.K, b.E);
    void *memory = NULL;
    size_t bytes = needed_bytes(&b);
    int threads = getenv("THREADS") ? (int)strtol(getenv("THREADS"), NULL, 10) : 2;
    if (device_open(&b.device, &(struct device_options){.name = device, .threads = threads}) < 0 ||
        !(memory = device_alloc(b.device, bytes))) {
        (void)fprintf(stderr, "%s\n", error_message());
        return 1;
    }
    arena_init(&b.arena, "bench", memory, bytes);
    make_noise(&b);
    printf("%s %s: %lld tokens of %lld, %lld experts of %lld, %lld chosen\n", device, dtype, numbers[0], numbers[1],
           numbers[3], numbers[2], numbers[4]);
    struct sorted_rows s = time_routing(&b);
    void (*multiply)(struct experts_bench *, const char *, struct tensor, int64_t, int64_t) =
        b.is_fp8 ? time_matmuls8 : time_matmuls;
    if (b.is_fp8) {
        time_rows8(&b, &s);
    } else {
        time_moves(&b, &s);
        time_activation(&b, &s);
    }
    multiply(&b, "fc1", s.offsets, 2 * b.F, b.C);
    multiply(&b, "fc2", s.offsets, b.C, b.F);
    printf("%-22s %9.3f ms, of which %.1f %% beside the matmuls\n", "in all", b.seconds * 1e3,
           100 * (1 - b.matmul_seconds / b.seconds));
    device_free(b.device, memory);
    device_close(b.device);
    return 0;
}
