// The machine that a run is on, by what its GPUs say of themselves, and its plan.
#include "cli/planner.h"
#include "plan/plan.h"
#include "step/ranks_step.h"

#define MODEL "--num-layers 2 --hidden-size 256 --num-attention-heads 4 --seq-length 128 --vocab-size 1000 "

// Planned as it is found: a field that is missing would show.
static double plan_on(const char *description, int ranks) {
    struct machine machine;
    struct config config;
    struct plan plan = {0};
    if (!planner_machine_of(description, ranks, &machine))
        return 0;
    rank_step_parse(&config, MODEL "--max-position-embeddings 128 --bf16 --micro-batch-size 1 --global-batch-size 8",
                    ranks);
    EXPECT_OK(plan_make(&plan, &(struct plan_options){.config = &config, .ranks = ranks, .machine = &machine}));
    EXPECT(plan_fits(&plan, &machine));
    config_free(&config);
    return plan.seconds;
}

TEST(gpus_by_their_names) {
    static const char h200[] = "GPU 0: NVIDIA H200, 140 GiB, CUDA 12.8, cuBLASLt 120803, cuDNN 9.8.0";
    EXPECT(plan_on(h200, 1) > plan_on(h200, 4) && plan_on(h200, 8) > 0);
    EXPECT(plan_on("GPU 3: NVIDIA A100-SXM4-40GB, 39 GiB, CUDA 12.2, cuBLASLt 1", 8) > 0);
    EXPECT(plan_on("GPU 3: NVIDIA A100-SXM4-80GB, 79 GiB, CUDA 12.2, cuBLASLt 1", 2) > 0);
    EXPECT_NEAR(plan_on("GPU 0: NVIDIA GeForce GTX 1080, 8 GiB, CUDA 12.2", 1), 0, 0);
    EXPECT_NEAR(plan_on("NVIDIA H200", 1), 0, 0);
    EXPECT_NEAR(plan_on("GPU 0: NVIDIA H200, GiB", 1), 0, 0);
    EXPECT_NEAR(plan_on(" GiB", 1), 0, 0);
}

TEST_MAIN(TEST_CASE(gpus_by_their_names))
