// layer: step
// Full training steps of a GPT, Llama or BERT (forward, backward, clipping, Adam) on random tokens, queued one after
// the other as the trainer does: mean time of a step, the median from one result to the next, tokens per second by the
// mean, and peak memory, as one line of JSON. Without flags: GPT-2 124M, 4 sequences of 256 tokens, fp32, 2 threads.
// Flags are those of train. bench/bench_step_peers.py runs it beside PyTorch.
#include "base/clock.h"
#include "base/error.h"
#include "base/memory.h"
#include "base/rng.h"
#include "energy.h"
#include "floor.h"
#include "step/step.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

struct bench {
    struct flag_given given;
    int64_t steps, pairs;
    bool floor, parts, quick_weights, energy;
    char *algorithm_cache;
    double tflops, gigabytes;
    struct config config;
};

static const struct flag own_flags[] = {
    {.name = "Benchmark", .type = FLAG_GROUP},
    {.name = "--steps",
     .type = FLAG_INT,
     .offset = offsetof(struct bench, steps),
     .initial = "5",
     .minimum = 1,
     .maximum = 1000,
     .help = "timed steps after four that warm up"},
    {.name = "--floor",
     .type = FLAG_BOOL,
     .offset = offsetof(struct bench, floor),
     .help = "times the step's matrix products alone, in OpenBLAS with its own threads"},
    {.name = "--parts",
     .type = FLAG_BOOL,
     .offset = offsetof(struct bench, parts),
     .help = "prints the time of one more step by kind of operation, on a GPU"},
    {.name = "--pairs",
     .type = FLAG_INT,
     .offset = offsetof(struct bench, pairs),
     .initial = "0",
     .maximum = 100,
     .help = "times the steps this many times more in turn as recordings and call by call, on a GPU"},
    {.name = "--energy",
     .type = FLAG_BOOL,
     .offset = offsetof(struct bench, energy),
     .help = "prints joules a token and watts as well, if the machine's first NVIDIA GPU has a counter"},
    {.name = "--quick-weights",
     .type = FLAG_BOOL,
     .offset = offsetof(struct bench, quick_weights),
     .help = "the same few random weights over and over, where drawing billions would take long"},
    {.name = "--algorithm-cache",
     .type = FLAG_STRING,
     .offset = offsetof(struct bench, algorithm_cache),
     .help = "file of matrix product algorithms, on a GPU"},
    {.name = "--peak-tflops",
     .type = FLAG_DOUBLE,
     .offset = offsetof(struct bench, tflops),
     .initial = "780",
     .minimum = 1,
     .maximum = 1e9,
     .help = "with --parts: what the GPU's products reach at best"},
    {.name = "--peak-gigabytes",
     .type = FLAG_DOUBLE,
     .offset = offsetof(struct bench, gigabytes),
     .initial = "4200",
     .minimum = 1,
     .maximum = 1e9,
     .help = "with --parts: what its memory moves in a second at best"},
};

struct tokens {
    int64_t B, T, next;
    int32_t *tokens, *labels, *positions;
    float *mask;
    int64_t *samples;
};

static int next_input(void *context, struct step_input *input) {
    struct tokens *t = context;
    for (int64_t b = 0; b < t->B; b++)
        t->samples[b] = t->next++;
    *input = (struct step_input){.B = t->B,
                                 .T = t->T,
                                 .tokens = t->tokens,
                                 .labels = t->labels,
                                 .positions = t->positions,
                                 .mask = t->mask,
                                 .samples = t->samples};
    return 0;
}

static struct tokens make_tokens(const struct config *config) {
    struct tokens t = {.B = config->micro_batch_size, .T = config->seq_length};
    size_t N = (size_t)(t.B * t.T);
    t.tokens = memory_alloc(sizeof(int32_t) * N);
    t.labels = memory_alloc(sizeof(int32_t) * N);
    t.positions = memory_alloc(sizeof(int32_t) * N);
    t.mask = memory_alloc(sizeof(float) * N);
    t.samples = memory_alloc(sizeof(int64_t) * (size_t)t.B);
    for (size_t n = 0; n < N; n++) {
        struct philox random = philox4x32(1, (uint32_t)n, 0, 0, 0);
        t.tokens[n] = (int32_t)(random.word[0] % (uint32_t)config->padded_vocab_size);
        t.labels[n] = (int32_t)(random.word[1] % (uint32_t)config->padded_vocab_size);
        t.positions[n] = (int32_t)(n % (size_t)t.T);
        t.mask[n] = config_form(config) != CONFIG_BERT || n % 20 < 3;  // 15 % of a masked model's tokens count
    }
    return t;
}

static int compare(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static void print_floor(const struct bench *bench) {
    const struct config *config = &bench->config;
    int64_t N = config->micro_batch_size * config->seq_length;
    struct products_shape shape = {.L = config->num_layers,
                                   .C = config->hidden_size,
                                   .V = config->padded_vocab_size,
                                   .N = N,
                                   .q = config->num_attention_heads * config->kv_channels,
                                   .kv = config_query_groups(config) * config->kv_channels,
                                   .F = config->ffn_hidden_size,
                                   .gated = config_is_gated(config),
                                   .transform = config_form(config) == CONFIG_BERT};
    double seconds = gpt_products_seconds(&shape, (int)config->threads, (int)bench->steps);
    printf("{\"name\": \"products in OpenBLAS\", \"median_s\": %.4f, \"min_s\": %.4f, \"tokens_per_second\": %.1f}\n",
           seconds, seconds, (double)N / seconds);
}

// Repeats a few random numbers over all weights but the vectors, which stay as they are drawn.
static void set_quick_weights(struct step *step) {
    enum { PIECE = 1 << 22 };
    float *piece = memory_alloc(sizeof *piece * PIECE);
    float *plain[] = {memory_alloc(sizeof *piece * PIECE), memory_alloc(sizeof *piece * PIECE)};  // zeros, ones
    philox_normal(piece, PIECE, 0, 1, 1, 0.02);
    for (int64_t n = 0; n < PIECE; n++)
        plain[1][n] = 1;
    struct tensor whole = step_weights_target(step);
    adam_reset(&step->adam, step->device);
    for (int i = 0; i < step->params.count; i++) {
        const struct param *param = step->params.items[i];
        struct tensor target = tensor_flat(param_in(param, whole));
        const float *from = param->init == INIT_NORMAL ? piece : plain[param->init == INIT_ONE];
        for (int64_t first = 0, count; first < tensor_count(target); first += count) {
            count = tensor_count(target) - first < PIECE ? tensor_count(target) - first : PIECE;
            device_copy_in(step->device, tensor_rows(target, first, count), from);
            device_synchronize(step->device);
        }
    }
    step_accept_weights(step);
    free(piece);
    free(plain[0]);
    free(plain[1]);
}

// One more step, with the time of each kind of operation beside the least it could take.
static int print_parts(const struct bench *bench, struct step *step, const struct step_source *source) {
    enum { MOST_ROWS = 100 };
    struct profile_row rows[MOST_ROWS];
    device_profile_start(step->device);
    TRY(step_train(step, source, 1e-4, 0.1));
    int count = device_profile_stop(step->device, rows, MOST_ROWS);
    double seconds = 0, least = 0;
    printf("%-44s %6s %9s %8s %9s %9s\n", "part", "calls", "ms", "TFLOP/s", "GB/s", "least ms");
    for (int i = 0; i < count; i++) {
        double by_flops = rows[i].flops / (bench->tflops * 1e12), by_bytes = rows[i].bytes / (bench->gigabytes * 1e9);
        double floor = by_flops > by_bytes ? by_flops : by_bytes;
        printf("%-44s %6lld %9.3f %8.0f %9.0f %9.3f\n", rows[i].name, (long long)rows[i].calls, rows[i].seconds * 1e3,
               rows[i].flops / rows[i].seconds / 1e12, rows[i].bytes / rows[i].seconds / 1e9, floor * 1e3);
        seconds += rows[i].seconds;
        least += floor;
    }
    printf("%-44s %6s %9.3f %8s %9s %9.3f\n", "all", "", seconds * 1e3, "", "", least * 1e3);
    return 0;
}

struct times {
    double first, mean, loss;
    double *between;              // (steps) from one result to the next, sorted
    const struct energy *energy;  // NULL if it is not measured
    double joules;                // of all timed steps
};

// Steps that warm up, until passes are recorded where the device does that; then `steps` that are queued ahead as the
// trainer does.
static int time_steps(struct step *step, const struct step_source *source, int64_t steps, struct times *times) {
    enum { WARMING = 4 };
    double start = clock_seconds(), last;
    for (int i = 0; i < WARMING; i++) {
        TRY(step_train(step, source, 1e-4, 0.1));
        (void)step_result(step);
        times->first = i == 0 ? clock_seconds() - start : times->first;
    }
    double joules = times->energy ? energy_joules(times->energy) : 0;
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
    times->joules = times->energy ? energy_joules(times->energy) - joules : 0;
    qsort(times->between, (size_t)steps, sizeof *times->between, compare);
    return 0;
}

// The same steps as recordings and call by call, in turn, so that both meet the GPU as warm as the other.
static int print_pairs(struct bench *bench, struct step *step, const struct step_source *source) {
    struct times times = {.between = memory_alloc(sizeof(double) * (size_t)bench->steps)};
    int status = 0;
    for (int64_t i = 0; i < 2 * bench->pairs && status == 0; i++) {
        bench->config.no_cuda_graph = i % 2 == 1;
        status = time_steps(step, source, bench->steps, &times);
        printf("%s: mean %.3f ms, median %.3f ms a step\n", i % 2 == 1 ? "call by call" : "recorded", times.mean * 1e3,
               times.between[bench->steps / 2] * 1e3);
    }
    free(times.between);
    return status;
}

static void print_times(const struct bench *bench, const struct step *step, const struct times *times, double tokens) {
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    printf("{\"name\": \"bevatron\", \"step_s\": %.5f, \"median_s\": %.5f, "
           "\"tokens_per_second\": %.1f, \"peak_rss_mb\": %.0f, \"device_gb\": %.2f, \"first_step_s\": %.2f, "
           "\"loss\": %.5f",
           times->mean, times->between[bench->steps / 2], tokens / times->mean, (double)usage.ru_maxrss / 1024,
           (double)step->memory.total / 1e9, times->first, times->loss);
    if (times->energy)
        printf(", \"joules_per_token\": %.6f, \"watts\": %.0f", times->joules / (tokens * (double)bench->steps),
               times->joules / (times->mean * (double)bench->steps));
    printf("}\n");
}

static int run(struct bench *bench) {
    struct config *config = &bench->config;
    struct device *device;
    struct world *world;
    struct mesh mesh;
    struct step *step;
    TRY(config_apply_preset(config));
    TRY(config_validate_for(config, 1, CONFIG_EVALUATE));
    TRY(config_pad_vocab(config, config->vocab_size));
    if (bench->floor) {
        print_floor(bench);
        return 0;
    }
    TRY(device_open(&device, &(struct device_options){.name = config->device,
                                                      .threads = (int)config->threads,
                                                      .cpu_kernels = config->cpu_kernels,
                                                      .algorithm_cache = bench->algorithm_cache}));
    TRY(world_open(&world, &(struct world_options){.backend = "self"}, device));
    TRY(mesh_place(&mesh, 0, 1, 1, 1, 1));
    TRY(mesh_connect(&mesh, world));
    TRY(step_open(&step, config, device, &mesh, STEP_TRAIN));
    if (bench->quick_weights)
        set_quick_weights(step);
    else
        step_initialize(step);
    struct tokens tokens = make_tokens(config);
    struct step_source source = {.next = next_input, .context = &tokens, .count = 1};
    struct energy energy;
    struct times times = {.between = memory_alloc(sizeof(double) * (size_t)bench->steps)};
    // A machine without a counter still has times.
    if (bench->energy && energy_open(&energy) < 0)
        (void)fprintf(stderr, "bench_step: %s\n", error_message());
    else if (bench->energy)
        times.energy = &energy;
    TRY(time_steps(step, &source, bench->steps, &times));
    print_times(bench, step, &times, (double)(tokens.B * tokens.T));
    TRY(print_pairs(bench, step, &source));
    if (bench->parts)
        TRY(print_parts(bench, step, &source));
    step_close(step);
    world_close(world);
    device_close(device);
    free(times.between);
    free(tokens.tokens);
    free(tokens.labels);
    free(tokens.positions);
    free(tokens.mask);
    free(tokens.samples);
    return 0;
}

int main(int argc, char **argv) {
    const struct flag_table tables[] = {
        {.flags = own_flags, .count = sizeof own_flags / sizeof own_flags[0], .given = offsetof(struct bench, given)},
        config_flag_table(offsetof(struct bench, config)),
    };
    const struct flag_command command = {
        .name = "bench_step", .summary = "Times one training step.", .tables = tables, .table_count = 2};
    // Of a flag given twice the last one counts, so the user's come after these.
    char *defaults[] = {"bench_step",  "--preset=gpt2-124m", "--micro-batch-size=4",  "--seq-length=256",
                        "--threads=2", "--hidden-dropout=0", "--attention-dropout=0", "--vocab-size=50257",
                        "--device=cpu"};
    int default_count = sizeof defaults / sizeof defaults[0];
    char **all = memory_alloc(sizeof *all * (size_t)(default_count + argc));
    memcpy(all, defaults, sizeof defaults);
    memcpy(all + default_count, argv + 1, sizeof *argv * (size_t)(argc - 1));
    struct bench bench;
    int status = flags_parse(&command, &bench, default_count + argc - 1, all);
    if (status == 0)
        status = run(&bench);
    if (status < 0)
        fprintf(stderr, "bench_step: %s\n", error_message());
    flags_free(&command, &bench);
    free(all);
    return status < 0;
}
