// Two ranks that allocate the memory of a step: a layout that does not fit on one is used by neither; both know about
// an error; and on one device each gets half of the memory, however far ahead one of them is. Run under mpirun.
// tier: all
// ranks: 2
#include "ranks_step.h"
#include "scarce.h"
#include "step/internal.h"

#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { STEPS = 3 };

static const size_t PLENTY = (size_t)1 << 40;

static struct ranks ranks;
static struct scarce_pool own_pool, *common_pool;

#define MODEL                                                                                                          \
    "--num-layers 4 --hidden-size 64 --num-attention-heads 4 --seq-length 32 --vocab-size 96 "                         \
    "--max-position-embeddings 32 --micro-batch-size 2 --global-batch-size 8 --make-vocab-size-divisible-by 1 "        \
    "--swiglu "

// Both ranks are on the same device.
static void identify(struct device *device, int64_t words[2]) {
    (void)device;
    words[0] = words[1] = 7;
}

static int open_ranks(void) {
    TRY(world_start("mpi", &ranks.place));
    TRY(device_open(&ranks.device, &(struct device_options){.name = "cpu", .threads = 1}));
    struct world_options options = {.backend = "mpi", .deadline_seconds = 600};
    scarce_make(ranks.device, &own_pool);
    scarce.table.identity = identify;
    own_pool.limit = PLENTY;
    return world_open(&ranks.world, &options, ranks.device);
}

// Size of each rank's own pool; it claims to have more.
static void set_limits(size_t first, size_t second) {
    size_t limit = ranks.place.rank == 0 ? first : second;
    scarce.claimed = PLENTY;
    scarce.pool->limit = limit;
}

struct memory_course {
    double loss[STEPS], norm[STEPS];
    uint64_t weights;
    bool keeps_results;
    struct step_memory memory;
};

static struct memory_course run_flags(const char *flags) {
    struct rank_step r;
    struct memory_course course;
    rank_step_open(&r, &ranks, flags);
    course.memory = *step_memory(r.step);
    course.keeps_results = r.step->keeps_results;
    for (int i = 0; i < STEPS; i++) {
        struct step_result result = rank_step_train(&r, 4 / r.config.machine.data_parallel_size);
        course.loss[i] = result.loss;
        course.norm[i] = result.grad_norm;
    }
    course.weights = sum_weights(r.step);
    rank_step_close(&r);
    EXPECT_INT((int64_t)own_pool.used, 0);
    return course;
}

static void expect_same(const struct memory_course *a, const struct memory_course *b) {
    for (int i = 0; i < STEPS; i++)
        EXPECT(a->loss[i] == b->loss[i] && a->norm[i] == b->norm[i]);
    EXPECT(a->weights == b->weights && a->loss[0] != a->loss[STEPS - 1]);
}

// The second rank's device claims room for the larger layout but does not have it.
TEST(both_take_the_smaller_one) {
    static const char *const layouts[] = {MODEL, MODEL "--use-distributed-optimizer",
                                          MODEL "--tensor-model-parallel-size 2",
                                          MODEL "--pipeline-model-parallel-size 2"};
    for (size_t i = 0; i < sizeof layouts / sizeof layouts[0]; i++) {
        set_limits(PLENTY, PLENTY);
        struct memory_course kept = run_flags(layouts[i]);
        EXPECT(kept.keeps_results);
        set_limits(PLENTY, kept.memory.total - 1);
        struct memory_course again = run_flags(layouts[i]);
        EXPECT(!again.keeps_results && again.memory.total < kept.memory.total);
        EXPECT_INT((int64_t)again.memory.total_kept, (int64_t)kept.memory.total);
        expect_same(&kept, &again);
    }
}

// It reports that it has no room. Ranks that hold the same layers agree; the stages of a pipeline may differ.
TEST(only_those_with_the_same_layers_agree) {
    int rank = ranks.place.rank;
    set_limits(PLENTY, PLENTY);
    struct memory_course kept = run_flags(MODEL), kept_stage = run_flags(MODEL "--pipeline-model-parallel-size 2");
    scarce.claimed = rank == 0 ? PLENTY : kept.memory.total;
    struct memory_course again = run_flags(MODEL);
    EXPECT(!again.keeps_results);
    expect_same(&kept, &again);
    scarce.claimed = rank == 0 ? PLENTY : kept_stage.memory.total;
    struct memory_course mixed = run_flags(MODEL "--pipeline-model-parallel-size 2");
    EXPECT(mixed.keeps_results == (rank == 0));
    expect_same(&kept_stage, &mixed);
}

// Neither layout fits on the second rank, or on both: both ranks know why the first without room has none, and both
// have freed what they took.
TEST(an_error_is_for_all) {
    struct config config;
    struct step *step;
    const struct setup setup = {&config, ranks.device, &ranks.meshes[1], STEP_TRAIN};
    set_limits(PLENTY, PLENTY);
    size_t least = run_flags(MODEL "--recompute-granularity selective").memory.total;
    set_limits(PLENTY, least / 2);
    rank_step_parse(&config, MODEL, 2);
    EXPECT_ERROR(setup_step(&step, &setup), "rank 1: no room for the ");
    EXPECT_INT(error_exit_code(), EXIT_CODE_OUT_OF_MEMORY);
    EXPECT(error_is_shared() && strstr(error_message(), "it would fit ") != NULL);
    EXPECT_INT((int64_t)own_pool.used, 0);
    set_limits(least / 2, least / 3);
    EXPECT_ERROR(setup_step(&step, &setup), "rank 0: no room for the ");
    EXPECT_INT(error_exit_code(), EXIT_CODE_OUT_OF_MEMORY);
    EXPECT(error_is_shared() && strstr(error_message(), "it would fit ") != NULL);
    EXPECT_INT((int64_t)own_pool.used, 0);
    config_free(&config);
}

static struct scarce_pool *share_pool(struct group *all) {
    char *path = memory_string("/tmp/bevatron-pool-XXXXXX");
    int file = group_rank(all) == 0 ? mkstemp(path) : -1;
    if (group_rank(all) != 0) {
        free(path);
        path = NULL;
    }
    if (file >= 0 && ftruncate(file, sizeof(struct scarce_pool)) < 0)
        die("cannot set the length of %s", path);
    comm_broadcast_text(all, &path, 0, "pool");
    if (file < 0)
        file = open(path, O_RDWR | O_CLOEXEC);
    struct scarce_pool *pool = mmap(NULL, sizeof *pool, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    comm_barrier(all, "pool");
    if (group_rank(all) == 0)
        unlink(path);
    close(file);
    free(path);
    return pool == MAP_FAILED ? NULL : pool;
}

// One opens the step while the other still waits; both get half of what was free before.
TEST(halves_of_one_device) {
    int rank = ranks.place.rank;
    set_limits(PLENTY, PLENTY);
    struct memory_course kept = run_flags(MODEL),
                         again = run_flags(MODEL "--recompute-granularity selective --recompute-modules layernorm");
    common_pool = share_pool(world_group_all(ranks.world));
    EXPECT(common_pool != NULL);
    scarce.pool = common_pool;
    size_t total = kept.memory.total;
    struct {
        size_t limit, claimed;
        bool keeps;
    } pools[] = {{2 * total + total / 4, 0, true},
                 {2 * total + total / 10, 0, false},
                 {2 * total - 1, PLENTY, false},            // there is room for one
                 {2 * again.memory.total, PLENTY, false}};  // each needs what the other frees
    for (size_t i = 0; i < sizeof pools / sizeof pools[0]; i++) {
        comm_barrier(world_group_all(ranks.world), "pool");
        common_pool->limit = pools[i].limit;
        scarce.claimed = pools[i].claimed;
        comm_barrier(world_group_all(ranks.world), "pool");
        if (rank == 1)
            usleep(50000);
        struct memory_course course = run_flags(MODEL);
        EXPECT(course.keeps_results == pools[i].keeps);
        expect_same(&kept, &course);
    }
    comm_barrier(world_group_all(ranks.world), "pool");
    EXPECT_INT((int64_t)common_pool->used, 0);
    scarce.pool = &own_pool;
    munmap(common_pool, sizeof *common_pool);
}

int main(void) {
    static const struct test_case tests[] = {TEST_CASE(both_take_the_smaller_one),
                                             TEST_CASE(only_those_with_the_same_layers_agree),
                                             TEST_CASE(an_error_is_for_all), TEST_CASE(halves_of_one_device)};
    if (open_ranks() < 0) {
        printf("%s\n", error_message());
        return 1;
    }
    int status = test_main(tests, sizeof tests / sizeof tests[0]);
    ranks_close(&ranks);
    return status;
}
