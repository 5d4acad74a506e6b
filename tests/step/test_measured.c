// A step takes the memory that it announces: the fp32 copies that the CPU makes of 16-bit tensors to the byte, in all
// families, and the whole process, as counted by the system, within a twentieth.
// tier: all
// cost: 10
#include "ops/cpu/cpu.h"
#include "ranks_step.h"
#include <sys/resource.h>
#include <sys/sysinfo.h>
#include <sys/wait.h>
#include <unistd.h>

enum { STEPS = 2, THREADS = 2 };

struct single {
    struct ranks ranks;
    struct rank_step r;
};

static void open_single(struct single *single, const char *flags, const char *kernels) {
    *single = (struct single){.ranks.place = {.rank = 0, .size = 1, .local_rank = 0, .local_size = 1}};
    const struct device_options options = {.name = "cpu", .threads = THREADS, .cpu_kernels = kernels};
    EXPECT_OK(device_open(&single->ranks.device, &options));
    EXPECT_OK(world_open(&single->ranks.world, &(struct world_options){.backend = "self"}, single->ranks.device));
    rank_step_open(&single->r, &single->ranks, flags);
}

static void run_steps(struct single *single) {
    struct step_source source = {.next = rank_step_next_of_family, .context = &single->r, .count = 1};
    for (int i = 0; i < STEPS; i++)
        EXPECT_OK(step_train(single->r.step, &source, 1e-3, 0.01));
    EXPECT_OK(step_evaluate(single->r.step, &source));
}

static void close_single(struct single *single) {
    rank_step_close(&single->r);
    ranks_close(&single->ranks);
}

// ---- copies ----

#define SMALL                                                                                                          \
    "--hidden-size 64 --num-attention-heads 4 --num-layers 2 --seq-length 32 --max-position-embeddings 32 "            \
    "--vocab-size 96 --micro-batch-size 2 "

static void expect_copies(const char *flags, const char *kernels) {
    struct single single;
    open_single(&single, flags, kernels);
    run_steps(&single);
    size_t taken = ((const struct cpu_device *)single.ranks.device)->wide_bytes;
    const struct step_memory *memory = step_memory(single.r.step);
    if (taken != memory->copies)
        test_fail("%s: %zu bytes were announced and %zu taken", flags, memory->copies, taken);
    EXPECT(!kernels || memory->device_own == memory->copies);  // OpenBLAS has panels of its own
    close_single(&single);
}

TEST(copies_are_announced_to_the_byte) {
    static const char *const families[] = {
        SMALL "--hidden-dropout 0.1 ",
        SMALL "--swiglu --normalization RMSNorm --position-embedding-type rope --untie-embeddings-and-output-weights "
              "--disable-bias-linear --group-query-attention --num-query-groups 2 ",
        SMALL "--model bert ",
        SMALL "--model t5 --decoder-seq-length 16 ",
    };
    for (size_t i = 0; i < sizeof families / sizeof families[0]; i++) {
        for (int is_half = 0; is_half < 2; is_half++) {
            char *flags = memory_printf("%s%s", families[i], is_half ? "--fp16" : "--bf16");
            expect_copies(flags, NULL);
            expect_copies(flags, "openblas");
            free(flags);
        }
    }
    expect_copies(SMALL, NULL);
}

// ---- the whole process ----

// The report of a child that trains with these flags.
struct account {
    int64_t announced, peak;  // bytes
};

static struct account train_in_child(const char *flags) {
    int ends[2];
    struct account account = {0};
    EXPECT(pipe(ends) == 0);
    pid_t child = fork();
    EXPECT(child >= 0);
    if (child == 0) {
        struct single single;
        struct rusage usage;
        open_single(&single, flags, NULL);
        run_steps(&single);
        EXPECT(getrusage(RUSAGE_SELF, &usage) == 0);
        const struct step_memory *memory = step_memory(single.r.step);
        account = (struct account){(int64_t)(memory->total + memory->device_own), (int64_t)usage.ru_maxrss * 1024};
        _exit(write(ends[1], &account, sizeof account) != (ssize_t)sizeof account);
    }
    close(ends[1]);
    EXPECT(read(ends[0], &account, sizeof account) == (ssize_t)sizeof account);
    close(ends[0]);
    int status;
    EXPECT(waitpid(child, &status, 0) == child && status == 0);
    return account;
}

// The rest of the process is what a small step takes beyond its own memory.
static void expect_peak(const char *dtype) {
    char *small = memory_printf("--hidden-size 512 --num-attention-heads 8 --num-layers 1 --seq-length 64 "
                                "--max-position-embeddings 64 --vocab-size 3072 --micro-batch-size 1 %s",
                                dtype);
    char *large = memory_printf("--hidden-size 512 --num-attention-heads 8 --num-layers 4 --seq-length 256 "
                                "--max-position-embeddings 256 --vocab-size 16000 --micro-batch-size 4 %s",
                                dtype);
    struct account base = train_in_child(small), account = train_in_child(large);
    double announced = (double)(account.announced - base.announced), taken = (double)(account.peak - base.peak);
    // Memory that a busy system has swapped out is not counted.
    struct sysinfo info;
    bool can_be_elsewhere = sysinfo(&info) != 0 || info.totalswap > 0;
    if (taken > 1.05 * announced || (taken < 0.95 * announced && !can_be_elsewhere))
        test_fail("%s: %.1f MB were announced and %.1f MB taken", dtype, announced / 1e6, taken / 1e6);
    free(small);
    free(large);
}

TEST(the_system_counts_what_was_announced) {
#ifdef BEVATRON_SANITIZE
    test_skip("a sanitizer's own memory is not announced");
#endif
    expect_peak("");
    expect_peak("--bf16");
    expect_peak("--fp16");
}

TEST_MAIN(TEST_CASE(copies_are_announced_to_the_byte), TEST_CASE(the_system_counts_what_was_announced))
