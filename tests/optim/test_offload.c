// States in host memory beside the same on the device, to the bit: on a device whose streams run in any order that
// events allow, and on a GPU if there is one.
#include "optim/offload.h"

#include "base/memory.h"
#include "base/rng.h"
#include "optim/optimizer.h"
#include "test.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

// ---- a device that puts off what it is given ----

struct task {
    enum { TASK_COPY, TASK_ZERO, TASK_RECORD, TASK_WAIT, TASK_OPERATION } kind;
    void *to;
    const void *from;
    size_t bytes;
    int event;
    int64_t number;  // of the recording that is made or waited for
    void (*operate)(struct device *device, const void *op);
    void *op;
};

enum { MOST_TASKS = 1 << 16, MOST_EVENTS = 512 };

struct lazy {
    struct device device;
    struct ops ops;
    struct device *cpu;
    struct task *tasks[STREAM_COUNT];
    int first[STREAM_COUNT], count[STREAM_COUNT];
    int64_t queued[MOST_EVENTS], done[MOST_EVENTS];  // recordings of every event
    int events;
    uint32_t draws, seed;
};

static struct task *put(struct device *device, enum stream stream) {
    struct lazy *lazy = (struct lazy *)device;
    CHECK(lazy->count[stream] < MOST_TASKS);
    return &lazy->tasks[stream][lazy->count[stream]++];
}

static void put_copy(struct device *device, void *to, const void *from, size_t bytes, enum stream stream) {
    *put(device, stream) = (struct task){.kind = TASK_COPY, .to = to, .from = from, .bytes = bytes};
}

static void lazy_zero(struct device *device, void *memory, size_t bytes, enum stream stream) {
    *put(device, stream) = (struct task){.kind = TASK_ZERO, .to = memory, .bytes = bytes};
}

// Those of an update.
#define UPDATE_OPERATIONS(X)                                                                                           \
    X(adam)                                                                                                            \
    X(momentum)                                                                                                        \
    X(sum_squares)                                                                                                     \
    X(normalize) X(matmul) X(add_diagonal) X(mean_squares) X(adapt) X(clip_scale) X(follow) X(average) X(copy)
#define LAZY_OPERATION(name_)                                                                                          \
    static void operate_##name_(struct device *device, const void *op) {                                               \
        op_##name_(device, op);                                                                                        \
    }                                                                                                                  \
    static void lazy_##name_(struct device *device, const struct op_##name_ *op) {                                     \
        void *copy = memory_alloc(sizeof *op);                                                                         \
        memcpy(copy, op, sizeof *op);                                                                                  \
        *put(device, STREAM_COMPUTE) = (struct task){.kind = TASK_OPERATION, .operate = operate_##name_, .op = copy};  \
    }
UPDATE_OPERATIONS(LAZY_OPERATION)

static struct event *lazy_event_create(struct device *device) {
    struct lazy *lazy = (struct lazy *)device;
    CHECK(lazy->events < MOST_EVENTS);
    return (struct event *)&lazy->queued[lazy->events++];
}

static void lazy_event_free(struct device *device, struct event *event) {
    (void)device, (void)event;
}

static int number_of(struct device *device, struct event *event) {
    return (int)((int64_t *)event - ((struct lazy *)device)->queued);
}

static void lazy_event_record(struct device *device, struct event *event, enum stream stream) {
    struct lazy *lazy = (struct lazy *)device;
    int i = number_of(device, event);
    *put(device, stream) = (struct task){.kind = TASK_RECORD, .event = i, .number = ++lazy->queued[i]};
}

static void lazy_stream_wait(struct device *device, enum stream stream, struct event *event) {
    struct lazy *lazy = (struct lazy *)device;
    int i = number_of(device, event);
    *put(device, stream) = (struct task){.kind = TASK_WAIT, .event = i, .number = lazy->queued[i]};
}

// Does the next task of a stream; false if it has none, or must wait.
static bool do_task(struct lazy *lazy, int stream) {
    if (lazy->first[stream] == lazy->count[stream])
        return false;
    const struct task *task = &lazy->tasks[stream][lazy->first[stream]];
    if (task->kind == TASK_WAIT && lazy->done[task->event] < task->number)
        return false;
    if (task->kind == TASK_COPY)
        memcpy(task->to, task->from, task->bytes);
    if (task->kind == TASK_ZERO)
        memset(task->to, 0, task->bytes);
    if (task->kind == TASK_RECORD)
        lazy->done[task->event] = task->number;
    if (task->kind == TASK_OPERATION)
        task->operate(lazy->cpu, task->op);
    free(task->op);
    lazy->first[stream]++;
    return true;
}

// Streams take turns at random, and one of them is often left behind.
static void lazy_synchronize(struct device *device) {
    struct lazy *lazy = (struct lazy *)device;
    int idle = 0;
    while (idle < 1000) {
        uint32_t draw = philox4x32(lazy->seed, lazy->draws++, 0, 0, 0).word[0];
        int favourite = (int)(lazy->draws / 40 % STREAM_COUNT);
        int stream = draw % 8 < 6 ? favourite : (int)(draw / 8 % STREAM_COUNT);
        idle = do_task(lazy, stream) ? 0 : idle + 1;
    }
    for (int i = 0; i < STREAM_COUNT; i++) {
        EXPECT_INT(lazy->first[i], lazy->count[i]);
        lazy->first[i] = lazy->count[i] = 0;
    }
}

static struct lazy *open_lazy(struct device *cpu, uint32_t seed) {
    struct lazy *lazy = memory_alloc(sizeof *lazy);
    lazy->cpu = cpu;
    lazy->seed = seed;
    lazy->ops = *cpu->ops;
    lazy->ops.copy_in = lazy->ops.copy_out = put_copy;
    lazy->ops.zero = lazy_zero;
    lazy->ops.event_create = lazy_event_create;
    lazy->ops.event_free = lazy_event_free;
    lazy->ops.event_record = lazy_event_record;
    lazy->ops.stream_wait = lazy_stream_wait;
    lazy->ops.synchronize = lazy_synchronize;
#define TAKE_OPERATION(name_) lazy->ops.name_ = lazy_##name_;
    UPDATE_OPERATIONS(TAKE_OPERATION)
    lazy->device.ops = &lazy->ops;
    for (int i = 0; i < STREAM_COUNT; i++)
        lazy->tasks[i] = memory_alloc(sizeof(struct task) * MOST_TASKS);
    return lazy;
}

static void close_lazy(struct lazy *lazy) {
    for (int i = 0; i < STREAM_COUNT; i++)
        free(lazy->tasks[i]);
    free(lazy);
}

// ---- updates on a device ----

struct run_options {
    struct device *device;
    const char *optimizer, *moments;  // the dtype of Adam's
    double decay;                     // of a moving average
    double fraction;                  // of the states in host memory; 0: none
    enum dtype dtype;                 // of the parameters
    int parts, part;
    int64_t piece;
};

enum { MEMORY_BYTES = 1 << 21, UPDATES = 7 };

// Parameters and states after some updates, as bytes.
struct offload_outcome {
    unsigned char bytes[MEMORY_BYTES];
    size_t count;
};

static void keep(struct offload_outcome *outcome, struct device *device, struct tensor tensor) {
    if (!tensor.data)
        return;
    unsigned char *host = device_host_alloc(device, tensor_bytes(tensor));
    device_copy_out(device, host, tensor);
    CHECK(outcome->count + tensor_bytes(tensor) <= sizeof outcome->bytes);
    memcpy(outcome->bytes + outcome->count, host, tensor_bytes(tensor));
    outcome->count += tensor_bytes(tensor);
    device_host_free(device, host);
}

static void fill(struct device *device, struct tensor tensor, const float *values, int64_t count) {
    device_copy_in(device, tensor_rows(tensor, 0, count), values);
    device_synchronize(device);
}

// Matrices of several shapes, the first two of them alike; of queries, keys and values; and of two experts.
static void add_params(struct param_list *params, bool has_matrices) {
    if (has_matrices) {
        (void)param_add(params, "first", shard_whole(2, 64, 128), INIT_ZERO, 0);
        (void)param_add(params, "second", shard_whole(2, 64, 128), INIT_ZERO, 0);
        struct shard packed = shard_whole(2, 128, 48);
        packed.segment_count = 3;
        packed.segments[0] = 64;
        packed.segments[1] = packed.segments[2] = 32;
        (void)param_add(params, "packed", packed, INIT_ZERO, 0);
        (void)param_add(params, "experts", shard_matrices(2, 24, 40), INIT_ZERO, 0);
        (void)param_add(params, "odd", shard_whole(2, 39, 31), INIT_ZERO, 0);
        return;
    }
    (void)param_add(params, "matrix", shard_whole(2, 39, 31), INIT_ZERO, 0);
    (void)param_add(params, "vector", shard_whole(1, 413, 1), INIT_ZERO, 0);
    (void)param_add(params, "other", shard_whole(2, 57, 9), INIT_ZERO, 0);
}

static void set_flags(struct config *config, const struct run_options *options) {
    config_defaults(config);
    free(config->run.optimizer);
    free(config->run.exp_avg_dtype);
    free(config->run.exp_avg_sq_dtype);
    config->run.optimizer = memory_string(options->optimizer);
    config->run.ema_decay = options->decay;
    config->run.exp_avg_dtype = memory_string(options->moments);
    config->run.exp_avg_sq_dtype = memory_string(options->moments);
    config->run.optimizer_offload_fraction = options->fraction;
}

struct memories {
    struct arena device, scratch, host;
};

static void take_memories(struct memories *memories, const struct run_options *options) {
    struct device *device = options->device;
    *memories = (struct memories){0};
    arena_init(&memories->device, "device", device_alloc(device, MEMORY_BYTES), MEMORY_BYTES);
    arena_init(&memories->scratch, "scratch", device_alloc(device, MEMORY_BYTES), MEMORY_BYTES);
    if (options->fraction > 0)
        arena_init(&memories->host, "host", device_hosted_alloc(device, MEMORY_BYTES), MEMORY_BYTES);
}

static void give_memories(struct memories *memories, struct device *device) {
    EXPECT_INT(memories->scratch.used, 0);
    device_free(device, memories->device.base);
    device_free(device, memories->scratch.base);
    device_hosted_free(device, memories->host.base);
}

// The parameters, and the pieces that they are divided into.
static void list_params(struct param_list *params, struct pieces *pieces, const struct run_options *options) {
    bool has_matrices = optimizer_find(options->optimizer)->takes_matrices;
    *params = (struct param_list){0};
    add_params(params, has_matrices);
    pieces_divide(params,
                  &(struct division){.parts = options->parts,
                                     .part = options->part,
                                     .bucket = options->piece > 128 ? 1 << 16 : 640,
                                     .keeps_whole = has_matrices},
                  pieces);
}

static void build(struct optimizer *optimizer, const struct run_options *options, struct memories *memories,
                  const struct config *config, struct param_list *params, const struct pieces *pieces) {
    const struct optimizer_rule *rule = optimizer_find(options->optimizer);
    optimizer_build(optimizer, &memories->device,
                    &(struct optimizer_options){.rule = rule,
                                                .config = config,
                                                .lr_multiplier = 1,
                                                .pieces = *pieces,
                                                .dtype = options->dtype,
                                                .host = memories->host.base ? &memories->host : NULL,
                                                .hosted_piece = options->piece,
                                                .params = params});
    int64_t piece = rule->takes_matrices ? 64 * 128 : options->piece;
    EXPECT(optimizer->hosted_piece == (options->fraction > 0 ? piece : 0));
    optimizer_reset(optimizer, options->device);
}

// Zeros for weights, gradients of many magnitudes, and rates; all of it is on the device when this returns.
static void set_inputs(const struct update *update) {
    struct device *device = update->device;
    int64_t count = update->params->total;
    float *grads = device_host_alloc(device, sizeof(float) * (size_t)count);
    float rate[RATE_LENGTH], scale = 0.5f;
    for (int64_t i = 0; i < count; i++)
        grads[i] = (float)(sin((double)(7 * i)) * exp(-(double)(i % 19)));
    for (int i = 0; i < RATE_LENGTH; i++)
        rate[i] = 0.01f;
    device_zero(device, update->values);
    fill(device, update->grads, grads, count);
    fill(device, update->rate, rate, RATE_LENGTH);
    fill(device, update->scale, &scale, 1);
    device_host_free(device, grads);
}

static void update_states(const struct run_options *options, struct offload_outcome *outcome) {
    struct device *device = options->device;
    struct config config;
    struct memories memories;
    struct param_list params;
    struct pieces pieces;
    struct optimizer optimizer;
    struct mesh mesh;
    set_flags(&config, options);
    list_params(&params, &pieces, options);
    take_memories(&memories, options);
    EXPECT_OK(mesh_place(&mesh, 0, 1, NULL));
    struct update update = {.device = device,
                            .mesh = &mesh,
                            .params = &params,
                            .values = arena_1d(&memories.device, options->dtype, params.total),
                            .grads = arena_1d(&memories.device, DTYPE_F32, params.total),
                            .scale = arena_1d(&memories.device, DTYPE_F32, 1),
                            .rate = arena_1d(&memories.device, DTYPE_F32, RATE_LENGTH),
                            .scratch = &memories.scratch};
    build(&optimizer, options, &memories, &config, &params, &pieces);
    set_inputs(&update);
    if (optimizer.hosted_piece > 0)
        update.offload = offload_open(device, offload_take_slots(&memories.device, optimizer_hosted_bytes(&optimizer)));
    // Several updates are queued before the first is done.
    for (int i = 0; i < UPDATES; i++) {
        offload_begin(update.offload, device);
        optimizer_apply(&optimizer, &update, 0, params.total);
    }
    offload_settle(update.offload, device);
    keep(outcome, device, update.values);
    keep(outcome, device, optimizer.master);
    for (int i = 0; i < optimizer.state_count; i++) {
        keep(outcome, device, optimizer.states[i].tensor);
        keep(outcome, device, optimizer.states[i].exponents);
    }
    offload_close(update.offload, device);
    give_memories(&memories, device);
    param_list_free(&params);
    config_free(&config);
}

// `plain` has the states on the device, `hosted` in host memory.
static void expect_same(struct device *plain, struct device *hosted, const struct run_options *options) {
    struct offload_outcome *first = memory_alloc(sizeof *first), *second = memory_alloc(sizeof *second);
    struct run_options one = *options, other = *options;
    one.device = plain;
    one.fraction = 0;
    other.device = hosted;
    update_states(&one, first);
    update_states(&other, second);
    EXPECT(first->count > 10000 && first->count == second->count);
    EXPECT(memcmp(first->bytes, second->bytes, first->count) == 0);
    free(first);
    free(second);
}

static void expect_same_in_all_dtypes(struct device *plain, struct device *hosted) {
    static const char *const moments[] = {"fp32", "bf16", "fp8"};
    static const enum dtype dtypes[] = {DTYPE_BF16, DTYPE_F32, DTYPE_F16};
    // Pieces of 2048 are fewer than slots.
    for (int i = 0; i < 18; i++)
        expect_same(plain, hosted,
                    &(struct run_options){.optimizer = "adam",
                                          .moments = moments[i % 3],
                                          .fraction = i % 2 ? 1 : 0.45,
                                          .dtype = dtypes[i / 3 % 3],
                                          .parts = i < 9 ? 1 + i % 2 : 1,
                                          .part = i < 9 ? i % 2 : 0,
                                          .piece = i >= 9       ? 2048
                                                   : i % 3 == 1 ? 128
                                                                : 64});
}

// Matrices that are made orthogonal together elsewhere visit one by one.
static void expect_same_with_muon(struct device *plain, struct device *hosted) {
    for (int i = 0; i < 16; i++)
        expect_same(plain, hosted,
                    &(struct run_options){.optimizer = i % 2 ? "adaptive_muon" : "muon",
                                          .moments = "fp32",
                                          .decay = i & 2 ? 0.9 : 0,
                                          .fraction = i & 4 ? 1 : 0.45,
                                          .dtype = i < 8 ? DTYPE_BF16 : DTYPE_F32,
                                          .parts = 1,
                                          .piece = 64});
}

TEST(streams_in_any_order) {
    struct device *cpu;
    EXPECT_OK(device_open(&cpu, &(struct device_options){.name = "cpu", .threads = 1}));
    for (uint32_t seed = 0; seed < 6; seed++) {
        struct lazy *lazy = open_lazy(cpu, seed);
        expect_same_in_all_dtypes(cpu, &lazy->device);
        if (seed < 2)
            expect_same_with_muon(cpu, &lazy->device);
        close_lazy(lazy);
    }
    device_close(cpu);
}

TEST(on_a_cpu) {
    struct device *cpu;
    EXPECT_OK(device_open(&cpu, &(struct device_options){.name = "cpu", .threads = 2}));
    expect_same_in_all_dtypes(cpu, cpu);
    expect_same_with_muon(cpu, cpu);
    device_close(cpu);
}

TEST(on_a_gpu) {
    if (cuda_count() <= 0) {
        test_skip("no GPU");
        return;
    }
    struct device *gpu;
    EXPECT_OK(device_open(&gpu, &(struct device_options){.name = "cuda"}));
    expect_same_in_all_dtypes(gpu, gpu);
    expect_same_with_muon(gpu, gpu);
    device_close(gpu);
}

// A block that is large enough to be locked in another way: operations and copies take it in place of the device's own
// memory, and it can be given back and taken again.
TEST(large_blocks_on_a_gpu) {
    if (cuda_count() <= 0) {
        test_skip("no GPU");
        return;
    }
    enum { ELEMENTS = 80 << 20, CHECKED = 1000 };
    struct device *gpu;
    EXPECT_OK(device_open(&gpu, &(struct device_options){.name = "cuda"}));
    for (int round = 0; round < 6; round++) {
        struct tensor host = tensor_1d(device_hosted_alloc(gpu, sizeof(float) * ELEMENTS), DTYPE_F32, ELEMENTS);
        struct tensor here = tensor_1d(device_alloc(gpu, sizeof(float) * ELEMENTS), DTYPE_F32, ELEMENTS);
        EXPECT(host.data && here.data);
        float *numbers = host.data;
        for (int64_t i = 0; i < CHECKED; i++)
            numbers[i * (ELEMENTS / CHECKED)] = (float)(i + round);
        op_copy(gpu, &(struct op_copy){.dst = here, .src = host});
        op_scale(gpu, &(struct op_scale){.x = here, .factor = 2});
        op_copy(gpu, &(struct op_copy){.dst = host, .src = here});
        device_synchronize(gpu);
        int wrong = 0;
        for (int64_t i = 0; i < CHECKED; i++)
            wrong += numbers[i * (ELEMENTS / CHECKED)] != 2 * (float)(i + round);
        EXPECT_INT(wrong, 0);
        device_hosted_free(gpu, host.data);
        device_free(gpu, here.data);
    }
    device_close(gpu);
}

// Whole states from the last on, until their bytes are the fraction.
TEST(fractions_are_whole_states) {
    static const struct {
        double fraction;
        bool has_v, has_m, has_master;
    } cases[] = {{0.01, true, false, false}, {0.4, true, false, false}, {0.41, true, true, false},
                 {0.8, true, true, false},   {0.81, true, true, true},  {1, true, true, true}};
    static _Alignas(256) unsigned char memory[1 << 16], other[1 << 16];
    struct config config;
    config_defaults(&config);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct arena arena, host;
        arena_init(&arena, "device", memory, sizeof memory);
        arena_init(&host, "host", other, sizeof other);
        config.run.optimizer_offload_fraction = cases[i].fraction;
        struct optimizer optimizer;
        optimizer_build(&optimizer, &arena,
                        &(struct optimizer_options){.rule = &optimizer_adam,
                                                    .config = &config,
                                                    .pieces = pieces_make(640, 640, 1, 0),
                                                    .dtype = DTYPE_BF16,
                                                    .host = &host});
        EXPECT(optimizer.states[0].is_hosted == cases[i].has_m && optimizer.states[1].is_hosted == cases[i].has_v);
        EXPECT(optimizer.has_hosted_master == cases[i].has_master);
        EXPECT_INT(host.used, (cases[i].has_m + cases[i].has_v) * 2560 + cases[i].has_master * 1280);
        EXPECT_INT(optimizer.hosted_piece, 640);
    }
    config_free(&config);
}

TEST_MAIN(TEST_CASE(streams_in_any_order), TEST_CASE(on_a_cpu), TEST_CASE(on_a_gpu), TEST_CASE(large_blocks_on_a_gpu),
          TEST_CASE(fractions_are_whole_states))
