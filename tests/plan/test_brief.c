// Short steps stand for long ones: the same times, parts and memory as all micro-batches give.
#include "plan/brief.h"
#include "step/ranks_step.h"

#define MODEL "--num-layers 8 --hidden-size 1024 --num-attention-heads 8 --seq-length 1024 --vocab-size 50304 "
#define BATCH "--max-position-embeddings 1024 --bf16 --micro-batch-size 1 --global-batch-size 192 "

static void compare(const char *flags, int ranks, double tolerance) {
    struct config config;
    struct plan brief = {0}, whole = {0};
    rank_step_parse(&config, flags, ranks);
    struct plan_options options = {.config = &config, .ranks = ranks, .machine = machine_find("p5.48xlarge")};
    EXPECT_OK(plan_make(&whole, &options));
    EXPECT_OK(plan_make_brief(&brief, &options));
    EXPECT_INT(brief.micro_batches, whole.micro_batches);
    EXPECT_INT(brief.global_batch_size, 192);
    EXPECT_INT(config.global_batch_size, 192);
    EXPECT_NEAR(brief.seconds, whole.seconds, tolerance * whole.seconds);
    EXPECT_NEAR(brief.bubble, whole.bubble, tolerance * whole.seconds);
    EXPECT_NEAR(brief.tokens, whole.tokens, 1e-9 * whole.tokens);
    EXPECT_NEAR(plan_mfu(&brief), plan_mfu(&whole), tolerance);
    EXPECT_NEAR(plan_hfu(&brief), plan_hfu(&whole), tolerance);
    for (int i = 0; i < whole.measured; i++) {
        const struct plan_stage *a = &brief.stage[i], *b = &whole.stage[i];
        EXPECT_INT(a->memory.total, b->memory.total);
        EXPECT_NEAR(a->compute, b->compute, tolerance * whole.seconds);
        EXPECT_NEAR(a->tensor, b->tensor, tolerance * whole.seconds);
        EXPECT_NEAR(a->data, b->data, tolerance * whole.seconds);
    }
    config_free(&config);
}

TEST(short_steps_stand_for_long_ones) {
    compare(MODEL BATCH, 1, 1e-6);
    compare(MODEL BATCH "--tensor-model-parallel-size 2 --sequence-parallel --use-distributed-optimizer "
                        "--overlap-grad-reduce --overlap-param-gather",
            4, 5e-3);
    compare(MODEL BATCH "--pipeline-model-parallel-size 4", 8, 5e-3);
    compare(MODEL BATCH "--pipeline-model-parallel-size 4 --num-virtual-stages-per-pipeline-rank 2 "
                        "--use-distributed-optimizer --overlap-grad-reduce --overlap-param-gather",
            8, 5e-3);
    compare(MODEL BATCH "--pipeline-model-parallel-size 4 --pipeline-schedule zero-bubble", 4, 5e-3);
}

TEST(how_many_are_run) {
    EXPECT_INT(plan_brief_batches(16, 1, false), 16);
    EXPECT_INT(plan_brief_batches(17, 1, false), 12);
    EXPECT_INT(plan_brief_batches(512, 8, false), 24);
    EXPECT_INT(plan_brief_batches(512, 8, true), 48);
}

TEST_MAIN(TEST_CASE(short_steps_stand_for_long_ones), TEST_CASE(how_many_are_run))
