// layer: ops
// Times the matrix products of a GPT step through op_matmul, in fp32 and in bf16, and through OpenBLAS with its own
// threads, in turn, and prints the fastest time of each and their ratios, by kind of product and in all. Times are wall
// times; with one thread, where they mean the same and other programs disturb less, processor times.
// Usage: bench_matmul [L C V N threads repeats]; the default is GPT-2 124M with 4 sequences of 256 tokens.
#include "floor.h"
#include "ops/device.h"
#include <stdio.h>
#include <time.h>

enum { KINDS = 15 };  // five linear layers, three products each

enum way { OPS_F32, OPS_BF16, BLAS, WAYS };

struct bench {
    struct gpt_products products;
    struct device *device;
    int threads;
    double best[WAYS][KINDS];
    double total[WAYS];  // best of whole runs
};

static int64_t kind_of(const struct gpt_products *p, int64_t i) {
    int64_t head = p->count - 3;
    return i >= head ? 12 + i - head : i % 12;
}

// In bf16 the same memory is read as twice as many numbers: they mean nothing, but that hardly changes the time.
// Weight gradients are fp32 then too.
static void run_ops(struct device *device, const struct product *p, enum dtype dtype) {
    // The table takes views without const; a and b are only read.
    struct tensor a = tensor_2d((void *)(uintptr_t)p->a, dtype, p->transpose_a ? p->inner : p->rows,
                                p->transpose_a ? p->rows : p->inner);
    struct tensor b = tensor_2d((void *)(uintptr_t)p->b, dtype, p->transpose_b ? p->columns : p->inner,
                                p->transpose_b ? p->inner : p->columns);
    op_matmul(device, &(struct op_matmul){.a = a,
                                          .b = b,
                                          .d = tensor_2d(p->d, p->transpose_a ? DTYPE_F32 : dtype, p->rows, p->columns),
                                          .transpose_a = p->transpose_a,
                                          .transpose_b = p->transpose_b,
                                          .alpha = 1});
}

static double seconds_now(int threads) {
    struct timespec t;
    if (threads > 1 || clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t) != 0)
        return clock_seconds();
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void keep_best(double *best, double value) {
    if (*best == 0 || value < *best)
        *best = value;
}

// All products once, one way. The first run warms up.
static void run_all(struct bench *bench, enum way way, bool is_warm) {
    const struct gpt_products *p = &bench->products;
    double kinds[KINDS] = {0}, total = 0;
    for (int64_t i = 0; i < p->count; i++) {
        double start = seconds_now(bench->threads);
        if (way == BLAS)
            product_run_blas(&p->list[i]);
        else
            run_ops(bench->device, &p->list[i], way == OPS_BF16 ? DTYPE_BF16 : DTYPE_F32);
        double seconds = seconds_now(bench->threads) - start;
        kinds[kind_of(p, i)] += seconds;
        total += seconds;
    }
    if (!is_warm)
        return;
    keep_best(&bench->total[way], total);
    for (int kind = 0; kind < KINDS; kind++)
        keep_best(&bench->best[way][kind], kinds[kind]);
}

static void print_times(const struct bench *t) {
    const struct gpt_products *p = &t->products;
    static const char *const passes[] = {"forward", "input gradient", "weight gradient"};
    printf("%-6s %-16s %8s %10s %10s %10s %7s %7s\n", "layer", "product", "GFLOP", "fp32 ms", "bf16 ms", "blas ms",
           "/ blas", "/ bf16");
    for (int kind = 0; kind < KINDS; kind++) {
        double flops = 0;
        const char *name = "";
        for (int64_t i = 0; i < p->count; i++) {
            const struct product *product = &p->list[i];
            if (kind_of(p, i) != kind)
                continue;
            flops += 2.0 * (double)product->rows * (double)product->columns * (double)product->inner;
            name = product->name;
        }
        printf("%-6s %-16s %8.1f %10.2f %10.2f %10.2f %7.3f %7.3f\n", name, passes[kind % 3], flops * 1e-9,
               t->best[OPS_F32][kind] * 1e3, t->best[OPS_BF16][kind] * 1e3, t->best[BLAS][kind] * 1e3,
               t->best[OPS_F32][kind] / t->best[BLAS][kind], t->best[OPS_F32][kind] / t->best[OPS_BF16][kind]);
    }
    printf("%-23s %8.1f %10.2f %10.2f %10.2f %7.3f %7.3f   (%.1f, %.1f and %.1f GFLOP/s)\n", "all", p->flops * 1e-9,
           t->total[OPS_F32] * 1e3, t->total[OPS_BF16] * 1e3, t->total[BLAS] * 1e3, t->total[OPS_F32] / t->total[BLAS],
           t->total[OPS_F32] / t->total[OPS_BF16], p->flops / t->total[OPS_F32] * 1e-9,
           p->flops / t->total[OPS_BF16] * 1e-9, p->flops / t->total[BLAS] * 1e-9);
}

int main(int argc, char **argv) {
    long long numbers[6] = {12, 768, 50304, 1024, 2, 3};  // L C V N threads repeats
    for (int i = 1; i < argc && i <= 6; i++)
        numbers[i - 1] = strtoll(argv[i], NULL, 10);
    for (int i = 0; i < 6; i++) {
        if (numbers[i] < 1) {
            (void)fprintf(stderr, "usage: bench_matmul [L C V N threads repeats]\n");
            return 2;
        }
    }
    struct bench bench = {.threads = (int)numbers[4]};
    if (device_open(&bench.device, &(struct device_options){.name = "cpu", .threads = bench.threads}) < 0) {
        (void)fprintf(stderr, "%s\n", error_message());
        return 1;
    }
    int64_t C = numbers[1];
    bench.products = gpt_products_create(&(struct products_shape){
        .L = numbers[0], .C = C, .V = numbers[2], .N = numbers[3], .q = C, .kv = C, .F = 4 * C});
    for (long long run = 0; run <= numbers[5]; run++) {
        run_all(&bench, OPS_F32, run > 0);
        run_all(&bench, OPS_BF16, run > 0);
        openblas_set_num_threads(bench.threads);
        run_all(&bench, BLAS, run > 0);
        openblas_set_num_threads(1);
    }
    print_times(&bench);
    gpt_products_free(&bench.products);
    device_close(bench.device);
    return 0;
}
