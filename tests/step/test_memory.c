// A step on a device that has less memory than it claims, or too little: it takes the smaller layout; if that does not
// fit either, the error names flags with which it does, in all families and layouts. A rank of several is opened alone:
// allocating memory needs no peers.
#include "ranks_step.h"
#include "scarce.h"
#include "step/internal.h"

#include <stdio.h>
#include <sys/resource.h>
#include <unistd.h>

static const size_t PLENTY = (size_t)1 << 40;

static struct scarce_pool pool;
static enum step_mode mode = STEP_TRAIN;  // of the steps that are opened

#define SMALL "--hidden-size 64 --num-attention-heads 4 --seq-length 32 --max-position-embeddings 32 --vocab-size 96 "

// The request, and the step if it was opened.
struct attempt {
    struct config config;
    struct step *step;
    int status;
};

static struct attempt try_rank(struct device *device, const char *flags, int rank, int size) {
    struct attempt attempt = {0};
    struct mesh mesh;
    rank_step_parse(&attempt.config, flags, size);
    EXPECT_OK(mesh_place_config(&mesh, rank, size, &attempt.config));
    attempt.status = setup_step(&attempt.step, &(struct setup){&attempt.config, device, &mesh, mode});
    return attempt;
}

static void end_attempt(struct attempt *attempt) {
    step_close(attempt->step);
    config_free(&attempt->config);
    EXPECT_INT((int64_t)pool.used, 0);
}

static struct device *open_device(size_t limit) {
    struct device *device;
    EXPECT_OK(device_open(&device, &(struct device_options){.name = "cpu", .threads = 1}));
    pool.used = 0;
    pool.limit = limit;
    scarce_make(device, &pool);
    return device;
}

static void close_device(struct device *device) {
    device->ops = scarce.real;
    device_close(device);
}

// Memory of a rank with and without kept results.
static size_t needs(const char *flags, int rank, int size, bool keeps) {
    struct device *device = open_device(PLENTY);
    struct attempt attempt = try_rank(device, flags, rank, size);
    EXPECT_OK(attempt.status);
    EXPECT(attempt.step->keeps_results || attempt.config.machine.recompute_granularity);
    size_t kept = step_memory(attempt.step)->total;
    end_attempt(&attempt);
    scarce.claimed = 1;
    attempt = try_rank(device, flags, rank, size);
    EXPECT_OK(attempt.status);
    size_t again = step_memory(attempt.step)->total;
    EXPECT(attempt.step->keeps_results ? again == kept : again < kept || attempt.config.machine.recompute_granularity);
    end_attempt(&attempt);
    close_device(device);
    return keeps ? kept : again;
}

#define MODEL SMALL "--num-layers 3 --micro-batch-size 2 --global-batch-size 4 --swiglu "

TEST(falls_back) {
    size_t kept = needs(MODEL, 0, 1, true), again = needs(MODEL, 0, 1, false);
    EXPECT(again < kept);
    struct device *device = open_device(kept - 1);
    scarce.claimed = PLENTY;
    struct attempt attempt = try_rank(device, MODEL, 0, 1);
    EXPECT_OK(attempt.status);
    EXPECT(!attempt.step->keeps_results);
    EXPECT_INT((int64_t)step_memory(attempt.step)->total, (int64_t)again);
    EXPECT_INT((int64_t)step_memory(attempt.step)->total_kept, (int64_t)kept);
    end_attempt(&attempt);
    pool.limit = again;  // exactly enough
    attempt = try_rank(device, MODEL, 0, 1);
    EXPECT_OK(attempt.status);
    end_attempt(&attempt);
    pool.limit = kept;
    attempt = try_rank(device, MODEL, 0, 1);
    EXPECT_OK(attempt.status);
    EXPECT(attempt.step->keeps_results);
    end_attempt(&attempt);
    close_device(device);
}

// A GELU that the matmul before it computes is kept in both layouts, which are equal then: nothing is computed again
// for that, and a step that finds no room does not try it twice.
#define FUSED SMALL "--num-layers 3 --micro-batch-size 2 --global-batch-size 4 "

TEST(equal_layouts_are_one) {
    struct device *device = open_device(PLENTY);
    struct attempt attempt = try_rank(device, FUSED, 0, 1);
    EXPECT_OK(attempt.status);
    size_t kept = step_memory(attempt.step)->total;
    EXPECT(attempt.step->keeps_results);
    end_attempt(&attempt);
    scarce.claimed = 1;
    attempt = try_rank(device, FUSED, 0, 1);
    EXPECT_OK(attempt.status);
    EXPECT(attempt.step->keeps_results);
    EXPECT_INT((int64_t)step_memory(attempt.step)->total, (int64_t)kept);
    end_attempt(&attempt);
    scarce.claimed = PLENTY;
    pool.limit = kept - 1;
    pool.refused = 0;
    attempt = try_rank(device, FUSED, 0, 1);
    EXPECT_INT(attempt.status, -1);
    EXPECT_INT(pool.refused, 1);
    EXPECT(strstr(error_message(), "no room for the scratch, ") && strstr(error_message(), "): cannot allocate "));
    end_attempt(&attempt);
    close_device(device);
}

// After falling back the step trains, with the bits of one that never tried the larger layout.
TEST(the_same_bits) {
    double loss[2][3], norm[2][3];
    uint64_t weights[2];
    size_t limits[2] = {PLENTY, needs(MODEL "--bf16", 0, 1, true) - 1};
    for (int k = 0; k < 2; k++) {
        struct ranks ranks = {.place = {.rank = 0, .size = 1, .local_rank = 0, .local_size = 1}};
        struct rank_step r;
        ranks.device = open_device(limits[k]);
        EXPECT_OK(world_open(&ranks.world, &(struct world_options){.backend = "self"}, ranks.device));
        scarce.claimed = k == 0 ? 1 : PLENTY;
        rank_step_open(&r, &ranks, MODEL "--bf16");
        EXPECT(!r.step->keeps_results && step_memory(r.step)->total_kept > step_memory(r.step)->total);
        pool.limit = PLENTY;  // for the copies that the CPU makes in 16 bits
        for (int i = 0; i < 3; i++) {
            struct step_result result = rank_step_train(&r, 2);
            loss[k][i] = result.loss;
            norm[k][i] = result.grad_norm;
        }
        weights[k] = sum_weights(r.step);
        rank_step_close(&r);
        world_close(ranks.world);
        close_device(ranks.device);
    }
    for (int i = 0; i < 3; i++)
        EXPECT(loss[0][i] == loss[1][i] && norm[0][i] == norm[1][i]);
    EXPECT(weights[0] == weights[1] && loss[0][0] != loss[0][2]);
}

static void expect_text(const char *text) {
    if (!strstr(error_message(), text)) {
        printf("    %s\n", error_message());
        EXPECT(strstr(error_message(), text) != NULL);
    }
}

TEST(says_what_is_missing) {
    size_t again = needs(MODEL, 0, 1, false);
    struct device *device = open_device(again - 1);
    struct attempt attempt = try_rank(device, MODEL, 0, 1);
    EXPECT_INT(attempt.status, -1);
    EXPECT_INT(error_exit_code(), EXIT_CODE_OUT_OF_MEMORY);
    expect_text("no room for the scratch, ");
    expect_text("the step needs 0.00 GB (weights 0.00, gradients 0.00, optimizer 0.00, activations 0.00, ");
    expect_text(" and 0.00 GB are free; it would fit with --");
    expect_text("): cannot allocate ");
    end_attempt(&attempt);
    pool.limit = 1000;
    attempt = try_rank(device, MODEL, 0, 1);
    EXPECT_INT(attempt.status, -1);
    expect_text("no room for the weights, gradients and optimizer, ");
    expect_text("it would not fit in any of the layouts that were tried, on up to 1024 ranks; use a smaller model or");
    end_attempt(&attempt);
    close_device(device);
}

// A run of `size` ranks that has `parts` thousandths of what it needs, and text that its message must contain.
static const struct {
    const char *flags;
    int size;
    int parts;
    const char *text;
} runs[] = {
    {SMALL "--num-layers 4 --micro-batch-size 8", 1, 900, "--micro-batch-size 4 --global-batch-size 8"},
    {SMALL "--num-layers 4 --micro-batch-size 8 --global-batch-size 16", 1, 700, "--recompute-granularity full"},
    {SMALL "--num-layers 4 --micro-batch-size 8 --global-batch-size 16", 1, 500, "--micro-batch-size"},
    {SMALL "--num-layers 4 --micro-batch-size 8", 1, 250, "on 4 ranks with this much memory each, with"},
    {SMALL "--num-layers 4 --micro-batch-size 1", 1, 120, "--pipeline-model-parallel-size"},
    {SMALL "--num-layers 2 --micro-batch-size 1", 4, 850, "--use-distributed-optimizer"},
    {SMALL "--num-layers 2 --micro-batch-size 1", 4, 500, "--tensor-model-parallel-size 4"},
    {SMALL "--num-layers 4 --micro-batch-size 8 --tensor-model-parallel-size 4", 4, 930, "--sequence-parallel"},
    {SMALL "--num-layers 2 --micro-batch-size 2 --use-distributed-optimizer --recompute-granularity full", 2, 700,
     "--tensor-model-parallel-size 2"},
    {SMALL "--num-layers 4 --micro-batch-size 4 --context-parallel-size 2", 2, 800, "--use-distributed-optimizer"},
    {SMALL "--num-layers 8 --micro-batch-size 4 --global-batch-size 16 --pipeline-model-parallel-size 2", 2, 800,
     "--micro-batch-size 2"},
    {SMALL "--num-layers 8 --micro-batch-size 4 --global-batch-size 16 --pipeline-model-parallel-size 2 "
           "--pipeline-schedule zero-bubble",
     2, 600, "--recompute-granularity full"},
    {SMALL "--num-layers 8 --micro-batch-size 2 --global-batch-size 16 --pipeline-model-parallel-size 2 "
           "--num-virtual-stages-per-pipeline-rank 2",
     4, 700, "--"},
    {SMALL "--num-layers 4 --micro-batch-size 8 --global-batch-size 16 --swiglu --normalization RMSNorm "
           "--position-embedding-type rope "
           "--disable-bias-linear --untie-embeddings-and-output-weights --bf16",
     1, 930, "--recompute-granularity full"},
    {SMALL "--num-layers 4 --micro-batch-size 8 --bf16 --fp8-format hybrid", 1, 940, "--micro-batch-size"},
    {SMALL
     "--model bert --num-layers 4 --micro-batch-size 8 --global-batch-size 16 --norm-placement post --activation gelu",
     1, 930, "--recompute-granularity full"},
    {SMALL "--model t5 --decoder-seq-length 16 --num-layers 2 --micro-batch-size 8", 1, 700, "--micro-batch-size"},
    {SMALL "--model t5 --decoder-seq-length 16 --num-layers 2 --micro-batch-size 1", 1, 300, "on "},
    // Heads and layers that cannot be split: more copies of the model, and no flags to add.
    {"--hidden-size 517 --num-attention-heads 47 --seq-length 32 --max-position-embeddings 32 --vocab-size 96 "
     "--num-layers 1 --micro-batch-size 1 --global-batch-size 64 --use-distributed-optimizer",
     1, 850, "it would fit on 2 ranks with this much memory each ("},
};

// Opens every rank with the flags of one proposal, under the same limit.
static void follow(struct device *device, const char *flags, int size) {
    for (int rank = 0; rank < size; rank++) {
        struct attempt attempt = try_rank(device, flags, rank, size);
        if (attempt.status < 0)
            printf("    %s: %s\n", flags, error_message());
        EXPECT_OK(attempt.status);
        end_attempt(&attempt);
    }
}

// All proposals of a message: "with FLAGS (… GB)", on as many ranks as it says; with more ranks there may be no flags.
static int follow_all(struct device *device, const char *flags, int size, const char *message) {
    int count = 0, ranks = size;
    const char *at = strstr(message, "it would fit ");
    if (at && sscanf(at, "it would fit on %d ranks", &ranks) != 1)
        ranks = size;
    if (at && strstr(at, "ranks with this much memory each (")) {
        follow(device, flags, ranks);
        count++;
    }
    for (; at && (at = strstr(at, "with --")); count++) {
        at += strlen("with ");
        size_t length = strcspn(at, "(");
        char *line = memory_printf("%s %.*s", flags, (int)length, at);
        follow(device, line, ranks);
        free(line);
    }
    return count;
}

// What libraries take later is reserved while the step allocates its memory, and is free afterwards; a step that would
// leave them nothing takes the smaller layout, and if that leaves nothing either, says so.
TEST(libraries_have_a_reserve) {
    size_t kept = needs(MODEL, 0, 1, true), again = needs(MODEL, 0, 1, false), reserve = kept / 10;
    size_t of_two = needs(MODEL, 0, 2, true);
    struct device *device = open_device(kept + reserve);
    scarce.table.library_bytes = reserve;
    scarce.claimed = 2 * kept;  // a fiftieth of which is less
    struct attempt attempt = try_rank(device, MODEL, 0, 1);
    EXPECT_OK(attempt.status);
    EXPECT(attempt.step->keeps_results && pool.used == kept);
    end_attempt(&attempt);
    pool.limit = kept + reserve - 1;
    attempt = try_rank(device, MODEL, 0, 1);
    EXPECT_OK(attempt.status);
    EXPECT(!attempt.step->keeps_results && pool.used == again);
    end_attempt(&attempt);
    pool.limit = again + reserve;  // exactly enough
    scarce.claimed = 0;
    attempt = try_rank(device, MODEL, 0, 1);
    EXPECT_OK(attempt.status);
    end_attempt(&attempt);
    pool.limit = again + reserve - 1;
    attempt = try_rank(device, MODEL, 0, 1);
    EXPECT_INT(attempt.status, -1);
    EXPECT_INT(error_exit_code(), EXIT_CODE_OUT_OF_MEMORY);
    expect_text("no room for the kernels and libraries that are loaded later, 0.00 GB: the step needs ");
    expect_text(" 0.00 GB are kept for libraries, and 0.00 GB are free; it would fit with --");
    char *message = memory_string(error_message());
    end_attempt(&attempt);
    EXPECT(follow_all(device, MODEL, 1, message) > 0);
    free(message);
    // A fiftieth of much is more, but one rank has no connections.
    scarce.claimed = 50 * kept;
    pool.limit = kept + reserve;
    attempt = try_rank(device, MODEL, 0, 1);
    EXPECT(attempt.status == 0 && attempt.step->keeps_results && pool.used == kept);
    end_attempt(&attempt);
    scarce.claimed = 50 * of_two;
    pool.limit = 2 * of_two;
    attempt = try_rank(device, MODEL, 0, 2);
    EXPECT(attempt.status == 0 && attempt.step->keeps_results && pool.used == of_two);
    end_attempt(&attempt);
    pool.limit = 2 * of_two - 1;
    attempt = try_rank(device, MODEL, 0, 2);
    EXPECT(attempt.status == 0 && !attempt.step->keeps_results);
    end_attempt(&attempt);
    close_device(device);
}

TEST(remedies_are_true) {
    for (size_t i = 0; i < sizeof runs / sizeof runs[0]; i++) {
        const char *flags = runs[i].flags;
        int size = runs[i].size;
        struct device *device = open_device(needs(flags, 0, size, false) / 1000 * (size_t)runs[i].parts);
        struct attempt attempt = try_rank(device, flags, 0, size);
        EXPECT_INT(attempt.status, -1);
        char *message = memory_string(error_message());
        end_attempt(&attempt);
        expect_text(runs[i].text);
        EXPECT(follow_all(device, flags, size, message) > 0);
        free(message);
        close_device(device);
    }
}

// Weights too large for a rank are split; micro-batches too large for an evaluation are made smaller.
TEST(other_modes) {
    static const struct {
        enum step_mode mode;
        const char *flags;
        const char *text;
    } modes[] = {
        {STEP_EVALUATE, SMALL "--num-layers 2 --micro-batch-size 32", "it would fit with --micro-batch-size 16 ("},
        {STEP_EVALUATE, SMALL "--num-layers 4 --micro-batch-size 1", "with --tensor-model-parallel-size 2 ("},
        {STEP_GENERATE, SMALL "--num-layers 4 --micro-batch-size 1", "with --tensor-model-parallel-size 2 ("},
        {STEP_GENERATE, SMALL "--num-layers 4 --micro-batch-size 1 --model t5 --decoder-seq-length 16",
         "on 2 ranks with this much memory each, with --tensor-model-parallel-size 2 ("},
    };
    for (size_t i = 0; i < sizeof modes / sizeof modes[0]; i++) {
        mode = modes[i].mode;
        struct device *device = open_device(PLENTY);
        struct attempt attempt = try_rank(device, modes[i].flags, 0, 1);
        EXPECT_OK(attempt.status);
        pool.limit = step_memory(attempt.step)->total / 4 * 3;
        end_attempt(&attempt);
        attempt = try_rank(device, modes[i].flags, 0, 1);
        EXPECT_INT(attempt.status, -1);
        char *message = memory_string(error_message());
        end_attempt(&attempt);
        expect_text(modes[i].text);
        EXPECT_INT(follow_all(device, modes[i].flags, 1, message), 1);
        free(message);
        close_device(device);
    }
    mode = STEP_TRAIN;
}

// The address space of this process, in bytes.
static size_t address_space(void) {
    long long pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    EXPECT(file && fscanf(file, "%lld", &pages) == 1);
    fclose(file);
    return (size_t)pages * (size_t)sysconf(_SC_PAGESIZE);
}

// Host memory for the optimizer and for the inputs of layers is counted once, before either is taken.
TEST(host_memory) {
    const char *flags = "--hidden-size 768 --num-attention-heads 4 --seq-length 32 --vocab-size 96 --num-layers 2 "
                        "--micro-batch-size 1 --optimizer-cpu-offload --recompute-granularity full --cpu-offloading ";
#if defined __SANITIZE_ADDRESS__ || defined __SANITIZE_THREAD__
    test_skip("sanitizers need address space of their own");
    return;
#endif
    struct device *device = open_device(PLENTY);
    struct attempt attempt = try_rank(device, flags, 0, 1);
    EXPECT_OK(attempt.status);
    struct step_memory memory = *step_memory(attempt.step);
    EXPECT(memory.hosted > 100000000 && memory.offloaded > 0);
    end_attempt(&attempt);
    const struct {
        size_t room;  // beside all but what the host holds
        const char *text;
    } cases[] = {{memory.hosted + memory.offloaded + memory.hosted / 2, NULL},
                 {memory.hosted / 2, "optimizer states and inputs of layers need 0.11 GB of host memory"}};
    struct rlimit before;
    EXPECT(getrlimit(RLIMIT_AS, &before) == 0);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct rlimit tight = {address_space() + memory.total + cases[i].room, before.rlim_max};
        EXPECT(setrlimit(RLIMIT_AS, &tight) == 0);
        attempt = try_rank(device, flags, 0, 1);
        EXPECT(setrlimit(RLIMIT_AS, &before) == 0);
        EXPECT_INT(attempt.status, cases[i].text ? -1 : 0);
        if (cases[i].text)
            expect_text(cases[i].text);
        end_attempt(&attempt);
    }
    close_device(device);
}

// A decoder may have more layers than its encoder: inputs of all but the first of either go to the host.
TEST(inputs_of_both_stacks) {
    enum { BYTES = 2 * 32 * 64 * 4 };  // of an input
    struct device *device = open_device(PLENTY);
    struct attempt attempt = try_rank(device,
                                      SMALL "--model t5 --decoder-seq-length 32 --encoder-num-layers 3 "
                                            "--decoder-num-layers 6 --micro-batch-size 2 --recompute-granularity full "
                                            "--cpu-offloading ",
                                      0, 1);
    EXPECT_OK(attempt.status);
    EXPECT_INT((int64_t)step_memory(attempt.step)->offloaded, (3 - 1 + 6 - 1) * BYTES);
    end_attempt(&attempt);
    close_device(device);
}

// Evaluations drop no rows of experts; a run without any needs no room for all of them.
TEST(without_evaluations) {
    const char *const flags[] = {SMALL "--num-layers 2 --micro-batch-size 4 --swiglu --ffn-hidden-size 256 "
                                       "--num-experts 4 --moe-router-topk 2 --moe-expert-capacity-factor 0.5 ",
                                 "--eval-iters 0"};
    char *never = memory_printf("%s%s", flags[0], flags[1]);
    EXPECT(needs(never, 0, 1, true) < needs(flags[0], 0, 1, true));
    EXPECT(needs(never, 0, 1, false) < needs(flags[0], 0, 1, false));
    free(never);
    EXPECT(needs(MODEL "--eval-iters 0 ", 0, 1, true) <= needs(MODEL, 0, 1, true));
}

TEST_MAIN(TEST_CASE(falls_back), TEST_CASE(equal_layouts_are_one), TEST_CASE(the_same_bits),
          TEST_CASE(says_what_is_missing), TEST_CASE(libraries_have_a_reserve), TEST_CASE(remedies_are_true),
          TEST_CASE(other_modes), TEST_CASE(host_memory), TEST_CASE(inputs_of_both_stacks),
          TEST_CASE(without_evaluations))
