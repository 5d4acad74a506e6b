// layer: cli
// The matmuls of a model's training step in OpenBLAS with its own threads: the floor that no step on a CPU can
// go below (attention is not in). Prints the fastest of some runs as one line of JSON; with --beside also op_matmul's
// times in fp32 and bf16, taken in turn with OpenBLAS's, and their ratios by kind of matmul. Times are wall times;
// with one thread, where they mean the same and other programs disturb less, processor times. Flags are those of train;
// the default is GPT-2 124M with 4 sequences of 256 tokens.
#include "base/clock.h"
#include "base/error.h"
#include "cli/bench_model.h"
#include "cli/bench_time.h"

#include <cblas.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

enum floor_way { BLAS, OPS_F32, OPS_BF16, WAYS };

struct floor_bench {
    struct flag_given given;
    int64_t steps;
    bool beside;
    struct config config;
};

static const struct flag own_flags[] = {
    {.name = "Benchmark", .type = FLAG_GROUP},
    {.name = "--steps",
     .type = FLAG_INT,
     .offset = offsetof(struct floor_bench, steps),
     .initial = "3",
     .minimum = 1,
     .maximum = 1000,
     .help = "timed runs after one that warms up; the fastest counts"},
    {.name = "--beside",
     .type = FLAG_BOOL,
     .offset = offsetof(struct floor_bench, beside),
     .help = "a table with our own matmuls beside OpenBLAS's"},
};

static double seconds_now(int threads) {
    struct timespec t;
    if (threads > 1 || clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t) != 0)
        return clock_seconds();
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void run_blas(const struct op_matmul *op) {
    cblas_sgemm(CblasRowMajor, op->transpose_a ? CblasTrans : CblasNoTrans, op->transpose_b ? CblasTrans : CblasNoTrans,
                (blasint)op->d.shape[0], (blasint)op->d.shape[1], (blasint)op->a.shape[op->transpose_a ? 0 : 1], 1.0f,
                op->a.data, (blasint)op->a.shape[1], op->b.data, (blasint)op->b.shape[1], 0.0f, op->d.data,
                (blasint)op->d.shape[1]);
}

// The fastest seconds of one matmul in each way, one way after the other in each round.
static int time_matmul(const struct floor_bench *bench, struct device *device, const struct model_matmul *matmul,
                       double best[WAYS]) {
    struct bench_matmul trials[WAYS] = {{0}};
    int threads = bench_device_options(&bench->config).threads, ways = bench->beside ? WAYS : BLAS + 1, status = 0;
    for (int way = 0; way < ways && status == 0; way++) {
        enum dtype dtype = way == OPS_BF16 ? DTYPE_BF16 : DTYPE_F32;
        trials[way] = (struct bench_matmul){.m = matmul->m,
                                            .n = matmul->n,
                                            .k = matmul->k,
                                            .transpose_a = matmul_transposes_a(matmul->pass),
                                            .transpose_b = matmul_transposes_b(matmul->pass),
                                            .factors = dtype,
                                            .result = matmul->pass == PASS_WEIGHT_GRADIENT ? DTYPE_F32 : dtype};
        status = bench_matmul_open(&trials[way], device);
    }
    for (int64_t run = 0; run <= bench->steps && status == 0; run++)
        for (int way = 0; way < ways; way++) {
            openblas_set_num_threads(way == BLAS ? threads : 1);
            double start = seconds_now(threads);
            if (way == BLAS)
                run_blas(&trials[way].op);
            else
                op_matmul(device, &trials[way].op);
            double seconds = seconds_now(threads) - start;
            best[way] = run <= 1 || seconds < best[way] ? seconds : best[way];
        }
    openblas_set_num_threads(1);
    for (int way = 0; way < ways; way++)
        bench_matmul_close(&trials[way], device);
    return status;
}

static void print_row(const char *layer, const char *pass, double flops, const double seconds[WAYS]) {
    printf("%-10s %-16s %8.1f %10.2f %10.2f %10.2f %7.3f %7.3f\n", layer, pass, flops * 1e-9, seconds[OPS_F32] * 1e3,
           seconds[OPS_BF16] * 1e3, seconds[BLAS] * 1e3, seconds[OPS_F32] / seconds[BLAS],
           seconds[OPS_F32] / seconds[OPS_BF16]);
}

static int run_all(const struct floor_bench *bench, struct device *device) {
    struct model_matmul list[MOST_MATMULS];
    int count = bench_model_matmuls(&bench->config, list);
    double total[WAYS] = {0}, flops = 0, tokens = (double)(bench->config.micro_batch_size * bench->config.seq_length);
    if (bench->beside)
        printf("%-10s %-16s %8s %10s %10s %10s %7s %7s\n", "layer", "pass", "GFLOP", "fp32 ms", "bf16 ms", "blas ms",
               "/ blas", "/ bf16");
    for (int i = 0; i < count; i++) {
        double best[WAYS] = {0}, times = (double)list[i].times;
        double work = 2 * (double)list[i].m * (double)list[i].n * (double)list[i].k * times;
        TRY(time_matmul(bench, device, &list[i], best));
        for (int way = 0; way < WAYS; way++) {
            best[way] *= times;
            total[way] += best[way];
        }
        flops += work;
        if (bench->beside)
            print_row(list[i].layer, matmul_pass_name(list[i].pass), work, best);
    }
    if (bench->beside)
        print_row("all", "", flops, total);
    printf("{\"name\": \"products in OpenBLAS\", \"median_s\": %.4f, \"min_s\": %.4f, \"tokens_per_second\": %.1f}\n",
           total[BLAS], total[BLAS], tokens / total[BLAS]);
    return 0;
}

static int run_bench(struct floor_bench *bench) {
    struct device *device;
    TRY(bench_model_complete(&bench->config));
    struct device_options options = bench_device_options(&bench->config);
    options.name = "cpu";
    TRY(device_open(&device, &options));
    int status = run_all(bench, device);
    device_close(device);
    return status;
}

int main(int argc, char **argv) {
    const struct flag_table tables[] = {
        {.flags = own_flags,
         .count = sizeof own_flags / sizeof own_flags[0],
         .given = offsetof(struct floor_bench, given)},
        bench_model_flags(offsetof(struct floor_bench, config)),
    };
    const struct flag_command command = {.name = "bench_floor",
                                         .summary = "Times a training step's matmuls in OpenBLAS.",
                                         .tables = tables,
                                         .table_count = 2};
    struct floor_bench bench;
    int status = flags_parse(&command, &bench, argc, argv);
    if (status == 0)
        status = run_bench(&bench);
    if (status < 0)
        (void)fprintf(stderr, "bench_floor: %s\n", error_message());
    flags_free(&command, &bench);
    return status < 0;
}
