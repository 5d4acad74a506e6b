// Passes in which ranks communicate. Over NCCL, where the device waits, they are recorded, and a replay gives the
// losses and weights of the same steps without recording; through the host they are not recorded. Run under mpirun: on
// GPUs over NCCL (several ranks on one need an NCCL_HOSTID each, see bench/gpu_ranks.sh), else on a CPU that records.
// tier: all
// ranks: 2
#include "comm/backend.h"
#include "ranks_step.h"
#include "tape.h"

enum { STEPS = 8, MICRO_BATCHES = 3 };

static struct ranks ranks;
static bool is_nccl;

// A table that counts replays.
static struct counted {
    struct ops table;
    const struct ops *real;
    int64_t replayed;
} counted;

static void count_replay(struct device *device, struct recording *recording) {
    counted.replayed++;
    counted.real->replay(device, recording);
}

static void count_replays(struct device *device) {
    counted = (struct counted){.table = *device->ops, .real = device->ops};
    counted.table.replay = count_replay;
    device->ops = &counted.table;
}

struct ranks_course {
    double loss[STEPS], norm[STEPS];
    int64_t replayed;
    unsigned char *weights;  // owned
};

static struct ranks_course run_flags(const char *flags, bool replays, size_t *bytes) {
    struct rank_step r;
    struct ranks_course course;
    char *line =
        memory_printf("--num-layers 2 --hidden-size 64 --num-attention-heads 4 --seq-length 32 --vocab-size 96 "
                      "--max-position-embeddings 32 --micro-batch-size 2 --global-batch-size 12 "
                      "--make-vocab-size-divisible-by 1 --hidden-dropout 0.1 --attention-dropout 0.1 %s %s",
                      replays ? "" : "--no-cuda-graph", flags);
    int64_t before = counted.replayed;
    rank_step_open(&r, &ranks, line);
    for (int i = 0; i < STEPS; i++) {
        struct step_result result = rank_step_train(&r, MICRO_BATCHES);
        course.loss[i] = result.loss;
        course.norm[i] = result.grad_norm;
    }
    *bytes = tensor_bytes(step_values(r.step));
    course.weights = memory_alloc(*bytes);
    device_copy_out(ranks.device, course.weights, step_values(r.step));
    course.replayed = counted.replayed - before;
    rank_step_close(&r);
    free(line);
    return course;
}

static void compare(const char *flags, bool is_recorded) {
    size_t bytes;
    struct ranks_course plain = run_flags(flags, false, &bytes), replayed = run_flags(flags, true, &bytes);
    EXPECT_INT(plain.replayed, 0);
    EXPECT(is_recorded ? replayed.replayed >= (STEPS - 3) * MICRO_BATCHES : replayed.replayed == 0);
    for (int i = 0; i < STEPS; i++) {
        EXPECT(plain.loss[i] == replayed.loss[i]);
        EXPECT(plain.norm[i] == replayed.norm[i]);
    }
    EXPECT(memcmp(plain.weights, replayed.weights, bytes) == 0);
    free(plain.weights);
    free(replayed.weights);
}

TEST(tensor_parallel) {
    compare("--tensor-model-parallel-size 2", is_nccl);
}

TEST(sequence_parallel) {
    compare("--tensor-model-parallel-size 2 --sequence-parallel --swiglu --normalization RMSNorm", is_nccl);
}

TEST(recompute) {
    compare("--tensor-model-parallel-size 2 --recompute-granularity full", is_nccl);
}

TEST(data_parallel) {
    // Only the first and the last pass of a step have sums and gathers in flight.
    compare("", true);
    compare("--use-distributed-optimizer", true);
}

// Over NCCL if there is a GPU that can use it for each rank, or if ranks that share one count as machines.
static int open_ranks(void) {
    TRY(world_start("mpi", &ranks.place));
    if (cuda_count() < (getenv("NCCL_HOSTID") ? 1 : ranks.place.local_size))
        return ranks_open(&ranks);
    TRY(device_open(&ranks.device, &(struct device_options){
                                       .name = "cuda", .index = ranks.place.local_rank, .is_deterministic = true}));
    if (!nccl_library()) {
        device_close(ranks.device);
        return ranks_open(&ranks);
    }
    is_nccl = true;
    struct world_options options = {.backend = "mpi", .carrier = "nccl", .deadline_seconds = 300};
    return world_open(&ranks.world, &options, ranks.device);
}

int main(void) {
    if (open_ranks() < 0) {
        printf("%s\n", error_message());
        return 1;
    }
    if (!is_nccl)
        tape_put_on(ranks.device);
    count_replays(ranks.device);
    const struct test_case cases[] = {TEST_CASE(tensor_parallel), TEST_CASE(sequence_parallel), TEST_CASE(recompute),
                                      TEST_CASE(data_parallel)};
    int status = test_main(cases, sizeof cases / sizeof cases[0]);
    ranks_close(&ranks);
    return status;
}
