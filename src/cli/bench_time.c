// Times of operations and the ceilings of a device. See bench_time.h.
#include "cli/bench_time.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/memory.h"
#include "base/pool.h"
#include "base/rng.h"
#include "config/flags.h"
#include "model/census.h"
#include "tensor/float8.h"
#include "tensor/half.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

// ---- the model of a benchmark ----

// The timed model, and its matmuls.

struct flag_table bench_model_flags(size_t base) {
    struct flag_table table = config_flag_table(base);
    table.essential = USE_BENCH;
    return table;
}

static int set_default(struct config *config, const char *name, const char *value) {
    struct flag_table table = config_flag_table(0);
    return flag_is_given(&config->given, name) ? 0 : flag_set(&table, config, name, value, FLAG_FROM_COMMAND);
}

int bench_model_complete(struct config *config) {
    static const char *const defaults[][2] = {
        {"--micro-batch-size", "4"}, {"--seq-length", "256"}, {"--hidden-dropout", "0"}, {"--attention-dropout", "0"}};
    bool is_batch_given = flag_is_given(&config->given, "--global-batch-size");
    if (!flag_is_given(&config->given, "--model"))
        TRY(set_default(config, "--preset", "gpt2-124m"));
    for (size_t i = 0; i < sizeof defaults / sizeof defaults[0]; i++)
        TRY(set_default(config, defaults[i][0], defaults[i][1]));
    TRY(config_apply_preset(config));
    if (config->data.vocab_size == 0)
        TRY(set_default(config, "--vocab-size", "50257"));
    if (is_batch_given && config->run.global_batch_size != config->run.micro_batch_size)
        return error_set_code(EXIT_CODE_USAGE,
                              "--global-batch-size %" PRId64 " is not one micro-batch of %" PRId64
                              ", but one micro-batch is timed; leave it out or give --micro-batch-size",
                              config->run.global_batch_size, config->run.micro_batch_size);
    TRY(config_validate_for(config, 1, CONFIG_EVALUATE));
    return config_pad_vocab(config, config->data.vocab_size);
}

struct device_options bench_device_options(const struct config *config) {
    return (struct device_options){.name = config->machine.device,
                                   .threads = config->machine.threads > 0 ? (int)config->machine.threads
                                                                          : pool_available_processors(),
                                   .cpu_kernels = config->machine.cpu_kernels,
                                   .allows_tf32 = config->run.tf32,
                                   .is_deterministic = config->machine.deterministic_mode,
                                   .has_fast_dropout = config->run.fast_attention_dropout};
}

const char *matmul_pass_name(enum matmul_pass pass) {
    static const char *const names[] = {"forward", "input gradient", "weight gradient"};
    return names[pass];
}

// The layers whose matmuls are timed, by the start and a part of their weights' names.
static const struct {
    const char *begins, *has, *layer;
    bool is_encoded;  // its rows are the encoder's tokens, if there are two kinds
} layers[] = {
    {"encoder.layers.", ".self_attention.linear_qkv.weight", "qkv", true},
    {"encoder.layers.", ".self_attention.linear_proj.weight", "proj", true},
    {"encoder.layers.", ".mlp.linear_fc1.weight", "fc1", true},
    {"encoder.layers.", ".mlp.linear_fc2.weight", "fc2", true},
    {"decoder.layers.", ".self_attention.linear_qkv.weight", "qkv", false},
    {"decoder.layers.", ".self_attention.linear_q_down_proj.weight", "q down", false},
    {"decoder.layers.", ".self_attention.linear_q_up_proj.weight", "q up", false},
    {"decoder.layers.", ".self_attention.linear_q_proj.weight", "q", false},
    {"decoder.layers.", ".self_attention.linear_kv_down_proj.weight", "kv down", false},
    {"decoder.layers.", ".self_attention.linear_kv_up_proj.weight", "kv up", false},
    {"decoder.layers.", ".self_attention.linear_proj.weight", "proj", false},
    {"decoder.layers.", ".mlp.linear_fc1.weight", "fc1", false},
    {"decoder.layers.", ".mlp.linear_fc2.weight", "fc2", false},
    {"decoder.layers.", ".cross_attention.linear_q.weight", "cross q", false},
    {"decoder.layers.", ".cross_attention.linear_kv.weight", "cross kv", true},
    {"decoder.layers.", ".cross_attention.linear_proj.weight", "cross proj", false},
    {"embedding.", ".projection.weight", "widen", true},
    {"lm_head.", ".projection.weight", "narrow", false},
    {"lm_head.", ".dense.weight", "transform", false},
    {"embedding.", ".word_embeddings.weight", "head", false},
};

int bench_model_matmuls(const struct config *config, struct model_matmul *list) {
    struct param_list params = {0};
    int count = 0;
    census_declare(config, &params);
    bool has_both = config->model.form == CONFIG_T5, is_ict = config->model.form == CONFIG_ICT;
    for (size_t i = 0; i < sizeof layers / sizeof layers[0]; i++) {
        int64_t times = 0, in = 0, out = 0, T = config->run.seq_length;
        for (int k = 0; k < params.count; k++) {
            const struct param *param = params.items[k];
            const char *name = census_name(param->name);
            if (strncmp(name, layers[i].begins, strlen(layers[i].begins)) != 0 || !strstr(name, layers[i].has) ||
                (is_ict && strcmp(layers[i].begins, "embedding.") == 0))  // it has no head
                continue;
            out = param->shard.global[0];
            in = param->shard.global[1];
            times += is_ict && config->model.biencoder_shared_query_context_model ? 2 : 1;  // it reads two texts
        }
        if (times == 0)
            continue;
        CHECK(count + PASS_COUNT <= MOST_MATMULS);
        int64_t N =
            config->run.micro_batch_size * (has_both && !layers[i].is_encoded ? config->run.decoder_seq_length : T);
        list[count++] = (struct model_matmul){layers[i].layer, PASS_FORWARD, N, out, in, times};
        list[count++] = (struct model_matmul){layers[i].layer, PASS_INPUT_GRADIENT, N, in, out, times};
        list[count++] = (struct model_matmul){layers[i].layer, PASS_WEIGHT_GRADIENT, out, in, N, times};
    }
    param_list_free(&params);
    return count;
}

// ---- time ----

static const double LEAST_SECONDS = 5e-3;  // of a round: waiting for a GPU costs some microseconds
static const double MOST_SECONDS = 1.5;    // of all rounds

static const struct {
    const char *name;
    enum dtype factors;
} kinds[BENCH_DTYPES] = {
    {"fp32", DTYPE_F32}, {"tf32", DTYPE_F32}, {"bf16", DTYPE_BF16}, {"fp16", DTYPE_F16}, {"fp8", DTYPE_E4M3}};

const char *bench_dtype_name(enum bench_dtype dtype) {
    return kinds[dtype].name;
}

enum dtype bench_dtype_factors(enum bench_dtype dtype) {
    return kinds[dtype].factors;
}

bool bench_dtype_is_in(const struct device *device, enum bench_dtype dtype) {
    // A CPU computes in fp8 number by number, only for comparison, and has no TF32.
    bool is_gpus = dtype == BENCH_TF32 || dtype == BENCH_FP8;
    return !(is_gpus && device->ops->is_host_memory) && device_supports(device, kinds[dtype].factors);
}

double bench_seconds(struct device *device, struct bench_call call, int rounds) {
    call.run(device, call.context);
    device_synchronize(device);
    double begun = clock_seconds(), start = begun;
    call.run(device, call.context);
    device_synchronize(device);
    double best = clock_seconds() - start;
    int64_t calls = best < LEAST_SECONDS ? (int64_t)(LEAST_SECONDS / (best > 1e-7 ? best : 1e-7)) + 1 : 1;
    for (int round = 0; round < rounds && clock_seconds() - begun < MOST_SECONDS; round++) {
        start = clock_seconds();
        for (int64_t i = 0; i < calls; i++)
            call.run(device, call.context);
        device_synchronize(device);
        double seconds = (clock_seconds() - start) / (double)calls;
        best = seconds < best ? seconds : best;
    }
    return best;
}

static void run_matmul(struct device *device, const void *context) {
    op_matmul(device, context);
}

double bench_matmul_seconds(struct device *device, const struct bench_matmul *matmul, int rounds) {
    return bench_seconds(device, (struct bench_call){run_matmul, &matmul->op}, rounds);
}

// One number in a dtype, at its place in an array of that dtype.
static void put_number(void *array, int64_t i, enum dtype dtype, float value) {
    if (dtype == DTYPE_F32)
        ((float *)array)[i] = value;
    else if (dtype == DTYPE_BF16)
        ((uint16_t *)array)[i] = half_to_bf16(value);
    else if (dtype == DTYPE_F16)
        ((uint16_t *)array)[i] = half_to_f16(value);
    else
        ((uint8_t *)array)[i] = float8_encode(dtype, value);
}

// Repeats a few random numbers: drawing billions would take long. A matmul's time depends on the power that its numbers
// need, and is the same with repeated ones.
static void fill(struct device *device, struct tensor t) {
    enum { PIECE = 1 << 20 };
    int64_t count = tensor_count(t), piece = count < PIECE ? count : PIECE;
    struct tensor flat = tensor_flat(t);
    OWNED float *numbers = memory_alloc(sizeof *numbers * (size_t)piece);
    OWNED void *array = memory_alloc(dtype_bytes(t.dtype) * (size_t)piece);
    philox_normal(numbers, piece, 0, 1, 1, 1.0);
    for (int64_t i = 0; i < piece; i++)
        put_number(array, i, t.dtype, numbers[i]);
    for (int64_t first = 0; first < count; first += piece)
        device_copy_in(device, tensor_rows(flat, first, count - first < piece ? count - first : piece), array);
    device_synchronize(device);
}

// The range of numbers stored without scaling.
static int open_range(struct bench_matmul *matmul, struct device *device) {
    const float numbers[RANGE_LENGTH] = {
        [RANGE_FACTOR] = 1, [RANGE_SCALE] = 1, [RANGE_LARGEST] = float8_kind(matmul->factors).largest};
    matmul->memory[3] = device_alloc(device, sizeof numbers);
    if (!matmul->memory[3])
        return -1;
    struct tensor range = tensor_1d(matmul->memory[3], DTYPE_F32, RANGE_LENGTH);
    device_copy_in(device, range, numbers);
    device_synchronize(device);
    matmul->op.a_range = matmul->op.b_range = range;
    return 0;
}

int bench_matmul_open(struct bench_matmul *matmul, struct device *device) {
    int64_t m = matmul->m, n = matmul->n, k = matmul->k;
    bool is_float8 = dtype_is_float8(matmul->factors);
    bool ta = matmul->transpose_a && !is_float8, tb = matmul->transpose_b || is_float8;
    struct op_matmul *op = &matmul->op;
    *op = (struct op_matmul){.transpose_a = ta, .transpose_b = tb, .alpha = 1};
    const struct {
        struct tensor *tensor;
        enum dtype dtype;
        int64_t rows, columns;
    } parts[] = {{&op->a, matmul->factors, ta ? k : m, ta ? m : k},
                 {&op->b, matmul->factors, tb ? n : k, tb ? k : n},
                 {&op->d, matmul->result, m, n}};
    for (int i = 0; i < 3; i++) {
        size_t bytes = dtype_bytes(parts[i].dtype) * (size_t)parts[i].rows * (size_t)parts[i].columns;
        matmul->memory[i] = device_alloc(device, bytes);
        if (!matmul->memory[i])
            return -1;
        *parts[i].tensor = tensor_2d(matmul->memory[i], parts[i].dtype, parts[i].rows, parts[i].columns);
        fill(device, *parts[i].tensor);
    }
    return is_float8 ? open_range(matmul, device) : 0;
}

void bench_matmul_close(struct bench_matmul *matmul, struct device *device) {
    for (int i = 0; i < 4; i++) {
        device_free(device, matmul->memory[i]);
        matmul->memory[i] = NULL;
    }
}

// Square matmuls, from small to very large; the best rate of all.
static int measure_flops(struct device *device, enum dtype dtype, double *best) {
    enum { SMALLEST = 512, LARGEST = 8192, ROUNDS = 5 };
    static const double ENOUGH_SECONDS = 0.02;
    double seconds = 0;
    for (int64_t edge = SMALLEST; edge <= LARGEST && seconds < ENOUGH_SECONDS; edge *= 2) {
        struct bench_matmul matmul = {.m = edge,
                                      .n = edge,
                                      .k = edge,
                                      .transpose_b = true,
                                      .factors = dtype,
                                      .result = dtype_is_float8(dtype) ? DTYPE_BF16 : dtype};
        int status = bench_matmul_open(&matmul, device);
        seconds = status == 0 ? bench_matmul_seconds(device, &matmul, ROUNDS) : INFINITY;
        bench_matmul_close(&matmul, device);
        TRY(status);
        double flops = 2 * (double)edge * (double)edge * (double)edge / seconds;
        *best = flops > *best ? flops : *best;
    }
    return 0;
}

struct moves {
    struct tensor to, from, sum;
};

static void move_copy(struct device *device, const void *context) {
    const struct moves *moves = context;
    op_copy(device, &(struct op_copy){.dst = moves->to, .src = moves->from});
}

static void move_sum(struct device *device, const void *context) {
    const struct moves *moves = context;
    op_sum_squares(device, &(struct op_sum_squares){.out = moves->sum, .x = moves->from});
}

static void move_zero(struct device *device, const void *context) {
    const struct moves *moves = context;
    device_zero(device, moves->to);
}

// Some operations read and write, some do only one; which is fastest depends on the memory.
static int measure_bytes(struct device *device, double *best) {
    enum { ROUNDS = 5 };
    static const struct {
        void (*run)(struct device *device, const void *context);
        double passes;
    } ways[] = {{move_copy, 2}, {move_sum, 1}, {move_zero, 1}};
    int64_t count = (int64_t)1 << (device->ops->is_host_memory ? 25 : 28);  // fp32: 128 MiB, 1 GiB
    size_t bytes = sizeof(float) * (size_t)count;
    void *memory[] = {device_alloc(device, bytes), device_alloc(device, bytes), device_alloc(device, sizeof(float))};
    int status = memory[0] && memory[1] && memory[2] ? 0 : -1;
    struct moves moves = {.to = tensor_1d(memory[0], DTYPE_F32, count),
                          .from = tensor_1d(memory[1], DTYPE_F32, count),
                          .sum = tensor_1d(memory[2], DTYPE_F32, 1)};
    if (status == 0) {
        device_zero(device, moves.from);
        device_zero(device, moves.sum);
    }
    for (size_t i = 0; i < sizeof ways / sizeof ways[0] && status == 0; i++) {
        double seconds = bench_seconds(device, (struct bench_call){ways[i].run, &moves}, ROUNDS);
        double rate = ways[i].passes * (double)bytes / seconds;
        *best = rate > *best ? rate : *best;
    }
    for (int i = 0; i < 3; i++)
        device_free(device, memory[i]);
    return status;
}

int ceilings_measure(struct ceilings *ceilings, const struct device_options *options, enum dtype dtype,
                     bool has_float8) {
    // Without a file the algorithms are timed in bursts only; with determinism they would not be timed at all.
    struct device_options own = *options;
    own.algorithm_cache = NULL;
    own.is_deterministic = false;
    struct device *device;
    TRY(device_open(&device, &own));
    int status = ceilings->flops[dtype] > 0 ? 0 : measure_flops(device, dtype, &ceilings->flops[dtype]);
    if (status == 0 && has_float8 && ceilings->flops[DTYPE_E4M3] == 0)
        status = measure_flops(device, DTYPE_E4M3, &ceilings->flops[DTYPE_E4M3]);
    if (status == 0 && ceilings->bytes == 0)
        status = measure_bytes(device, &ceilings->bytes);
    device_close(device);
    return status;
}

double ceilings_least(const struct ceilings *ceilings, enum dtype dtype, double flops, double bytes) {
    double most = ceilings->flops[dtype_is_float8(dtype) ? DTYPE_E4M3 : dtype];
    double by_flops = most > 0 ? flops / most : 0, by_bytes = ceilings->bytes > 0 ? bytes / ceilings->bytes : 0;
    return by_flops > by_bytes ? by_flops : by_bytes;
}
