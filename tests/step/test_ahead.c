// Steps that are queued before the results of earlier ones are known: whatever is skipped in between, they give the
// bits of steps that wait for each other, and the pace of each update is that of the updates actually made.
#include "ranks_step.h"
#include "step/internal.h"

#include <math.h>

enum { STEPS = 14 };

// Overflows at first: the initial loss scale is too large for 16-bit gradients.
static const char *const FLAGS = "--num-layers 2 --hidden-size 32 --num-attention-heads 2 --seq-length 16 --fp16 "
                                 "--max-position-embeddings 16 --micro-batch-size 2 --global-batch-size 4 "
                                 "--vocab-size 48 --initial-loss-scale 4194304 --loss-scale-window 4 "
                                 "--hysteresis 1";

struct ahead_course {
    double loss[STEPS], norm[STEPS], scale[STEPS];
    int64_t made;
    int skipped;
    uint64_t weights;  // a sum over their bits
};

static void open_one(struct ranks *ranks) {
    *ranks = (struct ranks){.place = {.rank = 0, .size = 1, .local_rank = 0, .local_size = 1}};
    EXPECT_OK(device_open(&ranks->device, &(struct device_options){.name = "cpu", .threads = 1}));
    EXPECT_OK(world_open(&ranks->world, &(struct world_options){.backend = "self"}, ranks->device));
}

static struct pace pace_of(int64_t updates) {
    return (struct pace){.lr = 1e-2 / (double)(1 + updates), .weight_decay = 0.1 * (double)updates};
}

static struct ahead_course run_ahead(int ahead) {
    struct ranks ranks;
    struct rank_step r;
    struct ahead_course course = {0};
    open_one(&ranks);
    rank_step_open(&r, &ranks, FLAGS);
    struct step_source source = {.next = rank_step_next, .context = &r, .count = 2};
    for (int queued = 0, taken = 0; taken < STEPS;) {
        int pending = step_pending(r.step);
        if (queued < STEPS && pending <= ahead) {
            struct pace paces[STEP_MOST_AHEAD + 1];
            for (int skipped = 0; skipped <= pending; skipped++)
                paces[skipped] = pace_of(course.made + pending - skipped);
            EXPECT_OK(step_train_paced(r.step, &source, paces));
            queued++;
            continue;
        }
        struct step_result result = step_take_result(r.step);
        bool is_skipped = !isfinite(result.grad_norm);
        course.loss[taken] = result.loss;
        course.norm[taken] = is_skipped ? -1 : result.grad_norm;
        course.scale[taken++] = result.loss_scale;
        course.skipped += is_skipped;
        course.made += !is_skipped;
        EXPECT(result.tokens == 64);
    }
    EXPECT_INT(step_counters(r.step).updates, course.made);
    EXPECT_INT(r.step->updates.skipped, course.skipped);
    course.weights = sum_weights(r.step);
    rank_step_close(&r);
    ranks_close(&ranks);
    return course;
}

TEST(steps_queued_ahead_give_the_same_bits) {
    struct ahead_course one_by_one = run_ahead(0);
    printf("    %d skipped, %d made\n", one_by_one.skipped, (int)one_by_one.made);
    EXPECT(one_by_one.skipped >= 3 && one_by_one.made >= 4);
    EXPECT(one_by_one.scale[STEPS - 1] < 4194304.0);
    for (int ahead = 1; ahead <= STEP_MOST_AHEAD; ahead++) {
        struct ahead_course course = run_ahead(ahead);
        for (int i = 0; i < STEPS; i++) {
            EXPECT(course.loss[i] == one_by_one.loss[i]);
            EXPECT(course.norm[i] == one_by_one.norm[i]);
            EXPECT(course.scale[i] == one_by_one.scale[i]);
        }
        EXPECT_INT(course.skipped, one_by_one.skipped);
        EXPECT(course.weights == one_by_one.weights);
    }
}

// If only the last result is needed, any number of steps may be queued.
TEST(results_that_nobody_takes) {
    struct ranks ranks;
    struct rank_step seen, unseen;
    open_one(&ranks);
    rank_step_open(&seen, &ranks, FLAGS);
    rank_step_open(&unseen, &ranks, FLAGS);
    struct step_source source = {.next = rank_step_next, .context = &unseen, .count = 2};
    struct step_result last = {0};
    for (int i = 0; i < STEPS; i++) {
        last = rank_step_train(&seen, 2);
        EXPECT_OK(step_train(unseen.step, &source, 1e-3, 0.01));
        EXPECT(step_pending(unseen.step) <= STEP_MOST_AHEAD + 1);
    }
    EXPECT(step_result(unseen.step).loss == last.loss && step_result(unseen.step).grad_norm == last.grad_norm);
    EXPECT_INT(step_pending(unseen.step), 0);
    EXPECT_INT(step_counters(unseen.step).updates, step_counters(seen.step).updates);
    EXPECT(sum_weights(unseen.step) == sum_weights(seen.step));
    EXPECT_OK(step_evaluate(seen.step, &source));
    EXPECT(step_result(seen.step).grad_norm == 0 && step_result(seen.step).tokens == 64);
    rank_step_close(&seen);
    rank_step_close(&unseen);
    ranks_close(&ranks);
}

TEST_MAIN(TEST_CASE(steps_queued_ahead_give_the_same_bits), TEST_CASE(results_that_nobody_takes))
