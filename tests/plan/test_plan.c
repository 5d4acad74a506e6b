// Plans: what must follow from the schedule and from the layout, whatever the constants are; and that the times of a
// rank alone add up.
#include "plan/plan.h"
#include "plan/report.h"
#include "step/ranks_step.h"

#include <math.h>

#define MODEL "--num-layers 24 --hidden-size 2048 --num-attention-heads 16 --seq-length 2048 --vocab-size 50304 "
#define BATCH "--max-position-embeddings 2048 --bf16 --recompute-granularity full "

static struct config config;

static struct plan plan_of(const char *flags, int ranks, const char *machine) {
    struct plan plan = {0};
    rank_step_parse(&config, flags, ranks);
    EXPECT_OK(
        plan_make(&plan, &(struct plan_options){.config = &config, .ranks = ranks, .machine = machine_find(machine)}));
    config_free(&config);
    return plan;
}

TEST(a_rank_alone_only_computes) {
    struct plan plan = plan_of(MODEL BATCH "--micro-batch-size 4 --global-batch-size 16", 1, "p5.4xlarge");
    EXPECT_INT(plan.micro_batches, 4);
    EXPECT_INT(plan.parameters, 1315819520);
    EXPECT_NEAR(plan.seconds, plan.stage[0].compute, 1e-6 * plan.seconds);
    EXPECT(plan.bubble < 1e-6 * plan.seconds && plan.stage[0].data == 0 && plan.stage[0].tensor == 0);
    EXPECT(plan_mfu(&plan) > 0.2 && plan_mfu(&plan) < 0.7);
}

// (p - 1) / m of the time is bubble, and with v chunks 1 / v of that.
TEST(bubbles_come_from_the_schedule) {
#define STAGES MODEL BATCH "--micro-batch-size 1 --global-batch-size 8 --pipeline-model-parallel-size 4 "
    struct plan plain = plan_of(STAGES, 4, "p5.48xlarge");
    struct plan shared = plan_of(STAGES "--num-virtual-stages-per-pipeline-rank 3", 4, "p5.48xlarge");
    double busy = plain.seconds - plain.bubble;
    EXPECT(plain.bubble / busy > 0.2 && plain.bubble / busy < 3.0 / 8);
    EXPECT(shared.bubble < 0.6 * plain.bubble && shared.seconds < plain.seconds);
}

TEST(parallelism_costs_what_it_should) {
    struct plan alone = plan_of(MODEL BATCH "--micro-batch-size 1 --global-batch-size 8", 1, "p5.48xlarge");
    struct plan data = plan_of(MODEL BATCH "--micro-batch-size 1 --global-batch-size 64", 8, "p5.48xlarge");
    struct plan tensor = plan_of(MODEL BATCH "--micro-batch-size 1 --global-batch-size 8 "
                                             "--tensor-model-parallel-size 8 --sequence-parallel",
                                 8, "p5.48xlarge");
    struct plan apart = plan_of(MODEL BATCH "--micro-batch-size 1 --global-batch-size 64", 8, "p5.4xlarge");
    EXPECT(data.seconds > alone.seconds && data.seconds < 1.2 * alone.seconds && data.stage[0].data > 0);
    EXPECT(tensor.seconds > alone.seconds / 8 && tensor.seconds < alone.seconds && tensor.stage[0].tensor > 0);
    EXPECT(apart.stage[0].data > 5 * data.stage[0].data);  // 12.5 GB/s between machines, 450 within one
    EXPECT(data.stage[0].memory.total >= alone.stage[0].memory.total);
    EXPECT(tensor.stage[0].memory.weights * 7 < alone.stage[0].memory.weights);
}

TEST(reports) {
    struct plan plan = plan_of(MODEL BATCH "--micro-batch-size 1 --global-batch-size 8", 8, "p5.48xlarge");
    struct plan_budget budget = {.tokens = 1e9, .machine = machine_find("p5.48xlarge")};
    struct buffer text = {0}, json = {0};
    plan_describe(&plan, &budget, &text);
    plan_write_json(&plan, &budget, &json);
    EXPECT(strstr(buffer_string(&text), "fits into the 80 GiB of H100 GPUs") != NULL);
    struct json *root = NULL;
    double days = 0;
    EXPECT_OK(json_parse(&root, buffer_string(&json), json.length, "plan"));
    EXPECT_OK(json_get_double(root, "days", &days));
    EXPECT_NEAR(days, 1e9 / (plan.tokens / plan.seconds) / 86400, 1e-9 * days);
    json_free(root);
    buffer_free(&text);
    buffer_free(&json);
}

TEST(machines_without_gpus_are_refused) {
    struct plan plan;
    rank_step_parse(&config, MODEL BATCH "--micro-batch-size 1 --global-batch-size 8", 1);
    EXPECT_ERROR(
        plan_make(&plan,
                  &(struct plan_options){.config = &config, .ranks = 1, .machine = machine_find("c6i.32xlarge")}),
        "--machine");
    config_free(&config);
}

TEST_MAIN(TEST_CASE(a_rank_alone_only_computes), TEST_CASE(bubbles_come_from_the_schedule),
          TEST_CASE(parallelism_costs_what_it_should), TEST_CASE(reports), TEST_CASE(machines_without_gpus_are_refused))
