// Steps whose passes are replayed give the bits of steps that run them: in all families and dtypes, with dropout, with
// evaluations in between, and when the number of micro-batches or the shape of one changes.
#include "ranks_step.h"
#include "tape.h"

#include <math.h>

enum { STEPS = 9 };

struct replay_course {
    double loss[STEPS], norm[STEPS], evaluated;
    uint64_t weights;
    int64_t recorded, replayed;
    int64_t called;  // operations of the last step that were not part of a recording
};

// Values that change from step to step.
struct changes {
    bool has_evaluations;
    int64_t micro_batches[STEPS];
    int32_t shorter_from;  // from this step on micro-batches have half the sequences; 0: never
};

static struct replay_course run_flags(const char *flags, const struct changes *changes, bool replays) {
    struct ranks ranks = {.place = {.rank = 0, .size = 1, .local_rank = 0, .local_size = 1}};
    struct rank_step r;
    struct replay_course course = {0};
    EXPECT_OK(device_open(&ranks.device, &(struct device_options){.name = "cpu", .threads = 1}));
    EXPECT_OK(world_open(&ranks.world, &(struct world_options){.backend = "self"}, ranks.device));
    char *line =
        memory_printf("--num-layers 2 --hidden-size 32 --num-attention-heads 2 --seq-length 16 --vocab-size 48 "
                      "--max-position-embeddings 16 --micro-batch-size 2 --global-batch-size 6 %s %s",
                      replays ? "" : "--no-cuda-graph", flags);
    tape_put_on(ranks.device);
    rank_step_open(&r, &ranks, line);
    for (int i = 0; i < STEPS; i++) {
        if (changes->shorter_from > 0 && i == changes->shorter_from)
            r.config.run.micro_batch_size = 1;
        struct step_source source = {
            .next = rank_step_next_of_family, .context = &r, .count = changes->micro_batches[i]};
        course.called = tape.called;
        EXPECT_OK(step_train(r.step, &source, 1e-3 * (i + 1), 0.01));
        course.called = tape.called - course.called;
        course.loss[i] = step_result(r.step).loss;
        course.norm[i] = step_result(r.step).grad_norm;
        if (changes->has_evaluations && i % 2 == 1) {
            EXPECT_OK(step_evaluate(r.step, &source));
            course.evaluated += step_result(r.step).loss;
        }
    }
    course.weights = sum_weights(r.step);
    course.recorded = tape.recorded;
    course.replayed = tape.replayed;
    rank_step_close(&r);
    ranks_close(&ranks);
    free(line);
    return course;
}

static struct replay_course compare(const char *flags, const struct changes *changes) {
    struct replay_course plain = run_flags(flags, changes, false), replayed = run_flags(flags, changes, true);
    EXPECT_INT(plain.recorded, 0);
    for (int i = 0; i < STEPS; i++) {
        EXPECT(plain.loss[i] == replayed.loss[i]);
        EXPECT(plain.norm[i] == replayed.norm[i] || (isnan(plain.norm[i]) && isnan(replayed.norm[i])));
    }
    EXPECT(plain.evaluated == replayed.evaluated);
    EXPECT(plain.weights == replayed.weights);
    EXPECT(plain.loss[0] != plain.loss[STEPS - 1]);
    return replayed;
}

TEST(replays_give_the_same_bits) {
    static const char *const models[] = {
        "--hidden-dropout 0 --attention-dropout 0",
        "--bf16",
        "--fp16 --initial-loss-scale 4194304",
        "--position-embedding-type rope --swiglu --normalization RMSNorm --disable-bias-linear "
        "--untie-embeddings-and-output-weights --group-query-attention --num-query-groups 1",
        "--recompute-granularity full --recompute-method uniform --recompute-num-layers 1",
        "--bf16 --fp8-format hybrid --ffn-hidden-size 64 --seq-length 32 --max-position-embeddings 32",
        "--bf16 --fp8-format hybrid --fp8-recipe tensorwise --ffn-hidden-size 64 --seq-length 32 "
        "--max-position-embeddings 32",
        "--use-distributed-optimizer",
        "--model bert --norm-placement post --activation gelu",
        "--model t5 --position-embedding-type relative --activation relu --gated-linear-unit --decoder-seq-length 16",
    };
    struct changes changes = {.has_evaluations = true, .micro_batches = {3, 3, 3, 3, 3, 3, 3, 3, 3}};
    for (size_t i = 0; i < sizeof models / sizeof models[0]; i++) {
        struct replay_course course = compare(models[i], &changes);
        // The first pass of a step, those in the middle, and the last are recorded after two runs of each.
        EXPECT(course.recorded == 3 || course.recorded == 4);
        EXPECT(course.replayed >= STEPS * 3 - 10);
    }
}

TEST(batches_of_other_sizes) {
    struct changes changes = {.micro_batches = {1, 1, 1, 1, 2, 2, 3, 3, 3}};
    struct replay_course course = compare("", &changes);
    EXPECT(course.recorded >= 3);
    changes = (struct changes){.micro_batches = {2, 2, 2, 2, 2, 2, 2, 2, 2}, .shorter_from = 4};
    course = compare("", &changes);
    EXPECT_INT(course.recorded, 4);
}

// A step of one micro-batch is one launch, from cleared gradients to new weights. Outside of it: its inputs are copied
// to their place, in fp16 their weights are scaled, in fp8 ranges move to a place that changes.
TEST(a_step_is_one_recording) {
    static const struct {
        const char *flags;
        int64_t called;
    } models[] = {
        {"", 1},
        {"--bf16", 1},
        {"--fp16 --initial-loss-scale 4194304", 2},
        {"--bf16 --fp8-format hybrid --ffn-hidden-size 64 --seq-length 32 --max-position-embeddings 32", 2},
        {"--model bert --norm-placement post --activation gelu", 1},
    };
    struct changes changes = {.micro_batches = {1, 1, 1, 1, 1, 1, 1, 1, 1}};
    for (size_t i = 0; i < sizeof models / sizeof models[0]; i++)
        EXPECT_INT(compare(models[i].flags, &changes).called, models[i].called);
    changes = (struct changes){.micro_batches = {3, 3, 3, 3, 3, 3, 3, 3, 3}};
    EXPECT_INT(compare("--bf16", &changes).called, 3);
}

TEST_MAIN(TEST_CASE(a_step_is_one_recording), TEST_CASE(replays_give_the_same_bits), TEST_CASE(batches_of_other_sizes))
