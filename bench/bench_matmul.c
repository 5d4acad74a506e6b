// layer: ops
// Times the matrix products of a GPT step through op_matmul and through OpenBLAS with its own threads, in turn, and
// prints the fastest time of each and their ratio, by kind of product and in all.
// Usage: bench_matmul [L C V N threads repeats]; the default is GPT-2 124M with 4 sequences of 256 tokens.
#include "floor.h"
#include "ops/device.h"
#include <stdio.h>
#include <string.h>

enum { KINDS = 15 };  // five linear layers, three products each

struct times {
    double ours[KINDS], blas[KINDS];  // of this run, by kind
    double best_ours[KINDS], best_blas[KINDS];
    double total_ours, total_blas;  // best of whole runs
};

static int64_t kind_of(const struct gpt_products *p, int64_t i) {
    int64_t head = p->count - 3;
    return i >= head ? 12 + i - head : i % 12;
}

static void run_ours(struct device *device, const struct product *p) {
    // The table takes views without const; a and b are only read.
    struct tensor a = tensor_2d((void *)(uintptr_t)p->a, DTYPE_F32, p->transpose_a ? p->inner : p->rows,
                                p->transpose_a ? p->rows : p->inner);
    struct tensor b = tensor_2d((void *)(uintptr_t)p->b, DTYPE_F32, p->transpose_b ? p->columns : p->inner,
                                p->transpose_b ? p->inner : p->columns);
    op_matmul(device, &(struct op_matmul){.a = a,
                                          .b = b,
                                          .d = tensor_2d(p->d, DTYPE_F32, p->rows, p->columns),
                                          .transpose_a = p->transpose_a,
                                          .transpose_b = p->transpose_b,
                                          .alpha = 1});
}

static double run_all(const struct gpt_products *p, struct device *device, double kinds[KINDS]) {
    memset(kinds, 0, KINDS * sizeof *kinds);
    double total = 0;
    for (int64_t i = 0; i < p->count; i++) {
        double start = clock_seconds();
        if (device)
            run_ours(device, &p->list[i]);
        else
            product_run_blas(&p->list[i]);
        double seconds = clock_seconds() - start;
        kinds[kind_of(p, i)] += seconds;
        total += seconds;
    }
    return total;
}

static void keep_best(double *best, double value) {
    if (*best == 0 || value < *best)
        *best = value;
}

static void print_times(const struct gpt_products *p, const struct times *t) {
    static const char *const passes[] = {"forward", "input gradient", "weight gradient"};
    printf("%-6s %-16s %8s %10s %10s %7s\n", "layer", "product", "GFLOP", "ops ms", "blas ms", "ratio");
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
        printf("%-6s %-16s %8.1f %10.2f %10.2f %7.3f\n", name, passes[kind % 3], flops * 1e-9, t->best_ours[kind] * 1e3,
               t->best_blas[kind] * 1e3, t->best_ours[kind] / t->best_blas[kind]);
    }
    printf("%-23s %8.1f %10.2f %10.2f %7.3f   (%.1f and %.1f GFLOP/s)\n", "all", p->flops * 1e-9, t->total_ours * 1e3,
           t->total_blas * 1e3, t->total_ours / t->total_blas, p->flops / t->total_ours * 1e-9,
           p->flops / t->total_blas * 1e-9);
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
    int threads = (int)numbers[4];
    struct device *device = NULL;
    if (device_open(&device, &(struct device_options){.name = "cpu", .threads = threads}) < 0) {
        (void)fprintf(stderr, "%s\n", error_message());
        return 1;
    }
    struct gpt_products p = gpt_products_create(numbers[0], numbers[1], numbers[2], numbers[3]);
    struct times t = {0};
    for (long long run = 0; run <= numbers[5]; run++) {
        double ours = run_all(&p, device, t.ours);
        openblas_set_num_threads(threads);
        double blas = run_all(&p, NULL, t.blas);
        openblas_set_num_threads(1);
        if (run == 0)
            continue;  // warming up
        keep_best(&t.total_ours, ours);
        keep_best(&t.total_blas, blas);
        for (int kind = 0; kind < KINDS; kind++) {
            keep_best(&t.best_ours[kind], t.ours[kind]);
            keep_best(&t.best_blas[kind], t.blas[kind]);
        }
    }
    print_times(&p, &t);
    gpt_products_free(&p);
    device_close(device);
    return 0;
}
