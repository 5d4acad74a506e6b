// bevatron bench matmul: time and TFLOP/s of matmuls in every dtype that the device has: of one shape, or of all linear
// layers of a model's training step. On a GPU the fastest algorithm is compared with the first of cuBLASLt's list,
// which is used when algorithms may not be timed.
#include "base/error.h"
#include "cli/bench_time.h"
#include "cli/commands.h"
#include "config/flag_rows.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

struct matmul_options {
    struct flag_given given;
    int64_t m, n, k, rounds;
    char *pass, *dtype, *algorithm_cache;
    bool json;
    struct config config;
};

#define FLAG_STRUCT struct matmul_options

static const char *const dtype_names[] = {"all", "fp32", "tf32", "bf16", "fp16", "fp8", NULL};
static const char *const pass_names[] = {"forward", "input-gradient", "weight-gradient", NULL};

static const struct flag own_flags[] = {
    GROUP("Benchmark"),
    INT("--m", m, "0", 0, 0x1p24, "rows of the result; with --n and --k, time one matmul instead of a model's"),
    INT("--n", n, "0", 0, 0x1p24, "columns of the result"),
    INT("--k", k, "0", 0, 0x1p24, "length of the sum"),
    CHOICE("--pass", pass, "forward", pass_names,
           "with --m, --n and --k: memory layout, as in this pass of a linear layer. forward: a (m, k), b (n, k); "
           "input-gradient: b (k, n); weight-gradient: a (k, m), b (k, n), result in fp32"),
    CHOICE("--dtype", dtype, "all", dtype_names, "dtype of the inputs; all: every dtype that the device supports"),
    INT("--rounds", rounds, "5", 1, 1000, "number of timings; the best one counts"),
    TEXT("--algorithm-cache", algorithm_cache, NULL, "FILE",
         "GPU: file that caches matmul algorithms; default: choose them again each time"),
    SWITCH("--json", json, "print one JSON object per line instead of a table"),
};

// A device in one dtype, and on a GPU also one that uses the first algorithm of the list.
struct bench_devices {
    struct device *chosen, *first;
    enum bench_dtype dtype;
};

struct matmul_time {
    double seconds, first_seconds;  // first: 0 if there is no list
};

static int measure(const struct bench_devices *devices, const struct model_matmul *matmul, int rounds,
                   struct matmul_time *result) {
    enum dtype factors = bench_dtype_factors(devices->dtype);
    struct bench_matmul trial = {.m = matmul->m,
                                 .n = matmul->n,
                                 .k = matmul->k,
                                 .transpose_a = matmul_transposes_a(matmul->pass),
                                 .transpose_b = matmul_transposes_b(matmul->pass),
                                 .factors = factors,
                                 .result = matmul->pass == PASS_WEIGHT_GRADIENT ? DTYPE_F32
                                           : dtype_is_float8(factors)           ? DTYPE_BF16
                                                                                : factors};
    int status = bench_matmul_open(&trial, devices->chosen);
    if (status == 0)
        result->seconds = bench_matmul_seconds(devices->chosen, &trial, rounds);
    if (status == 0 && devices->first)
        result->first_seconds = bench_matmul_seconds(devices->first, &trial, rounds);
    bench_matmul_close(&trial, devices->chosen);
    return status;
}

static double matmul_flops(const struct model_matmul *matmul) {
    return 2 * (double)matmul->m * (double)matmul->n * (double)matmul->k;
}

static void print_header(const struct device *device, enum bench_dtype dtype) {
    char text[256];
    device_describe(device, text, sizeof text);
    printf("# %s, %s\n%-12s %-16s %9s %9s %9s %6s %10s %10s %10s %7s\n", bench_dtype_name(dtype), text, "layer", "pass",
           "m", "n", "k", "times", "ms", "TFLOP/s", "first ms", "/ first");
}

static void print_result(const struct matmul_options *options, enum bench_dtype dtype,
                         const struct model_matmul *matmul, const struct matmul_time *result) {
    const char *pass = matmul_pass_name(matmul->pass);
    double rate = matmul_flops(matmul) / result->seconds * 1e-12;
    if (options->json) {
        printf("{\"layer\": \"%s\", \"product\": \"%s\", \"m\": %" PRId64 ", \"n\": %" PRId64 ", \"k\": %" PRId64
               ", \"times\": %" PRId64 ", \"dtype\": \"%s\", \"ms\": %.6f, \"tflops\": %.4f",
               matmul->layer, pass, matmul->m, matmul->n, matmul->k, matmul->times, bench_dtype_name(dtype),
               result->seconds * 1e3, rate);
        if (result->first_seconds > 0)
            printf(", \"first_ms\": %.6f", result->first_seconds * 1e3);
        printf("}\n");
    } else {
        printf("%-12s %-16s %9" PRId64 " %9" PRId64 " %9" PRId64 " %6" PRId64 " %10.4f %10.3f", matmul->layer, pass,
               matmul->m, matmul->n, matmul->k, matmul->times, result->seconds * 1e3, rate);
        if (result->first_seconds > 0)
            printf(" %10.4f %7.3f", result->first_seconds * 1e3, result->seconds / result->first_seconds);
        printf("\n");
    }
    (void)fflush(stdout);
}

// Sizes of fp8 matmuls are multiples of 16.
static bool has_sizes(const struct model_matmul *matmul, enum bench_dtype dtype) {
    return dtype != BENCH_FP8 || (matmul->m % 16 == 0 && matmul->n % 16 == 0 && matmul->k % 16 == 0);
}

static int time_matmuls(const struct matmul_options *options, const struct bench_devices *devices,
                        const struct model_matmul *list, int count) {
    double seconds = 0, first = 0, flops = 0;
    bool is_asked = strcmp(options->dtype, "all") != 0;
    if (!options->json)
        print_header(devices->chosen, devices->dtype);
    for (int i = 0; i < count; i++) {
        struct matmul_time result = {0};
        if (!has_sizes(&list[i], devices->dtype) && is_asked)
            return error_set_code(EXIT_CODE_USAGE,
                                  "in fp8, m, n and k must be multiples of 16, but %s is %" PRId64 " x %" PRId64
                                  " x %" PRId64,
                                  list[i].layer, list[i].m, list[i].n, list[i].k);
        if (!has_sizes(&list[i], devices->dtype))
            continue;
        TRY(measure(devices, &list[i], (int)options->rounds, &result));
        print_result(options, devices->dtype, &list[i], &result);
        seconds += (double)list[i].times * result.seconds;
        first += (double)list[i].times * result.first_seconds;
        flops += (double)list[i].times * matmul_flops(&list[i]);
    }
    if (options->json || count == 1 || seconds == 0)
        return 0;
    printf("%-12s %-16s %9s %9s %9s %6s %10.4f %10.3f", "all", "", "", "", "", "", seconds * 1e3,
           flops / seconds * 1e-12);
    if (first > 0)
        printf(" %10.4f %7.3f", first * 1e3, seconds / first);
    printf("\n");
    return 0;
}

static int open_devices(const struct matmul_options *options, struct bench_devices *devices) {
    struct device_options device = bench_device_options(&options->config);
    device.allows_tf32 = devices->dtype == BENCH_TF32;
    device.algorithm_cache = options->algorithm_cache;
    TRY(device_open(&devices->chosen, &device));
    if (!device_times_algorithms(options->config.machine.device) || device.is_deterministic)
        return 0;
    device.is_deterministic = true;
    device.algorithm_cache = NULL;
    return device_open(&devices->first, &device);
}

static int find_matmuls(struct matmul_options *options, struct model_matmul *list, int *count) {
    int given = (options->m > 0) + (options->n > 0) + (options->k > 0);
    if (given != 0 && given != 3)
        return error_set_code(EXIT_CODE_USAGE, "a matmul has three sizes; give all of --m, --n and --k, or none");
    if (given == 0) {
        TRY(bench_model_complete(&options->config));
        *count = bench_model_matmuls(&options->config, list);
        return 0;
    }
    list[0] = (struct model_matmul){.layer = "given", .m = options->m, .n = options->n, .k = options->k, .times = 1};
    for (int pass = 0; pass < PASS_COUNT; pass++)
        if (strcmp(options->pass, pass_names[pass]) == 0)
            list[0].pass = (enum matmul_pass)pass;
    *count = 1;
    return 0;
}

static int run_matmuls(void *context) {
    struct matmul_options *options = context;
    struct model_matmul list[MOST_MATMULS];
    int count = 0, status = 0;
    TRY(find_matmuls(options, list, &count));
    for (int dtype = 0; dtype < BENCH_DTYPES && status == 0; dtype++) {
        bool is_all = strcmp(options->dtype, "all") == 0;
        if (!is_all && strcmp(options->dtype, bench_dtype_name((enum bench_dtype)dtype)) != 0)
            continue;
        struct bench_devices devices = {.dtype = (enum bench_dtype)dtype};
        status = open_devices(options, &devices);
        bool is_in = status == 0 && bench_dtype_is_in(devices.chosen, devices.dtype);
        if (is_in)
            status = time_matmuls(options, &devices, list, count);
        else if (status == 0 && !is_all)
            status = error_set("this device does not support %s matmuls; leave out --dtype", options->dtype);
        device_close(devices.first);
        device_close(devices.chosen);
    }
    return status;
}

const struct command cmd_bench_matmul = {
    .flags = {.name = "bench matmul",
              .summary =
                  "Times matmuls of random numbers: one of size --m, --n and --k, or those of a model's training "
                  "step. The model is given by train's flags; the default is GPT-2 124M with 4 sequences of 256 "
                  "tokens. On a GPU, prints the fastest algorithm beside cuBLASLt's first choice.",
              .epilogue =
                  "Examples:\n  bevatron bench matmul --m 8192 --n 8192 --k 8192\n  bevatron bench matmul --dtype bf16 "
                  "--preset llama-7b --micro-batch-size 1 --seq-length 4096\n"},
    .tables = {{FLAG_TABLE(own_flags)}},
    .shared = bench_model_flags,
    .shared_at = OFFSET(config),
    .options_bytes = sizeof(struct matmul_options),
    .run = run_matmuls,
};
