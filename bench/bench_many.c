// layer: comm
// Times the matmuls of one Newton-Schulz step of Muon on a GPU, for matrices of the same shape at once: the Gram
// matrix, its polynomial and the step, and how fast they are. Symmetric matmuls are counted by half.
// Usage: bench_many; the shapes are those of GPT-2 XL and of a Llama of 1.3B.
#include "base/clock.h"
#include "base/error.h"
#include "base/rng.h"
#include "ops/device.h"
#include "tensor/arena.h"
#include <stdio.h>
#include <stdlib.h>

enum { NOISE = 1 << 20 };

struct many_bench {
    struct device *device;
    struct arena arena;
    struct tensor noise;  // (NOISE) fp32
};

struct many_shape {
    int64_t matrices, rows, columns, repeats;
};

static struct tensor matrices(struct many_bench *b, int64_t n, int64_t rows, int64_t columns) {
    struct tensor t = arena_3d(&b->arena, DTYPE_BF16, n, rows, columns), flat = tensor_flat(t);
    for (int64_t first = 0; first < tensor_count(t); first += NOISE) {
        int64_t count = tensor_count(t) - first < NOISE ? tensor_count(t) - first : NOISE;
        op_copy(b->device,
                &(struct op_copy){.dst = tensor_rows(flat, first, count), .src = tensor_rows(b->noise, 0, count)});
    }
    return t;
}

static double time_many(struct many_bench *b, const struct op_matmul_many *op, int64_t repeats) {
    op_matmul_many(b->device, op);
    device_synchronize(b->device);
    double start = clock_seconds();
    for (int64_t i = 0; i < repeats; i++)
        op_matmul_many(b->device, op);
    device_synchronize(b->device);
    double seconds = (clock_seconds() - start) / (double)repeats, inner = (double)op->a.shape[op->transpose_a ? 1 : 2];
    double flops = (op->is_symmetric ? 1.0 : 2.0) * (double)tensor_count(op->d) * inner;
    printf("  %8.3f ms %6.1f TFLOP/s", seconds * 1e3, flops / seconds * 1e-12);
    return seconds;
}

static void time_step(struct many_bench *b, const struct many_shape *s) {
    size_t mark = arena_mark(&b->arena);
    bool is_wide = s->rows <= s->columns;
    int64_t side = is_wide ? s->rows : s->columns;
    struct tensor x = matrices(b, s->matrices, s->rows, s->columns),
                  next = matrices(b, s->matrices, s->rows, s->columns);
    struct tensor gram = matrices(b, s->matrices, side, side), p = matrices(b, s->matrices, side, side);
    printf("%3lld of %5lld x %5lld:", (long long)s->matrices, (long long)s->rows, (long long)s->columns);
    struct op_matmul_many op = {.a = x, .b = x, .d = gram, .alpha = 1e-3f, .is_symmetric = true};
    op.transpose_a = !is_wide;
    op.transpose_b = is_wide;
    double seconds = time_many(b, &op, s->repeats);
    op = (struct op_matmul_many){
        .a = gram, .b = gram, .d = p, .c = gram, .alpha = 1e-3f, .beta = -1, .is_symmetric = true};
    seconds += time_many(b, &op, s->repeats);
    op = (struct op_matmul_many){
        .a = is_wide ? p : x, .b = is_wide ? x : p, .d = next, .c = x, .alpha = 1e-3f, .beta = 1};
    seconds += time_many(b, &op, s->repeats);
    printf("  all %8.3f ms\n", seconds * 1e3);
    (void)fflush(stdout);
    arena_release(&b->arena, mark);
}

int main(void) {
    enum { ARENA_BYTES = 3 << 29 };
    static const struct many_shape usual[] = {{48, 1600, 1600, 20}, {12, 6400, 1600, 20}, {12, 1600, 6400, 20},
                                              {24, 2048, 2048, 20}, {6, 11008, 2048, 20}, {8, 2048, 5504, 20}};
    struct many_bench b = {0};
    void *memory = NULL;
    if (device_open(&b.device, &(struct device_options){.name = "cuda"}) < 0 ||
        !(memory = device_alloc(b.device, ARENA_BYTES))) {
        (void)fprintf(stderr, "%s\n", error_message());
        return 1;
    }
    arena_init(&b.arena, "bench", memory, ARENA_BYTES);
    b.noise = arena_1d(&b.arena, DTYPE_F32, NOISE);
    float *noise = malloc(sizeof *noise * NOISE);
    CHECK(noise != NULL);
    for (uint32_t i = 0; i < NOISE; i++)
        noise[i] = (float)philox4x32(1, i, 0, 0, 0).word[0] / 2147483648.0f - 1.0f;
    device_copy_in(b.device, b.noise, noise);
    device_synchronize(b.device);
    free(noise);
    printf("gram, polynomial, step\n");
    for (size_t i = 0; i < sizeof usual / sizeof usual[0]; i++)
        time_step(&b, &usual[i]);
    device_free(b.device, memory);
    device_close(b.device);
    return 0;
}
