// Short steps stand for long ones: the same times, parts and memory as all micro-batches give.
#include "plan/plan.h"
#include "plan/steady.h"
#include "step/ranks_step.h"

#define MODEL "--num-layers 8 --hidden-size 1024 --num-attention-heads 8 --seq-length 1024 --vocab-size 50304 "
#define BATCH "--max-position-embeddings 1024 --bf16 --micro-batch-size 1 "

static const double ROUNDING = 1e-8;

static void expect_same_stage(const struct plan_stage *a, const struct plan_stage *b, double seconds) {
    EXPECT_INT(a->stage, b->stage);
    EXPECT_INT(a->parameters, b->parameters);
    EXPECT_INT(a->memory.total, b->memory.total);
    EXPECT_INT(a->memory.activations, b->memory.activations);
    EXPECT_NEAR(a->compute, b->compute, ROUNDING * seconds);
    EXPECT_NEAR(a->tensor, b->tensor, ROUNDING * seconds);
    EXPECT_NEAR(a->context, b->context, ROUNDING * seconds);
    EXPECT_NEAR(a->data, b->data, ROUNDING * seconds);
    EXPECT_NEAR(a->other, b->other, ROUNDING * seconds);
    EXPECT_NEAR(a->update, b->update, ROUNDING * seconds);
    EXPECT_NEAR(a->flops, b->flops, ROUNDING * b->flops);
}

static void compare(const char *flags, int ranks) {
    struct config config;
    struct plan brief = {0}, whole = {0};
    rank_step_parse(&config, flags, ranks);
    struct plan_options options = {.config = &config, .ranks = ranks, .machine = machine_find("p5.48xlarge")};
    EXPECT_OK(plan_make(&brief, &options));
    options.runs_all = true;
    EXPECT_OK(plan_make(&whole, &options));
    EXPECT_NEAR(brief.seconds, whole.seconds, ROUNDING * whole.seconds);
    EXPECT_NEAR(brief.bubble, whole.bubble, ROUNDING * whole.seconds);
    EXPECT_NEAR(brief.messages, whole.messages, ROUNDING * whole.seconds);
    EXPECT_NEAR(brief.executed, whole.executed, ROUNDING * whole.executed);
    EXPECT_INT(brief.measured, whole.measured);
    for (int i = 0; i < whole.measured; i++)
        expect_same_stage(&brief.stage[i], &whole.stage[i], whole.seconds);
    config_free(&config);
}

#define OVERLAPS "--use-distributed-optimizer --overlap-grad-reduce --overlap-param-gather "
#define STAGED MODEL BATCH "--pipeline-model-parallel-size 4 "

TEST(short_steps_stand_for_long_ones) {
    compare(MODEL BATCH "--global-batch-size 100 ", 1);
    compare(MODEL BATCH "--global-batch-size 96 --tensor-model-parallel-size 2 --sequence-parallel " OVERLAPS, 4);
    compare(MODEL BATCH "--global-batch-size 96 --context-parallel-size 2 " OVERLAPS, 4);
}

TEST(pipelines_repeat_themselves) {
    compare(STAGED "--global-batch-size 192 ", 8);
    compare(STAGED "--global-batch-size 192 " OVERLAPS, 8);
    compare(STAGED "--global-batch-size 192 --num-virtual-stages-per-pipeline-rank 2 " OVERLAPS, 8);
    // The last group is a part of one.
    compare(STAGED "--global-batch-size 208 --num-virtual-stages-per-pipeline-rank 2 "
                   "--microbatch-group-size-per-virtual-pipeline-stage 6 " OVERLAPS,
            4);
    compare(STAGED "--global-batch-size 128 --pipeline-schedule zero-bubble " OVERLAPS, 4);
}

static double uneven(const void *context, int stage, struct schedule_item item) {
    const double *seconds = context;
    return item.work == WORK_FORWARD ? seconds[stage] : item.work >= WORK_REDUCE ? 0.25 : 1.75 * seconds[stage];
}

static double far_away(const void *context, int from, int to) {
    (void)context;
    return from < to ? 0.3 : 0.55;
}

// Stages that take different times; or nearly the same, so that the slowest one determines the step only after many
// micro-batches. Messages that take longer than passes, and groups.
TEST(lists_of_uneven_stages) {
    static const double stages[][5] = {
        {1, 1, 1, 1, 1}, {1, 1.125, 0.7, 1, 1.3}, {2, 0.3, 0.1, 1.9, 0.2}, {1.02, 1.004, 1.013, 1.03, 1.028}};
    static const struct schedule_shape shapes[] = {
        {.kind = SCHEDULE_1F1B, .stages = 5, .chunks = 1, .micro_batches = 1000},
        {.kind = SCHEDULE_INTERLEAVED, .stages = 5, .chunks = 3, .micro_batches = 1000},
        {.kind = SCHEDULE_INTERLEAVED, .stages = 5, .chunks = 2, .micro_batches = 1007, .group = 10},
        {.kind = SCHEDULE_ZERO_BUBBLE, .stages = 5, .chunks = 1, .micro_batches = 1000},
        {.kind = SCHEDULE_1F1B, .stages = 5, .chunks = 1, .micro_batches = 61},
    };
    for (size_t s = 0; s < sizeof shapes / sizeof shapes[0]; s++)
        for (size_t i = 0; i < 2 * sizeof stages / sizeof stages[0]; i++) {
            const struct schedule_cost cost = {
                .of_item = uneven, .of_message = i % 2 ? far_away : NULL, .context = stages[i / 2]};
            struct schedule_run brief, whole;
            EXPECT_OK(steady_simulate(&shapes[s], &cost, &brief, NULL));
            EXPECT_OK(steady_simulate_all(&shapes[s], &cost, &whole, NULL));
            EXPECT_NEAR(brief.seconds, whole.seconds, 1e-9 * whole.seconds);
            EXPECT_NEAR(brief.idle, whole.idle, 1e-9 * whole.seconds);
            EXPECT_NEAR(brief.bubble, whole.bubble, 1e-9 * whole.seconds);
        }
}

TEST(how_many_are_run) {
    struct schedule_shape shape = {.kind = SCHEDULE_1F1B, .stages = 1, .chunks = 1, .micro_batches = 8};
    EXPECT_INT(steady_passes(&shape), 1 + 2 + 3);
    shape.micro_batches = 3;
    EXPECT_INT(steady_passes(&shape), 1 + 3);
    shape.has_pairs = true;
    shape.micro_batches = 1 << 24;
    EXPECT_INT(steady_passes(&shape), 1 + 4 + 8);
    shape.has_pairs = false;
    EXPECT_INT(steady_passes(&shape), 1 + 2 + 3);
    EXPECT_INT(steady_counts(&shape).held, 4);
    shape = (struct schedule_shape){.kind = SCHEDULE_INTERLEAVED, .stages = 4, .chunks = 2, .micro_batches = 62};
    shape.group = 6;
    EXPECT_INT(steady_counts(&shape).before, 1);
    EXPECT_INT(steady_counts(&shape).shorter, 14);
    EXPECT_INT(steady_counts(&shape).longer, 20);
    EXPECT_INT(steady_counts(&shape).held, 26);
}

TEST_MAIN(TEST_CASE(short_steps_stand_for_long_ones), TEST_CASE(pipelines_repeat_themselves),
          TEST_CASE(lists_of_uneven_stages), TEST_CASE(how_many_are_run))
