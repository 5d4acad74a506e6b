// Lessons of Narayanan et al. 2021 and Korthikanti et al. 2022 on DGX A100 machines, planned as the programs of that
// time: attention that writes its scores, kernels launched one by one. bench/plan_lessons.py has all of them.
#include "plan/plan.h"
#include "step/ranks_step.h"

#define COMMON "--seq-length 2048 --max-position-embeddings 2048 --vocab-size 51200 --bf16 --attention-backend unfused "
#define FULL "--recompute-granularity full "
#define SELECTIVE "--recompute-granularity selective --sequence-parallel "
#define MESH "--tensor-model-parallel-size %d --pipeline-model-parallel-size %d --micro-batch-size %d "

struct lesson_run {
    const char *model, *flags;
    int tensor, pipeline, ranks, micro_batch, batch;
};

static double seconds_of(struct lesson_run run) {
    struct config config;
    struct plan plan = {0};
    char *flags = memory_printf("%s " COMMON MESH "--global-batch-size %d %s", run.model, run.tensor, run.pipeline,
                                run.micro_batch, run.batch, run.flags);
    rank_step_parse(&config, flags, run.ranks);
    struct plan_options options = {.config = &config, .ranks = run.ranks, .machine = machine_find("dgx-a100")};
    struct hardware hardware;
    EXPECT_OK(hardware_of(&hardware, options.machine));
    hardware.rates.launch_seconds = 30e-6;
    options.hardware = &hardware;
    EXPECT_OK(plan_make(&plan, &options));
    config_free(&config);
    free(flags);
    return plan.seconds;
}

#define GPT3 "--num-layers 96 --hidden-size 12288 --num-attention-heads 96"

TEST(interleaving_gains_over_a_tenth_at_small_batch) {
    double plain = seconds_of((struct lesson_run){GPT3, FULL, 8, 12, 96, 1, 12});
    double interleaved =
        seconds_of((struct lesson_run){GPT3, FULL "--num-virtual-stages-per-pipeline-rank 4", 8, 12, 96, 1, 12});
    EXPECT(plain > 1.1 * interleaved);
}

TEST(tensor_8_and_pipeline_8_are_best_for_162b_on_64) {
#define B162 "--num-layers 32 --hidden-size 20480 --num-attention-heads 128"
    double best = seconds_of((struct lesson_run){B162, FULL, 8, 8, 64, 1, 32});
    for (int tensor = 2; tensor <= 32; tensor *= 2)
        if (tensor != 8)
            EXPECT(seconds_of((struct lesson_run){B162, FULL, tensor, 64 / tensor, 64, 1, 32}) > best);
}

// The paper's optimum: with micro-batches of 1 the tiles of a matmul do not fill an A100's last round.
TEST(micro_batches_of_2_are_best_for_91b) {
#define B91 "--num-layers 32 --hidden-size 15360 --num-attention-heads 128"
    for (int batch = 128; batch <= 512; batch *= 4) {
        double two = seconds_of((struct lesson_run){B91, FULL, 8, 8, 64, 2, batch});
        for (int other = 1; other <= 8; other *= 2)
            if (other != 2)
                EXPECT(two < seconds_of((struct lesson_run){B91, FULL, 8, 8, 64, other, batch}));
    }
}

TEST(data_parallelism_alone_is_best_where_it_fits) {
#define B6 "--num-layers 32 --hidden-size 3840 --num-attention-heads 32"
    double data = seconds_of((struct lesson_run){B6, FULL, 1, 1, 64, 1, 128});
    double pipeline = seconds_of((struct lesson_run){B6, FULL, 1, 4, 64, 1, 128});
    double tensor = seconds_of((struct lesson_run){B6, FULL, 4, 1, 64, 1, 128});
    EXPECT(data < pipeline && pipeline < tensor);
}

TEST(full_recompute_is_about_a_third_slower_than_selective) {
#define B22 "--num-layers 48 --hidden-size 6144 --num-attention-heads 64"
    double ratio = seconds_of((struct lesson_run){B22, FULL, 8, 1, 8, 4, 4}) /
                   seconds_of((struct lesson_run){B22, SELECTIVE, 8, 1, 8, 4, 4});
    EXPECT(ratio > 1.24 && ratio < 1.37);
}

TEST_MAIN(TEST_CASE(interleaving_gains_over_a_tenth_at_small_batch),
          TEST_CASE(tensor_8_and_pipeline_8_are_best_for_162b_on_64), TEST_CASE(micro_batches_of_2_are_best_for_91b),
          TEST_CASE(data_parallelism_alone_is_best_where_it_fits),
          TEST_CASE(full_recompute_is_about_a_third_slower_than_selective))
