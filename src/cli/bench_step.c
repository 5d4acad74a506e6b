// bevatron bench step: full training steps (forward, backward, clipping, Adam) on random tokens, queued one after the
// other as the trainer does: mean time of a step, the median time between results, tokens per second by the mean, and
// peak memory, as one line of JSON; with --parts also the time of each kind of operation and its lower bound.
#include "base/clock.h"
#include "base/error.h"
#include "base/json.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/number.h"
#include "base/rng.h"
#include "cli/bench_time.h"
#include "cli/commands.h"
#include "config/flag_rows.h"
#include "ops/sensors.h"
#include "plan/setup.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

struct bench_step_options {
    struct flag_given given;
    int64_t steps, pairs;
    bool parts, quick_weights, energy;
    char *algorithm_cache;
    double tflops, tflops_fp8, gigabytes;
    struct config config;
};

#define FLAG_STRUCT struct bench_step_options

static const struct flag own_flags[] = {
    GROUP("Benchmark"),
    INT("--steps", steps, "5", 1, 1000, "timed steps, after four warmup steps"),
    SWITCH("--parts", parts, "print the time of a step by kind of operation, beside the lower bound"),
    REAL("--peak-tflops", tflops, "0", 0, 1e9, "with --parts: peak matmul TFLOP/s; 0 to measure it"),
    REAL("--peak-tflops-fp8", tflops_fp8, "0", 0, 1e9, "with --parts: peak fp8 matmul TFLOP/s; 0 to measure it"),
    REAL("--peak-gigabytes", gigabytes, "0", 0, 1e9, "with --parts: peak memory bandwidth in GB/s; 0 to measure it"),
    INT("--pairs", pairs, "0", 0, 100, "GPU: time this many more pairs of runs, with and without CUDA graphs"),
    SWITCH("--energy", energy, "also print joules per token and watts, if the GPU has a counter"),
    SWITCH("--quick-weights", quick_weights,
           "repeat a few random weights, to start faster with billions of parameters"),
    TEXT("--algorithm-cache", algorithm_cache, NULL, "FILE",
         "GPU: file that caches matmul algorithms; default: choose them again each time"),
};

struct tokens {
    int64_t B, T, S, next;  // S: of T5's decoder, else 0
    int32_t *tokens, *labels, *decoder_tokens, *context_tokens;
    float *mask;
    int64_t *samples;
};

static int next_input(void *context, struct batch *input) {
    struct tokens *t = context;
    for (int64_t b = 0; b < t->B; b++)
        t->samples[b] = t->next++;
    *input = (struct batch){.B = t->B,
                            .T = t->T,
                            .S = t->S,
                            .tokens = t->tokens,
                            .labels = t->labels,
                            .loss_mask = t->mask,
                            .decoder_tokens = t->decoder_tokens,
                            .context_tokens = t->context_tokens,
                            .samples = t->samples};
    return 0;
}

// `word` of the four numbers of each place.
static int32_t *draw_tokens(int64_t count, int word, int64_t vocabulary) {
    int32_t *tokens = memory_alloc(sizeof *tokens * (size_t)count);
    for (int64_t n = 0; n < count; n++)
        tokens[n] = (int32_t)(philox4x32(1, (uint32_t)n, 0, 0, 0).word[word] % (uint32_t)vocabulary);
    return tokens;
}

static struct tokens make_tokens(const struct config *config) {
    enum config_form form = config->model.form;
    int64_t B = config->run.micro_batch_size, T = config->run.seq_length,
            S = form == CONFIG_T5 ? config->run.decoder_seq_length : 0;
    int64_t V = config->model.padded_vocab_size, counted = form == CONFIG_ICT ? B : B * (S ? S : T);
    struct tokens t = {.B = B, .T = T, .S = S};
    t.tokens = draw_tokens(B * T, 0, V);
    t.labels = draw_tokens(counted, 1, V);
    t.decoder_tokens = S ? draw_tokens(counted, 2, V) : NULL;
    t.context_tokens = form == CONFIG_ICT ? draw_tokens(B * T, 2, V) : NULL;
    t.mask = memory_alloc(sizeof *t.mask * (size_t)counted);
    t.samples = memory_alloc(sizeof *t.samples * (size_t)B);
    for (int64_t n = 0; n < counted; n++)
        t.mask[n] = form != CONFIG_BERT || n % 20 < 3;  // 15 % of a masked model's tokens count
    return t;
}

static void free_tokens(struct tokens *t) {
    free(t->tokens);
    free(t->labels);
    free(t->decoder_tokens);
    free(t->context_tokens);
    free(t->mask);
    free(t->samples);
}

// Repeats a few random numbers over all weights except vectors, which keep their initial values.
static void set_quick_weights(struct step *step) {
    enum { PIECE = 1 << 22 };
    OWNED float *piece = memory_alloc(sizeof *piece * PIECE);
    float *plain[] = {memory_alloc(sizeof *piece * PIECE), memory_alloc(sizeof *piece * PIECE)};  // zeros, ones
    philox_normal(piece, PIECE, 0, 1, 1, 0.02);
    for (int64_t n = 0; n < PIECE; n++)
        plain[1][n] = 1;
    struct tensor whole = step_weights_target(step);
    step_reset_optimizer(step);
    for (int i = 0; i < step_params(step)->count; i++) {
        const struct param *param = step_params(step)->items[i];
        struct tensor target = tensor_flat(param_in(param, whole));
        const float *from = param->init == INIT_NORMAL ? piece : plain[param->init == INIT_ONE];
        for (int64_t first = 0, count; first < tensor_count(target); first += count) {
            count = tensor_count(target) - first < PIECE ? tensor_count(target) - first : PIECE;
            device_copy_in(step_device(step), tensor_rows(target, first, count), from);
            device_synchronize(step_device(step));
        }
    }
    step_accept_weights(step);
    free(plain[0]);
    free(plain[1]);
}

// A matmul of the step may be faster than the measured ones; then its rate is the device's peak.
static void raise_ceilings(struct ceilings *ceilings, const struct profile_row *rows, int count) {
    for (int i = 0; i < count; i++) {
        double *most = &ceilings->flops[dtype_is_float8(rows[i].dtype) ? DTYPE_E4M3 : rows[i].dtype];
        double reached = rows[i].seconds > 0 ? rows[i].flops / rows[i].seconds : 0;
        *most = reached > *most ? reached : *most;
    }
}

// Units of a table of parts: a GPU's matmuls in TFLOP/s, a CPU's in GFLOP/s, and there also the share of their time
// that the threads work.
struct parts_scale {
    const char *unit;
    double unit_flops;
    int threads;  // 0 on a GPU
};

static void print_part(const struct parts_scale *scale, const struct profile_row *row, double floor) {
    double each = row->seconds > 0 ? row->seconds : 1e-9;
    printf("%-44s %6lld %9.3f %8.0f %9.0f %9.3f", row->name, (long long)row->calls, row->seconds * 1e3,
           row->flops / each / scale->unit_flops, row->bytes / each / 1e9, floor * 1e3);
    if (scale->threads > 0)
        printf(" %5.0f%%", 100 * row->busy_seconds / each / scale->threads);
    printf("\n");
}

static void print_part_rows(const struct parts_scale *scale, const struct ceilings *ceilings,
                            const struct profile_row *rows, int count) {
    struct profile_row all = {.name = "all"};
    double least = 0;
    printf("# at best %.0f GB/s", ceilings->bytes * 1e-9);
    for (int dtype = 0; dtype < DTYPE_COUNT; dtype++)
        if (ceilings->flops[dtype] > 0)
            printf(", %.0f %s in %s", ceilings->flops[dtype] / scale->unit_flops, scale->unit,
                   dtype_name((enum dtype)dtype));
    printf("\n%-44s %6s %9s %8s %9s %9s%s\n", "part", "calls", "ms", scale->unit, "GB/s", "least ms",
           scale->threads > 0 ? "  busy" : "");
    for (int i = 0; i < count; i++) {
        double floor = ceilings_least(ceilings, rows[i].dtype, rows[i].flops, rows[i].bytes);
        print_part(scale, &rows[i], floor);
        all.calls += rows[i].calls;
        all.seconds += rows[i].seconds;
        all.busy_seconds += rows[i].busy_seconds;
        all.flops += rows[i].flops;
        all.bytes += rows[i].bytes;
        least += floor;
    }
    print_part(scale, &all, least);
}

// One more step, with the time of each kind of operation and its lower bound.
static int print_parts(const struct bench_step_options *options, struct ceilings *ceilings, struct step *step,
                       const struct step_source *source) {
    OWNED struct profile_row *rows = memory_alloc(sizeof *rows * PROFILE_MOST_ROWS);
    struct device *device = step_device(step);
    bool is_host = device->ops->is_host_memory;
    struct parts_scale scale = {is_host ? "GFLOP/s" : "TFLOP/s", is_host ? 1e9 : 1e12,
                                is_host ? bench_device_options(&options->config).threads : 0};
    double start = clock_seconds();
    device_profile_start(device);
    int status = step_train(step, source, 1e-4, 0.1);
    int count = device_profile_stop(device, rows, PROFILE_MOST_ROWS);
    double seconds = clock_seconds() - start;
    raise_ceilings(ceilings, rows, count);
    if (status == 0)
        print_part_rows(&scale, ceilings, rows, count);
    // A GPU may not have started its operations when the host has queued them.
    if (status == 0 && is_host)
        printf("%-44s %6s %9.3f\n", "step", "", seconds * 1e3);
    return status;
}

struct times {
    double first, mean, loss;
    double *between;                // (steps) from one result to the next, sorted
    const struct sensors *sensors;  // NULL if energy is not measured
    double joules;                  // of all timed steps
};

// Warm-up steps, until passes are recorded if the device does that; then `steps` queued ahead as in the trainer.
static int time_steps(struct step *step, const struct step_source *source, int64_t steps, struct times *times) {
    enum { WARMING = 4 };
    double start = clock_seconds(), last;
    for (int i = 0; i < WARMING; i++) {
        TRY(step_train(step, source, 1e-4, 0.1));
        (void)step_result(step);
        times->first = i == 0 ? clock_seconds() - start : times->first;
    }
    double before = 0;
    if (times->sensors)
        TRY(sensors_joules(times->sensors, &before));
    start = last = clock_seconds();
    for (int64_t queued = 0, taken = 0; taken < steps;) {
        bool queues = queued < steps && step_pending(step) <= step_lookahead(step);
        if (queues) {
            TRY(step_train(step, source, 1e-4, 0.1));
            queued++;
        }
        if (!queues) {
            times->loss = step_take_result(step).loss;
            times->between[taken++] = clock_seconds() - last;
            last = clock_seconds();
        }
    }
    times->mean = (last - start) / (double)steps;
    if (times->sensors)
        TRY(sensors_joules(times->sensors, &times->joules));
    times->joules -= before;
    qsort(times->between, (size_t)steps, sizeof *times->between, number_compare);
    return 0;
}

// Times steps alternately as recordings and call by call, so that both find the GPU equally warm.
static int print_pairs(struct bench_step_options *options, struct step *step, const struct step_source *source) {
    struct times times = {.between = memory_alloc(sizeof(double) * (size_t)options->steps)};
    int status = 0;
    for (int64_t i = 0; i < 2 * options->pairs && status == 0; i++) {
        step_set_records(step, i % 2 == 0);
        status = time_steps(step, source, options->steps, &times);
        printf("%s: mean %.3f ms, median %.3f ms a step\n", i % 2 == 1 ? "call by call" : "recorded", times.mean * 1e3,
               times.between[options->steps / 2] * 1e3);
    }
    free(times.between);
    return status;
}

// The model and its layout, as flags of train: plan --calibrate plans the same step with them.
static void append_flags(const struct config *config, struct buffer *out) {
    static const char *const others[] = {"--preset", "--device", "--threads", "--cpu-kernels"};
    const struct flag_given *given = &config->given;
    struct json_writer w = {.out = out};
    json_begin_object(&w);
    const struct flag *flag;
    for (size_t i = 0; (flag = flag_at(&given->rows, i)); i++) {
        bool is_told = given->source[i] != FLAG_FROM_DEFAULT && flag->type != FLAG_GROUP;
        for (size_t k = 0; k < sizeof others / sizeof others[0]; k++)
            is_told = is_told && strcmp(flag->name, others[k]) != 0;
        if (!is_told)
            continue;
        OWNED_BY(buffer_free) struct buffer value = {0};
        flag_show(flag, config, &value);
        json_put_string(&w, flag->name + 2, buffer_string(&value));
    }
    json_end_object(&w);
}

static void print_times(const struct bench_step_options *options, const struct step *step, const struct times *times,
                        double tokens) {
    struct rusage usage;
    OWNED_BY(buffer_free) struct buffer flags = {0};
    append_flags(&options->config, &flags);
    getrusage(RUSAGE_SELF, &usage);
    size_t device_bytes =
        step_memory(step)->total + step_memory(step)->device_own + step_device(step)->ops->standing_bytes;
    size_t host_bytes = step_memory(step)->hosted + step_memory(step)->offloaded;
    printf("{\"name\": \"bevatron\", \"step_s\": %.5f, \"median_s\": %.5f, "
           "\"tokens_per_second\": %.1f, \"peak_rss_mb\": %.0f, \"device_gb\": %.2f, \"host_gb\": %.2f, "
           "\"first_step_s\": %.2f, \"flags\": %s, \"loss\": %.5f",
           times->mean, times->between[options->steps / 2], tokens / times->mean, (double)usage.ru_maxrss / 1024,
           (double)device_bytes / 1e9, (double)host_bytes / 1e9, times->first, buffer_string(&flags), times->loss);
    if (times->sensors)
        printf(", \"joules_per_token\": %.6f, \"watts\": %.0f", times->joules / (tokens * (double)options->steps),
               times->joules / (times->mean * (double)options->steps));
    printf("}\n");
    (void)fflush(stdout);
}

static int time_and_print(struct bench_step_options *options, struct step *step, struct ceilings *ceilings) {
    struct tokens tokens = make_tokens(&options->config);
    struct step_source source = {.next = next_input, .context = &tokens, .count = 1};
    struct sensors sensors;
    double joules;
    struct times times = {.between = memory_alloc(sizeof(double) * (size_t)options->steps)};
    // A machine without a counter still has times.
    bool has_energy =
        options->energy && sensors_open(&sensors, step_device(step)) == 0 && sensors_joules(&sensors, &joules) == 0;
    if (has_energy) {
        times.sensors = &sensors;
    } else if (options->energy) {
        log_warn("cannot measure energy: %s", error_message());
        error_clear();
    }
    int status = time_steps(step, &source, options->steps, &times);
    if (status == 0) {
        print_times(options, step, &times, (double)(tokens.B * (tokens.T + tokens.S)));
        status = print_pairs(options, step, &source);
    }
    if (status == 0 && options->parts)
        status = print_parts(options, ceilings, step, &source);
    free(times.between);
    free_tokens(&tokens);
    return status;
}

static int open_and_time(struct bench_step_options *options, struct device *device, struct ceilings *ceilings) {
    struct world *world;
    struct mesh mesh;
    struct step *step = NULL;
    TRY(world_open(&world, &(struct world_options){.backend = "self"}, device));
    int status = mesh_place(&mesh, 0, 1, NULL);
    if (status == 0)
        status = mesh_connect(&mesh, world);
    if (status == 0)
        status = setup_step(&step, &(struct setup){&options->config, device, &mesh, STEP_TRAIN});
    if (status == 0) {
        if (options->quick_weights)
            set_quick_weights(step);
        else
            step_initialize(step);
        status = time_and_print(options, step, ceilings);
        step_close(step);
    }
    world_close(world);
    return status;
}

static int run_steps(void *context) {
    struct bench_step_options *options = context;
    struct config *config = &options->config;
    struct device *device;
    TRY(bench_model_complete(config));
    struct device_options device_options = bench_device_options(config);
    device_options.algorithm_cache = options->algorithm_cache;
    enum dtype dtype = config->run.bf16 ? DTYPE_BF16 : config->run.fp16 ? DTYPE_F16 : DTYPE_F32;
    struct ceilings ceilings = {.bytes = options->gigabytes * 1e9};
    ceilings.flops[dtype] = options->tflops * 1e12;
    ceilings.flops[DTYPE_E4M3] = options->tflops_fp8 * 1e12;
    TRY(device_open(&device, &device_options));
    int status = 0;
    if (config->run.fp8_format && !bench_dtype_is_in(device, BENCH_FP8))
        status = error_set("--fp8-format needs a GPU with fp8 (compute capability 8.9 or later: L4, H100)");
    if (status == 0 && options->pairs && !device_records(device))
        status = error_set_code(EXIT_CODE_USAGE,
                                "--pairs needs a GPU: the CPU has no CUDA graphs; leave it out or give --device cuda");
    // Taken before the step allocates memory.
    if (status == 0 && options->parts)
        status = ceilings_measure(&ceilings, &device_options, dtype, config->run.fp8_format != NULL);
    if (status == 0)
        status = open_and_time(options, device, &ceilings);
    device_close(device);
    return status;
}

const struct command cmd_bench_step = {
    .flags = {.name = "bench step",
              .summary =
                  "Times training steps of one micro-batch of random tokens on one rank, and prints a line of JSON. "
                  "The default model is GPT-2 124M in fp32 with 4 sequences of 256 tokens and no dropout.",
              .epilogue =
                  "Example:\n  bevatron bench step --bf16 --preset gpt2-124m --micro-batch-size 64 --seq-length 1024 "
                  "--parts\n"},
    .tables = {{FLAG_TABLE(own_flags)}},
    .shared = bench_model_flags,
    .shared_at = OFFSET(config),
    .options_bytes = sizeof(struct bench_step_options),
    .run = run_steps,
};
