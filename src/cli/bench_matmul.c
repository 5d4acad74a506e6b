// bevatron bench matmul: time and TFLOP/s of matrix products in every dtype that the device multiplies: of one shape,
// or of all linear layers of a model's training step. On a GPU the algorithm that was found to be the fastest stands
// beside the first of cuBLASLt's list, which a device that may not choose by timing takes.
#include "base/error.h"
#include "cli/bench.h"
#include "cli/bench_model.h"
#include "cli/bench_time.h"
#include "cli/commands.h"

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

#define OFFSET(member) offsetof(struct matmul_options, member)
#define COUNT(flag, member, start, least, most, text)                                                                  \
    {                                                                                                                  \
        .name = flag, .type = FLAG_INT, .offset = OFFSET(member), .initial = start, .minimum = least, .maximum = most, \
        .help = text                                                                                                   \
    }

static const char *const dtype_names[] = {"all", "fp32", "tf32", "bf16", "fp16", "fp8", NULL};
static const char *const pass_names[] = {"forward", "input-gradient", "weight-gradient", NULL};

static const struct flag own_flags[] = {
    {.name = "Benchmark", .type = FLAG_GROUP},
    COUNT("--m", m, "0", 0, 0x1p24, "rows of the result; with --n and --k one product is timed, else a model's"),
    COUNT("--n", n, "0", 0, 0x1p24, "columns of the result"),
    COUNT("--k", k, "0", 0, 0x1p24, "what is summed over"),
    {.name = "--pass",
     .type = FLAG_CHOICE,
     .offset = OFFSET(pass),
     .choices = pass_names,
     .initial = "forward",
     .help = "with --m, --n and --k: how the factors lie in memory, as in this pass of a linear layer. forward: a "
             "(m, k), b (n, k); input-gradient: b (k, n); weight-gradient: a (k, m), b (k, n), the result in fp32"},
    {.name = "--dtype",
     .type = FLAG_CHOICE,
     .offset = OFFSET(dtype),
     .choices = dtype_names,
     .initial = "all",
     .help = "of the factors; all: every one that the device multiplies"},
    COUNT("--rounds", rounds, "5", 1, 1000, "the best of so many counts"),
    {.name = "--algorithm-cache",
     .type = FLAG_STRING,
     .offset = OFFSET(algorithm_cache),
     .value_name = "FILE",
     .help = "file of matrix product algorithms, on a GPU; without it they are chosen anew and not kept"},
    {.name = "--json",
     .type = FLAG_BOOL,
     .offset = OFFSET(json),
     .help = "one JSON object per line instead of a table"},
};

// A device in one dtype, and beside it, on a GPU, one that takes the first algorithm of the list.
struct bench_devices {
    struct device *chosen, *first;
    enum bench_dtype dtype;
};

struct result {
    double seconds, first_seconds;  // first: 0 if there is no list
};

static int measure(const struct bench_devices *devices, const struct product *product, int rounds,
                   struct result *result) {
    enum dtype factors = bench_dtype_factors(devices->dtype);
    struct bench_product trial = {.m = product->m,
                                  .n = product->n,
                                  .k = product->k,
                                  .transpose_a = product_transposes_a(product->pass),
                                  .transpose_b = product_transposes_b(product->pass),
                                  .factors = factors,
                                  .result = product->pass == PASS_WEIGHT_GRADIENT ? DTYPE_F32
                                            : dtype_is_float8(factors)            ? DTYPE_BF16
                                                                                  : factors};
    int status = bench_product_open(&trial, devices->chosen);
    if (status == 0)
        result->seconds = bench_product_seconds(devices->chosen, &trial, rounds);
    if (status == 0 && devices->first)
        result->first_seconds = bench_product_seconds(devices->first, &trial, rounds);
    bench_product_close(&trial, devices->chosen);
    return status;
}

static double product_flops(const struct product *product) {
    return 2 * (double)product->m * (double)product->n * (double)product->k;
}

static void print_header(const struct device *device, enum bench_dtype dtype) {
    char text[256];
    device_describe(device, text, sizeof text);
    printf("# %s, %s\n%-12s %-16s %9s %9s %9s %6s %10s %10s %10s %7s\n", bench_dtype_name(dtype), text, "layer",
           "product", "m", "n", "k", "times", "ms", "TFLOP/s", "first ms", "/ first");
}

static void print_result(const struct matmul_options *options, enum bench_dtype dtype, const struct product *product,
                         const struct result *result) {
    const char *pass = product_pass_name(product->pass);
    double rate = product_flops(product) / result->seconds * 1e-12;
    if (options->json) {
        printf("{\"layer\": \"%s\", \"product\": \"%s\", \"m\": %" PRId64 ", \"n\": %" PRId64 ", \"k\": %" PRId64
               ", \"times\": %" PRId64 ", \"dtype\": \"%s\", \"ms\": %.6f, \"tflops\": %.4f",
               product->layer, pass, product->m, product->n, product->k, product->times, bench_dtype_name(dtype),
               result->seconds * 1e3, rate);
        if (result->first_seconds > 0)
            printf(", \"first_ms\": %.6f", result->first_seconds * 1e3);
        printf("}\n");
    } else {
        printf("%-12s %-16s %9" PRId64 " %9" PRId64 " %9" PRId64 " %6" PRId64 " %10.4f %10.3f", product->layer, pass,
               product->m, product->n, product->k, product->times, result->seconds * 1e3, rate);
        if (result->first_seconds > 0)
            printf(" %10.4f %7.3f", result->first_seconds * 1e3, result->seconds / result->first_seconds);
        printf("\n");
    }
    (void)fflush(stdout);
}

// In 8 bits sizes are whole pieces of 16 numbers.
static bool has_sizes(const struct product *product, enum bench_dtype dtype) {
    return dtype != BENCH_FP8 || (product->m % 16 == 0 && product->n % 16 == 0 && product->k % 16 == 0);
}

static int run_products(const struct matmul_options *options, const struct bench_devices *devices,
                        const struct product *list, int count) {
    double seconds = 0, first = 0, flops = 0;
    bool is_asked = strcmp(options->dtype, "all") != 0;
    if (!options->json)
        print_header(devices->chosen, devices->dtype);
    for (int i = 0; i < count; i++) {
        struct result result = {0};
        if (!has_sizes(&list[i], devices->dtype) && is_asked)
            return error_set_code(EXIT_CODE_USAGE,
                                  "in 8 bits m, n and k are multiples of 16, and %s is %" PRId64 " x %" PRId64
                                  " x %" PRId64,
                                  list[i].layer, list[i].m, list[i].n, list[i].k);
        if (!has_sizes(&list[i], devices->dtype))
            continue;
        TRY(measure(devices, &list[i], (int)options->rounds, &result));
        print_result(options, devices->dtype, &list[i], &result);
        seconds += (double)list[i].times * result.seconds;
        first += (double)list[i].times * result.first_seconds;
        flops += (double)list[i].times * product_flops(&list[i]);
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
    if (!device_times_algorithms(options->config.device) || device.is_deterministic)
        return 0;
    device.is_deterministic = true;
    device.algorithm_cache = NULL;
    return device_open(&devices->first, &device);
}

static int find_products(struct matmul_options *options, struct product *list, int *count) {
    int given = (options->m > 0) + (options->n > 0) + (options->k > 0);
    if (given != 0 && given != 3)
        return error_set_code(EXIT_CODE_USAGE, "a product has three sizes; give all of --m, --n and --k, or none");
    if (given == 0) {
        TRY(bench_model_complete(&options->config));
        *count = bench_model_products(&options->config, list);
        return 0;
    }
    list[0] = (struct product){.layer = "given", .m = options->m, .n = options->n, .k = options->k, .times = 1};
    for (int pass = 0; pass < PASS_COUNT; pass++)
        if (strcmp(options->pass, pass_names[pass]) == 0)
            list[0].pass = (enum product_pass)pass;
    *count = 1;
    return 0;
}

static int run(void *context) {
    struct matmul_options *options = context;
    struct product list[MOST_PRODUCTS];
    int count = 0, status = 0;
    TRY(find_products(options, list, &count));
    for (int dtype = 0; dtype < BENCH_DTYPES && status == 0; dtype++) {
        bool is_all = strcmp(options->dtype, "all") == 0;
        if (!is_all && strcmp(options->dtype, bench_dtype_name((enum bench_dtype)dtype)) != 0)
            continue;
        struct bench_devices devices = {.dtype = (enum bench_dtype)dtype};
        status = open_devices(options, &devices);
        bool is_in = status == 0 && bench_dtype_is_in(devices.chosen, devices.dtype);
        if (is_in)
            status = run_products(options, &devices, list, count);
        else if (status == 0 && !is_all)
            status = error_set("this device does not multiply in %s; leave --dtype out for those that it has",
                               options->dtype);
        device_close(devices.first);
        device_close(devices.chosen);
    }
    return status;
}

int bench_matmul(int argc, char **argv) {
    const struct flag_table tables[] = {
        {.flags = own_flags,
         .count = sizeof own_flags / sizeof own_flags[0],
         .given = offsetof(struct matmul_options, given)},
        bench_model_flags(offsetof(struct matmul_options, config)),
    };
    const struct flag_command command = {
        .name = "bench matmul",
        .summary =
            "Times matrix products of random numbers: one of --m, --n and --k, or those of the linear layers of "
            "a training step of the model that train's flags describe (GPT-2 124M with 4 sequences of 256 tokens "
            "without any). On a GPU the fastest algorithm stands beside the first of cuBLASLt's list.",
        .tables = tables,
        .table_count = 2,
        .epilogue =
            "Examples:\n  bevatron bench matmul --m 8192 --n 8192 --k 8192\n  bevatron bench matmul --dtype bf16 "
            "--preset llama-7b --micro-batch-size 1 --seq-length 4096\n"};
    struct matmul_options options;
    return command_run(&(struct command_call){.flags = &command, .options = &options, .run = run}, argc, argv);
}
