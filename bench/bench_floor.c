// layer: cli
// The matmuls of a model's training step alone (attention is not in): in OpenBLAS with its own threads, and in our own
// kernels in fp32 and bf16. The better of the two in fp32 is the floor that no step on this CPU can go below. Prints a
// table by kind of matmul and a line of JSON for each way, with the sums of medians and of the fastest runs. Times are
// wall times; with one thread, where they mean the same and other programs disturb less, processor times. Flags are
// those of train; the default is GPT-2 124M with 4 sequences of 256 tokens.
#include "base/clock.h"
#include "base/error.h"
#include "cli/bench_time.h"

#include <cblas.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum floor_way { BLAS_F32, OPS_F32, OPS_BF16, WAYS };
static const char *const way_names[WAYS] = {"fp32 OpenBLAS", "fp32 bevatron", "bf16 bevatron"};
enum { MOST_RUNS = 1000 };

struct floor_bench {
    struct flag_given given;
    int64_t steps;
    struct config config;
};

struct floor_time {
    double median, fastest;
};

static const struct flag own_flags[] = {
    {.name = "Benchmark", .type = FLAG_GROUP},
    {.name = "--steps",
     .type = FLAG_INT,
     .offset = offsetof(struct floor_bench, steps),
     .initial = "9",
     .minimum = 1,
     .maximum = MOST_RUNS,
     .help = "timed runs of each matmul after one that warms up; three suffice if they take a second"},
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

static int compare_seconds(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static struct floor_time time_runs(const struct floor_bench *bench, struct device *device, enum floor_way way,
                                   const struct op_matmul *op) {
    enum { ENOUGH_RUNS = 3 };
    static const double enough_seconds = 1;
    double seconds[MOST_RUNS], all = 0;
    int threads = bench_device_options(&bench->config).threads;
    int64_t count = 0;
    openblas_set_num_threads(way == BLAS_F32 ? threads : 1);
    for (int64_t run = 0; run <= bench->steps && (count < ENOUGH_RUNS || all < enough_seconds); run++) {
        double start = seconds_now(threads);
        if (way == BLAS_F32)
            run_blas(op);
        else
            op_matmul(device, op);
        double each = seconds_now(threads) - start;
        if (run == 0)
            continue;
        seconds[count++] = each;
        all += each;
    }
    openblas_set_num_threads(1);
    qsort(seconds, (size_t)count, sizeof seconds[0], compare_seconds);
    return (struct floor_time){.median = seconds[count / 2], .fastest = seconds[0]};
}

static int time_matmul(const struct floor_bench *bench, struct device *device, const struct model_matmul *matmul,
                       struct floor_time times[WAYS]) {
    // OpenBLAS's threads look for more work for some 30 ms, which would disturb ours.
    static const double idle_seconds = 0.05;
    int status = 0;
    for (int way = 0; way < WAYS && status == 0; way++) {
        enum dtype dtype = way == OPS_BF16 ? DTYPE_BF16 : DTYPE_F32;
        struct bench_matmul trial = {.m = matmul->m,
                                     .n = matmul->n,
                                     .k = matmul->k,
                                     .transpose_a = matmul_transposes_a(matmul->pass),
                                     .transpose_b = matmul_transposes_b(matmul->pass),
                                     .factors = dtype,
                                     .result = matmul->pass == PASS_WEIGHT_GRADIENT ? DTYPE_F32 : dtype};
        status = bench_matmul_open(&trial, device);
        if (status == 0)
            times[way] = time_runs(bench, device, (enum floor_way)way, &trial.op);
        bench_matmul_close(&trial, device);
        if (way == BLAS_F32)
            clock_sleep(idle_seconds);
    }
    return status;
}

static void print_row(const char *layer, const char *pass, double flops, const struct floor_time times[WAYS]) {
    double blas = times[BLAS_F32].median, single = times[OPS_F32].median, half = times[OPS_BF16].median;
    printf("%-10s %-16s %8.1f %10.2f %10.2f %10.2f %7.3f %7.3f\n", layer, pass, flops * 1e-9, blas * 1e3, single * 1e3,
           half * 1e3, single / blas, single / half);
}

static int run_all(const struct floor_bench *bench, struct device *device) {
    struct model_matmul list[MOST_MATMULS];
    int count = bench_model_matmuls(&bench->config, list);
    struct floor_time total[WAYS] = {{0}};
    double flops = 0, tokens = (double)(bench->config.run.micro_batch_size * bench->config.run.seq_length);
    printf("%-10s %-16s %8s %10s %10s %10s %7s %7s\n", "layer", "pass", "GFLOP", "blas ms", "fp32 ms", "bf16 ms",
           "/ blas", "/ bf16");
    for (int i = 0; i < count; i++) {
        struct floor_time times[WAYS] = {{0}};
        double repeats = (double)list[i].times;
        double work = 2 * (double)list[i].m * (double)list[i].n * (double)list[i].k * repeats;
        TRY(time_matmul(bench, device, &list[i], times));
        for (int way = 0; way < WAYS; way++) {
            times[way] = (struct floor_time){repeats * times[way].median, repeats * times[way].fastest};
            total[way].median += times[way].median;
            total[way].fastest += times[way].fastest;
        }
        flops += work;
        print_row(list[i].layer, matmul_pass_name(list[i].pass), work, times);
    }
    print_row("all", "", flops, total);
    for (int way = 0; way < WAYS; way++)
        printf("{\"name\": \"matmuls %s\", \"median_s\": %.4f, \"min_s\": %.4f, \"tokens_per_second\": %.1f}\n",
               way_names[way], total[way].median, total[way].fastest, tokens / total[way].median);
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
        {.rows = {.flags = own_flags, .count = sizeof own_flags / sizeof own_flags[0]},
         .given = offsetof(struct floor_bench, given)},
        bench_model_flags(offsetof(struct floor_bench, config)),
    };
    const struct flag_command command = {.name = "bench_floor",
                                         .summary =
                                             "Times a training step's matmuls in OpenBLAS and in our own kernels.",
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
