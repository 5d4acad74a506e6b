// Results of norms and activations that are kept because the device has room give the bits of a step that recomputes
// them in its backward pass. The device is a CPU that claims to have its own memory.
#include "ranks_step.h"
#include "step/internal.h"

#include <string.h>

enum { STEPS = 4 };

struct keep_course {
    double loss[STEPS], norm[STEPS];
    uint64_t weights;
    struct step_memory memory;
    bool keeps_results;
};

static size_t claimed_room;

static size_t claim_room(struct device *device) {
    (void)device;
    return claimed_room;
}

static struct keep_course run_flags(const char *flags, size_t room) {
    struct ranks ranks = {.place = {.rank = 0, .size = 1, .local_rank = 0, .local_size = 1}};
    struct rank_step r;
    EXPECT_OK(device_open(&ranks.device, &(struct device_options){.name = "cpu", .threads = 1}));
    EXPECT_OK(world_open(&ranks.world, &(struct world_options){.backend = "self"}, ranks.device));
    struct ops roomy = *ranks.device->ops;
    roomy.room = claim_room;
    claimed_room = room;
    ranks.device->ops = &roomy;
    char *line = memory_printf("--num-layers 3 --hidden-size 64 --num-attention-heads 2 --seq-length 16 --vocab-size "
                               "48 --max-position-embeddings 16 --micro-batch-size 2 --global-batch-size 4 %s",
                               flags);
    rank_step_open(&r, &ranks, line);
    struct keep_course course = {.memory = *step_memory(r.step), .keeps_results = r.step->keeps_results};
    struct step_source source = {.next = rank_step_next, .context = &r, .count = 2};
    for (int i = 0; i < STEPS; i++) {
        EXPECT_OK(step_train(r.step, &source, 1e-2, 0.01));
        course.loss[i] = step_result(r.step).loss;
        course.norm[i] = step_result(r.step).grad_norm;
        EXPECT_OK(step_evaluate(r.step, &source));
    }
    course.weights = sum_weights(r.step);
    rank_step_close(&r);
    ranks_close(&ranks);
    free(line);
    return course;
}

static const char *const models[] = {
    "",
    "--bf16",
    "--bf16 --activation gelu",
    "--bf16 --position-embedding-type rope --swiglu --normalization RMSNorm --disable-bias-linear",
};

TEST(the_same_bits) {
    for (size_t i = 0; i < sizeof models / sizeof models[0]; i++) {
        struct keep_course again = run_flags(models[i], 1), kept = run_flags(models[i], (size_t)1 << 40);
        // An activation that is fused with a matmul is always kept, and norms in 16 bits never are: then there is
        // nothing to compute again.
        bool is_fused = !strstr(models[i], "gelu") && !strstr(models[i], "swiglu");
        EXPECT(kept.keeps_results && again.keeps_results == is_fused);
        EXPECT(is_fused ? kept.memory.activations == again.memory.activations
                        : kept.memory.activations > again.memory.activations);
        for (int n = 0; n < STEPS; n++)
            EXPECT(kept.loss[n] == again.loss[n] && kept.norm[n] == again.norm[n]);
        EXPECT(kept.weights == again.weights);
        EXPECT(kept.loss[0] != kept.loss[2]);
    }
}

// Recompute that keeps results of attention does not repeat it, and changes no bit.
TEST(attention_is_kept_under_recompute) {
    const char *const methods[] = {"", "--recompute-method uniform --recompute-num-layers 2",
                                   "--recompute-method block --recompute-num-layers 2"};
    for (size_t i = 0; i < sizeof models / sizeof models[0]; i++)
        for (size_t k = 0; k < sizeof methods / sizeof methods[0]; k++) {
            char *line =
                memory_printf("%s --recompute-granularity full %s --attention-dropout 0.1", models[i], methods[k]);
            char *more = memory_printf("%s --recompute-keep-attention", line);
            struct keep_course again = run_flags(line, 1), kept = run_flags(more, 1);
            // Groups of two: the peak is in the recompute of the first, which is the last to have kept something.
            EXPECT(kept.memory.activations + (k == 1) > again.memory.activations);
            for (int n = 0; n < STEPS; n++)
                EXPECT(kept.loss[n] == again.loss[n] && kept.norm[n] == again.norm[n]);
            EXPECT(kept.weights == again.weights);
            free(line);
            free(more);
        }
}

// Inputs of layers that go to host memory and come back are the same bits.
TEST(inputs_go_to_the_host_and_back) {
    const char *const methods[] = {"--cpu-offloading", "--cpu-offloading --cpu-offloading-num-layers 1",
                                   "--cpu-offloading --recompute-method uniform --recompute-num-layers 2",
                                   "--cpu-offloading --recompute-method block --recompute-num-layers 2",
                                   "--cpu-offloading --recompute-keep-attention"};
    enum { ROWS = 2 * 16, WIDTH = 64 };  // of an input
    const size_t sent[] = {2, 1, 1, 1, 2};
    for (size_t i = 0; i < sizeof models / sizeof models[0]; i++) {
        size_t bytes = (size_t)ROWS * WIDTH * (strstr(models[i], "bf16") ? 2 : 4);
        char *line = memory_printf("%s --recompute-granularity full --hidden-dropout 0.1", models[i]);
        struct keep_course stays = run_flags(line, 1);
        EXPECT_INT((int64_t)stays.memory.offloaded, 0);
        for (size_t k = 0; k < sizeof methods / sizeof methods[0]; k++) {
            char *more = memory_printf("%s %s", line, methods[k]);
            struct keep_course goes = run_flags(more, 1);
            EXPECT_INT((int64_t)goes.memory.offloaded, (int64_t)(sent[k] * bytes));
            if (k == 0)
                EXPECT_INT((int64_t)(stays.memory.activations - goes.memory.activations), (int64_t)(2 * bytes));
            for (int n = 0; n < STEPS; n++)
                EXPECT(goes.loss[n] == stays.loss[n] && goes.norm[n] == stays.norm[n]);
            EXPECT(goes.weights == stays.weights);
            free(more);
        }
        free(line);
    }
}

static double attention_flops(const char *flags) {
    struct ranks paper = {.place = {.rank = 0, .size = 1, .local_rank = 0, .local_size = 1}};
    EXPECT_OK(device_open_twin(&paper.device, NULL));
    EXPECT_OK(world_open_twin(&paper.world, paper.device, 0, 1));
    struct rank_step r;
    char *line = memory_printf("--num-layers 3 --hidden-size 64 --num-attention-heads 2 --seq-length 64 --vocab-size "
                               "48 --micro-batch-size 2 --global-batch-size 2 %s",
                               flags);
    rank_step_open(&r, &paper, line);
    double before = device_totals(paper.device).attention_flops;
    (void)rank_step_train(&r, 1);
    double flops = device_totals(paper.device).attention_flops - before;
    rank_step_close(&r);
    ranks_close(&paper);
    free(line);
    return flops;
}

// The backward of attention is 2.5 times its forward, so that a step of 3.5 takes 4.5 with recompute.
TEST(kept_attention_is_not_counted_again) {
    double once = attention_flops(""), twice = attention_flops("--recompute-granularity full");
    EXPECT(once > 0);
    EXPECT_NEAR(twice / once, 4.5 / 3.5, 1e-6);
    EXPECT(attention_flops("--recompute-granularity full --recompute-keep-attention") == once);
}

// A tenth of the room stays free.
TEST(as_much_as_fits) {
    size_t needed = run_flags("--bf16 --activation gelu", (size_t)1 << 40).memory.total;
    EXPECT(run_flags("--bf16 --activation gelu", needed + needed / 8).keeps_results);
    EXPECT(!run_flags("--bf16 --activation gelu", needed + needed / 10).keeps_results);
}

TEST(not_where_recompute_is_asked_for) {
    EXPECT(!run_flags("--recompute-granularity selective", (size_t)1 << 40).keeps_results);
    EXPECT(
        !run_flags("--recompute-granularity selective --recompute-modules layernorm", (size_t)1 << 40).keeps_results);
    EXPECT(!run_flags("--recompute-granularity full", (size_t)1 << 40).keeps_results);
}

TEST_MAIN(TEST_CASE(the_same_bits), TEST_CASE(attention_is_kept_under_recompute),
          TEST_CASE(inputs_go_to_the_host_and_back), TEST_CASE(kept_attention_is_not_counted_again),
          TEST_CASE(as_much_as_fits), TEST_CASE(not_where_recompute_is_asked_for))
