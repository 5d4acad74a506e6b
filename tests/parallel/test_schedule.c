// Every schedule of up to 8 stages, 4 chunks and 32 micro-batches: complete, in a possible order, without deadlock,
// within its bound of activations, and with the bubble of the published formulas.
#include "parallel/schedule.h"
#include "test.h"

#include <math.h>

enum { MAX_STAGES = 8, MAX_CHUNKS = 4, MAX_MICRO_BATCHES = 32 };

static const struct schedule_cost plain = {.seconds = {1, 2, 1, 1}};

static int least(int a, int b) {
    return a < b ? a : b;
}

// Every item exactly once, backward after forward, weight half after input half, on each stage.
static void expect_complete(const struct schedule *schedule) {
    const struct schedule_shape *shape = &schedule->shape;
    bool has_halves = shape->kind == SCHEDULE_ZERO_BUBBLE;
    for (int stage = 0; stage < shape->stages; stage++) {
        static unsigned char seen[MAX_MICRO_BATCHES][MAX_CHUNKS][WORK_COUNT];
        memset(seen, 0, sizeof seen);
        const struct schedule_list *list = &schedule->stages[stage];
        EXPECT_INT(list->count, (has_halves ? 3 : 2) * shape->micro_batches * shape->chunks);
        for (int i = 0; i < list->count; i++) {
            struct schedule_item item = list->items[i];
            EXPECT(item.micro_batch >= 0 && item.micro_batch < shape->micro_batches);
            EXPECT(item.chunk >= 0 && item.chunk < shape->chunks);
            unsigned char *of = seen[item.micro_batch][item.chunk];
            EXPECT(!of[item.work]);
            EXPECT(has_halves ? item.work != WORK_BACKWARD : item.work <= WORK_BACKWARD);
            if (item.work == WORK_BACKWARD || item.work == WORK_BACKWARD_INPUT)
                EXPECT(of[WORK_FORWARD]);
            if (item.work == WORK_BACKWARD_WEIGHT)
                EXPECT(of[WORK_BACKWARD_INPUT]);
            of[item.work] = 1;
        }
    }
}

// What a stage sends is waited for by exactly that item of the other stage, and the other way round.
static void expect_messages_meet(const struct schedule *schedule) {
    const struct schedule_shape *shape = &schedule->shape;
    for (int stage = 0; stage < shape->stages; stage++)
        for (int i = 0; i < schedule->stages[stage].count; i++) {
            struct schedule_item item = schedule->stages[stage].items[i];
            struct schedule_message to = schedule_destination(shape, stage, item);
            if (to.stage < 0)
                continue;
            struct schedule_message back = schedule_origin(shape, to.stage, to.item);
            EXPECT_INT(back.stage, stage);
            EXPECT(back.item.work == item.work && back.item.micro_batch == item.micro_batch);
            EXPECT_INT(back.item.chunk, item.chunk);
        }
}

// Plays the lists with messages that arrive strictly in the order they were sent between two stages: a receiver keeps
// what arrives early, so order alone can never stop it, but every message must have been taken by the end.
static void expect_all_messages_taken(const struct schedule *schedule) {
    static int in_transit[MAX_STAGES][MAX_STAGES];
    memset(in_transit, 0, sizeof in_transit);
    const struct schedule_shape *shape = &schedule->shape;
    for (int stage = 0; stage < shape->stages; stage++)
        for (int i = 0; i < schedule->stages[stage].count; i++) {
            struct schedule_item item = schedule->stages[stage].items[i];
            struct schedule_message to = schedule_destination(shape, stage, item);
            struct schedule_message from = schedule_origin(shape, stage, item);
            if (to.stage >= 0)
                in_transit[stage][to.stage]++;
            if (from.stage >= 0)
                in_transit[from.stage][stage]--;
        }
    for (int a = 0; a < shape->stages; a++)
        for (int b = 0; b < shape->stages; b++)
            EXPECT_INT(in_transit[a][b], 0);
}

// Plays the lists over one channel each way between neighbours, as the runner has them: messages come out in the order
// they went in, and a sender that finds no room waits. There is room for two messages, and with groups larger than the
// stages for as many more. Nothing may deadlock, and every item must find its own message at the front.
struct channel_play {
    struct schedule_item waiting[2][MAX_STAGES][MAX_MICRO_BATCHES * MAX_CHUNKS];  // by kind and receiving stage
    int sent[2][MAX_STAGES], taken[2][MAX_STAGES];
    int next[MAX_STAGES];
};

static bool play_item(const struct schedule *schedule, struct channel_play *play, int stage) {
    const struct schedule_list *list = &schedule->stages[stage];
    if (play->next[stage] == list->count)
        return false;
    struct schedule_item item = list->items[play->next[stage]];
    int kind = item.work != WORK_FORWARD, room = 2 + schedule->shape.group - schedule->shape.stages;
    struct schedule_message from = schedule_origin(&schedule->shape, stage, item);
    struct schedule_message to = schedule_destination(&schedule->shape, stage, item);
    if ((from.stage >= 0 && play->sent[kind][stage] == play->taken[kind][stage]) ||
        (to.stage >= 0 && play->sent[kind][to.stage] - play->taken[kind][to.stage] >= room))
        return false;
    if (from.stage >= 0) {
        struct schedule_item first = play->waiting[kind][stage][play->taken[kind][stage]++];
        EXPECT_INT(first.micro_batch, item.micro_batch);
        EXPECT_INT(first.chunk, item.chunk);
    }
    if (to.stage >= 0)
        play->waiting[kind][to.stage][play->sent[kind][to.stage]++] = to.item;
    play->next[stage]++;
    return true;
}

static void expect_channels_suffice(const struct schedule *schedule) {
    static struct channel_play play;
    memset(&play, 0, sizeof play);
    for (bool is_moving = true; is_moving;) {
        is_moving = false;
        for (int stage = 0; stage < schedule->shape.stages; stage++)
            while (play_item(schedule, &play, stage))
                is_moving = true;
    }
    for (int stage = 0; stage < schedule->shape.stages; stage++)
        EXPECT_INT(play.next[stage], schedule->stages[stage].count);
}

static struct schedule_run expect_sound(const struct schedule *schedule, int in_flight[MAX_STAGES]) {
    struct schedule_run run;
    expect_complete(schedule);
    expect_channels_suffice(schedule);
    expect_messages_meet(schedule);
    expect_all_messages_taken(schedule);
    EXPECT_OK(schedule_simulate(schedule, &plain, &run, in_flight));
    return run;
}

TEST(one_forward_one_backward) {
    for (int P = 1; P <= MAX_STAGES; P++)
        for (int M = 1; M <= MAX_MICRO_BATCHES; M++) {
            struct schedule schedule;
            int in_flight[MAX_STAGES];
            EXPECT_OK(schedule_build(&schedule, &(struct schedule_shape){SCHEDULE_1F1B, P, 1, M, 0}));
            struct schedule_run run = expect_sound(&schedule, in_flight);
            EXPECT_NEAR(run.seconds, 3.0 * (M + P - 1), 1e-12);
            EXPECT_NEAR(run.bubble, 3.0 * (P - 1), 1e-12);
            for (int stage = 0; stage < P; stage++)
                EXPECT_INT(in_flight[stage], least(P - stage, M));
            schedule_free(&schedule);
        }
}

TEST(interleaved) {
    int built = 0;
    for (int P = 2; P <= MAX_STAGES; P++)
        for (int V = 2; V <= MAX_CHUNKS; V++)
            for (int M = 1; M <= MAX_MICRO_BATCHES; M++)
                for (int G = P; G <= 2 * P; G += P) {
                    struct schedule schedule;
                    struct schedule_shape shape = {SCHEDULE_INTERLEAVED, P, V, M, G};
                    bool is_legal = M % G == 0 || M % G >= P;
                    if (!is_legal) {
                        EXPECT_ERROR(schedule_build(&schedule, &shape), "micro-batches");
                        continue;
                    }
                    int in_flight[MAX_STAGES];
                    EXPECT_OK(schedule_build(&schedule, &shape));
                    struct schedule_run run = expect_sound(&schedule, in_flight);
                    EXPECT_NEAR(run.seconds, 3.0 * (M * V + P - 1), 1e-12);
                    EXPECT_NEAR(run.bubble, 3.0 * (P - 1), 1e-12);
                    for (int stage = 0; stage < P; stage++)
                        EXPECT(in_flight[stage] <= least((P - stage - 1) * 2 + (V - 1) * G + 1, M * V));
                    schedule_free(&schedule);
                    built++;
                }
    EXPECT(built > 300);
}

// Groups of other sizes than the stages, and a last one that is not full, keep more activations and the same bubble.
TEST(larger_groups) {
    for (int P = 2; P <= MAX_STAGES; P++)
        for (int V = 2; V <= MAX_CHUNKS; V++)
            for (int G = P + 1; G <= 2 * P; G++)
                for (int M = P; M <= MAX_MICRO_BATCHES; M++) {
                    struct schedule schedule;
                    int in_flight[MAX_STAGES];
                    if (M % G != 0 && M % G < P)
                        continue;
                    EXPECT_OK(schedule_build(&schedule, &(struct schedule_shape){SCHEDULE_INTERLEAVED, P, V, M, G}));
                    struct schedule_run run = expect_sound(&schedule, in_flight);
                    EXPECT_NEAR(run.bubble, 3.0 * (P - 1), 1e-12);
                    for (int stage = 0; stage < P; stage++)
                        EXPECT(in_flight[stage] <= least((P - stage - 1) * 2 + (V - 1) * G + 1, M * V));
                    schedule_free(&schedule);
                }
}

// With forward, input half and weight half of equal length the published bubble is (P - 1)(F + B - W).
TEST(zero_bubble) {
    for (int P = 1; P <= MAX_STAGES; P++)
        for (int M = 1; M <= MAX_MICRO_BATCHES; M++) {
            struct schedule schedule;
            int in_flight[MAX_STAGES];
            EXPECT_OK(schedule_build(&schedule, &(struct schedule_shape){SCHEDULE_ZERO_BUBBLE, P, 1, M, 0}));
            struct schedule_run run = expect_sound(&schedule, in_flight);
            if (M >= P) {
                EXPECT_NEAR(run.seconds, 3.0 * M + (P - 1), 1e-12);
                EXPECT_NEAR(run.bubble, P - 1, 1e-12);
            }
            EXPECT(run.seconds <= 3.0 * (M + P - 1));
            EXPECT(run.max_in_flight <= least(P, M));
            schedule_free(&schedule);
        }
}

TEST(impossible_shapes) {
    struct schedule schedule;
    EXPECT_ERROR(schedule_build(&schedule, &(struct schedule_shape){SCHEDULE_1F1B, 0, 1, 1, 0}), "at least 1");
    EXPECT_ERROR(schedule_build(&schedule, &(struct schedule_shape){SCHEDULE_1F1B, 2, 2, 4, 0}), "interleaved");
    EXPECT_ERROR(schedule_build(&schedule, &(struct schedule_shape){SCHEDULE_INTERLEAVED, 1, 2, 4, 0}),
                 "pipeline-model-parallel-size");
    EXPECT_ERROR(schedule_build(&schedule, &(struct schedule_shape){SCHEDULE_INTERLEAVED, 4, 2, 8, 2}), "group-size");
}

// A list that waits for itself is reported, not run for ever.
TEST(deadlock_is_found) {
    struct schedule schedule;
    EXPECT_OK(schedule_build(&schedule, &(struct schedule_shape){SCHEDULE_1F1B, 2, 1, 2, 0}));
    struct schedule_item *items = schedule.stages[1].items, first = items[0];
    items[0] = items[1];
    items[1] = first;
    struct schedule_run run;
    EXPECT_ERROR(schedule_simulate(&schedule, &plain, &run, NULL), "stage");
    schedule_free(&schedule);
}

TEST_MAIN(TEST_CASE(one_forward_one_backward), TEST_CASE(interleaved), TEST_CASE(larger_groups), TEST_CASE(zero_bubble),
          TEST_CASE(impossible_shapes), TEST_CASE(deadlock_is_found))
