// Events of many ranks at one place against sums that are known, and the phases of a run against counts of real ranks.
#include "plan/plan.h"
#include "step/ranks_step.h"

#include <math.h>

struct visits {
    double left[8], requests, pause;
};

static bool visit(void *context, int rank, double *time, double *requests) {
    struct visits *visits = context;
    *requests = visits->requests;
    *time += visits->left[rank] > 0 ? visits->pause : 0;
    return visits->left[rank]-- > 0;
}

TEST(a_queue_serves_in_order) {
    const double service = 2, delay = 3;
    struct rank_queue place = {.service = service, .delay = delay, .burst = 1};
    struct visits alone = {.left = {1}, .requests = 5};
    // Alone, a rank waits for each of its answers.
    EXPECT_NEAR(rank_queue_run(&place, 1, visit, &alone, false), 5 * (service + delay), 1e-9);
    EXPECT_NEAR(place.served, 5, 0);
    // Eight keep the place busy: it works without a pause, and the last answer is on its way.
    struct visits many = {.left = {1, 1, 1, 1, 1, 1, 1, 1}, .requests = 5};
    place.served = 0;
    EXPECT_NEAR(rank_queue_run(&place, 8, visit, &many, false), 8 * 5 * service + delay, 1e-9);
    EXPECT_NEAR(place.served, 40, 0);
    // The first of eight is done when seven still have their last request to send.
    struct visits raced = {.left = {1, 1, 1, 1, 1, 1, 1, 1}, .requests = 5};
    EXPECT_NEAR(rank_queue_run(&place, 8, visit, &raced, true), (4 * 8 + 1) * service + delay, 1e-9);
    // Pauses of the ranks do not occupy it.
    struct visits paused = {.left = {2, 2}, .requests = 1, .pause = 100};
    EXPECT_NEAR(rank_queue_run(&place, 2, visit, &paused, false), 2 * 100 + 3 * service + 2 * delay, 1e-9);
}

TEST(bursts_change_little) {
    struct rank_queue single = {.service = 1, .delay = 3, .burst = 1}, burst = single;
    burst.burst = 100;
    struct visits a = {.left = {1, 1, 1, 1, 1, 1, 1, 1}, .requests = 1600}, b = a;
    double exact = rank_queue_run(&single, 8, visit, &a, false);
    EXPECT_NEAR(rank_queue_run(&burst, 8, visit, &b, false), exact, 0.001 * exact);
    EXPECT_NEAR(single.served, burst.served, 0);
}

// Ranks that only differ in their data, as many as writers.
static struct control_shape replicas_of(int ranks) {
    return (struct control_shape){.ranks = ranks,
                                  .stages = 1,
                                  .replicas = ranks,
                                  .groups = 8,
                                  .joined = 2.0 * ranks,
                                  .weights = 50,
                                  .states = 2,
                                  .writers = ranks,
                                  .operations_per_second = 1e9};
}

// Counted with strace in runs of 8 ranks (2026-11-17): a load opens files of weights and of the optimizer 80 times
// each; if the optimizer is split, and a stage has 2 of 8 files of each, 34 times each. Of 7 ranks that wait, one
// begins every tenth of a second to read 6 files and to look for the seventh, once more after a tenth; the first is
// done when the second has read them.
TEST(counts_are_those_of_real_ranks) {
    struct control_shape shape = replicas_of(8);
    struct control_cost costs[CONTROL_PHASES];
    control_plan(&shape, costs);
    EXPECT_NEAR(costs[CONTROL_HANG_REPORT].operations, 2 * (6 + 1) + 1, 0);
    EXPECT_NEAR(costs[CONTROL_HANG_REPORT].seconds, 0.1, 0.05);
    EXPECT_NEAR(costs[CONTROL_LOAD_FILES].operations, 8 * 100 + 80 + 80, 1e-6);
    EXPECT_NEAR(costs[CONTROL_SAVE_FILES].operations, 8 * 2 * 7 + 4 * 7, 0);
    EXPECT_NEAR(costs[CONTROL_REHEARSAL].operations, 8 * 7 + 8, 0);
    shape.stages = 4;
    shape.replicas = 2;
    shape.writers = 2;
    shape.splits_optimizer = true;
    control_plan(&shape, costs);
    EXPECT_NEAR(control_files(&shape), 16, 0);
    EXPECT_NEAR(costs[CONTROL_LOAD_FILES].operations, 8 * 100 + 32 + 32, 1e-6);
}

TEST(growth_shows) {
    struct control_shape shape = replicas_of(1024);
    struct control_cost costs[CONTROL_PHASES];
    shape.operations_per_second = 0;
    shape.writers = 0;
    shape.checkpoint_bytes = 1e15;
    shape.weights = 1e6;
    control_plan(&shape, costs);
    EXPECT_NEAR(costs[CONTROL_JOIN].growth, 1, 0.01);
    EXPECT_NEAR(costs[CONTROL_HEARTBEAT].growth, 1, 0.01);
    EXPECT_NEAR(costs[CONTROL_SAVE_FILES].growth, 1, 0.05);
    EXPECT_NEAR(costs[CONTROL_HANG_RECORDS].growth, 1, 0.05);
    EXPECT_NEAR(costs[CONTROL_LOAD_FILES].growth, 2, 0.1);
    EXPECT(costs[CONTROL_HANG_REPORT].growth < 1.2);
    // With few files, opening them grows with the ranks.
    shape.writers = 16;
    control_plan(&shape, costs);
    EXPECT_NEAR(costs[CONTROL_LOAD_FILES].growth, 1, 0.05);
    // There are no more files than tensors, and a rank needs few of those that a split optimizer has.
    shape.writers = 0;
    shape.weights = 100;
    EXPECT_NEAR(control_files(&shape), 300, 0);
    shape.splits_optimizer = true;
    control_plan(&shape, costs);
    EXPECT_NEAR(costs[CONTROL_LOAD_FILES].operations, 1024 * (100 + 100 + 2 * 2) + 2 * 300, 1e-3);
    // One rank has nobody to wait for.
    shape = replicas_of(1);
    control_plan(&shape, costs);
    EXPECT_NEAR(costs[CONTROL_HANG_REPORT].seconds, 0, 0);
    for (int i = 0; i < CONTROL_PHASES; i++)
        EXPECT(isfinite(costs[i].seconds) && isfinite(costs[i].growth));
}

// Rank 0's sent bytes grow with the square of the number of ranks, its received bytes linearly.
TEST(many_ranks_meet) {
#define MODEL "--num-layers 8 --hidden-size 1024 --num-attention-heads 8 --seq-length 1024 --vocab-size 50304 "
#define LAYOUT "--max-position-embeddings 1024 --tensor-model-parallel-size 8 --pipeline-model-parallel-size 8 "
    struct config config[2];
    struct control_cost costs[2][CONTROL_PHASES];
    const int ranks[2] = {1024, 8192};
    for (int i = 0; i < 2; i++) {
        struct mesh mesh;
        rank_step_parse(&config[i], MODEL LAYOUT "--micro-batch-size 1 --global-batch-size 1024", ranks[i]);
        EXPECT_OK(mesh_place_config(&mesh, 0, ranks[i], &config[i]));
        struct control_shape shape = control_shape_of(&mesh);
        EXPECT_INT(shape.ranks, ranks[i]);
        EXPECT_INT(shape.replicas, ranks[i] / 64);
        shape.checkpoint_bytes = 1e12;
        shape.weights = 250;
        shape.states = 3;
        control_plan(&shape, costs[i]);
        config_free(&config[i]);
    }
    static const enum control_phase tables[] = {CONTROL_ADDRESSES, CONTROL_HOSTS, CONTROL_GROUPS, CONTROL_LOG};
    for (size_t i = 0; i < sizeof tables / sizeof tables[0]; i++) {
        const struct control_cost *few = &costs[0][tables[i]], *many = &costs[1][tables[i]];
        EXPECT_NEAR(many->bytes, 64 * few->bytes, 1e-6 * many->bytes);
        EXPECT(many->seconds > 7.9 * few->seconds && many->seconds < 64 * few->seconds);
    }
    // Rows of 4 and 16 numbers and 7 words for each rank; sums and names of 1000 tensors, and a sum of each file: 8
    // stages of 32 tensors of weights and 96 of states.
    EXPECT_NEAR(costs[1][CONTROL_SAVE].bytes, 8.0 * 8192 * (20.0 * 8192 + 7 + 2 * 1000 + 8 * (32 + 96)), 1);
    EXPECT(control_start_seconds(costs[0]) < 0.5 && control_start_seconds(costs[1]) < 20);
}

TEST_MAIN(TEST_CASE(a_queue_serves_in_order), TEST_CASE(bursts_change_little),
          TEST_CASE(counts_are_those_of_real_ranks), TEST_CASE(growth_shows), TEST_CASE(many_ranks_meet))
