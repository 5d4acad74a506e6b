// Every schedule of up to 8 stages, 4 chunks and 32 micro-batches: complete, in a possible order, without deadlock,
// within its bound of activations, and with the bubble of the published formulas. The other work of a step is in the
// lists once and in order, the same on all stages.
#include "parallel/schedule.h"
#include "test.h"

#include <math.h>

enum { MAX_STAGES = 8, MAX_CHUNKS = 4, MAX_MICRO_BATCHES = 32, MAX_BUCKETS = 3 };

static const struct schedule_cost plain = {
    .seconds = {[WORK_FORWARD] = 1, [WORK_BACKWARD] = 2, [WORK_BACKWARD_INPUT] = 1, [WORK_BACKWARD_WEIGHT] = 1}};

static struct schedule_shape shape_of(enum schedule_kind kind, int stages, int chunks, int micro_batches, int group) {
    return (struct schedule_shape){
        .kind = kind, .stages = stages, .chunks = chunks, .micro_batches = micro_batches, .group = group};
}

static bool is_pass(enum work work) {
    return work >= WORK_FORWARD && work <= WORK_BACKWARD_WEIGHT;
}

static int build(struct schedule *schedule, struct schedule_shape shape) {
    return schedule_build(schedule, &shape);
}

static int least(int a, int b) {
    return a < b ? a : b;
}

// Every pass exactly once, backward after forward, weight half after input half, on each stage.
static void expect_complete(const struct schedule *schedule) {
    const struct schedule_shape *shape = &schedule->shape;
    bool has_halves = shape->kind == SCHEDULE_ZERO_BUBBLE;
    for (int stage = 0; stage < shape->stages; stage++) {
        static unsigned char seen[MAX_MICRO_BATCHES][MAX_CHUNKS][WORK_COUNT];
        memset(seen, 0, sizeof seen);
        const struct schedule_list *list = &schedule->stages[stage];
        int passes = 0;
        for (int i = 0; i < list->count; i++) {
            struct schedule_item item = list->items[i];
            if (!is_pass(item.work))
                continue;
            passes++;
            EXPECT(item.micro_batch >= 0 && item.micro_batch < shape->micro_batches);
            EXPECT(item.chunk >= 0 && item.chunk < shape->chunks);
            unsigned char *of = seen[item.micro_batch][item.chunk];
            EXPECT(!of[item.work]);
            EXPECT(item.work == WORK_FORWARD || has_halves == (item.work != WORK_BACKWARD));
            if (item.work == WORK_BACKWARD || item.work == WORK_BACKWARD_INPUT)
                EXPECT(of[WORK_FORWARD]);
            if (item.work == WORK_BACKWARD_WEIGHT)
                EXPECT(of[WORK_BACKWARD_INPUT]);
            of[item.work] = 1;
        }
        EXPECT_INT(passes, (has_halves ? 3 : 2) * shape->micro_batches * shape->chunks);
    }
}

// The inputs of every micro-batch come once, in order, just before its first pass, and there are at most as many at
// once as flights; the step begins between the first inputs and the first pass.
static void expect_inputs(const struct schedule_shape *shape, const struct schedule_list *list) {
    int loaded = 0, held = 0, begun = 0;
    for (int i = 0; i < list->count; i++) {
        struct schedule_item item = list->items[i];
        if (item.work == WORK_LOAD) {
            EXPECT_INT(item.micro_batch, loaded);
            int first = i + 1 + (loaded++ == 0);
            EXPECT(list->items[first].work == WORK_FORWARD && list->items[first].chunk == 0);
            EXPECT_INT(list->items[first].micro_batch, item.micro_batch);
            held++;
        }
        if (item.work == WORK_BEGIN)
            EXPECT(begun++ == 0 && i > 0 && list->items[i - 1].work == WORK_LOAD && loaded == 1);
        if (is_pass(item.work) && item.work != WORK_BACKWARD_WEIGHT)
            EXPECT(begun == 1 && item.micro_batch < loaded);
        held -= schedule_ends_batch(shape, item);
        EXPECT(held >= 0);
    }
    EXPECT(loaded == shape->micro_batches && held == 0 && begun == 1);
}

// The items after the passes, written by hand: the kinds of work in order, and the number of buckets.
static void expect_end(const struct schedule_shape *shape, const struct schedule_list *list) {
    enum work want[2 * MAX_BUCKETS + 6];
    int count = 0, bucket = 0;
    if (!shape->is_evaluation)
        want[count++] = WORK_REDUCE;
    want[count++] = WORK_TOTALS;
    if (!shape->is_evaluation) {
        want[count++] = WORK_CLIP;
        if (shape->buckets == 0)
            want[count++] = WORK_UPDATE;
        for (int n = 0; n < shape->buckets; n++) {
            want[count++] = WORK_UPDATE;
            want[count++] = WORK_GATHER;
        }
        if (shape->has_ranges)
            want[count++] = WORK_RANGES;
    }
    want[count++] = WORK_REPORT;
    EXPECT(is_pass(list->items[list->count - count - 1].work));
    for (int n = 0; n < count; n++) {
        struct schedule_item item = list->items[list->count - count + n];
        EXPECT_INT(item.work, want[n]);
        if (item.work == WORK_UPDATE)
            EXPECT_INT(item.bucket, bucket++);
        if (item.work == WORK_GATHER)
            EXPECT_INT(item.bucket, bucket - 1);
        EXPECT(schedule_origin(shape, 0, item).stage < 0 && schedule_destination(shape, 0, item).stage < 0);
    }
}

// The forward passes of an evaluation are those of a training step, in the same order.
static void expect_evaluation(const struct schedule *training) {
    struct schedule schedule;
    struct schedule_shape shape = training->shape;
    struct schedule_run run;
    shape.is_evaluation = true;
    EXPECT_OK(build(&schedule, shape));
    for (int stage = 0; stage < shape.stages; stage++) {
        const struct schedule_list *list = &schedule.stages[stage], *whole = &training->stages[stage];
        expect_inputs(&shape, list);
        expect_end(&shape, list);
        int k = 0;
        for (int i = 0; i < list->count; i++) {
            EXPECT(list->items[i].work <= WORK_FORWARD || list->items[i].work > WORK_BACKWARD_WEIGHT);
            if (list->items[i].work != WORK_FORWARD)
                continue;
            while (whole->items[k].work != WORK_FORWARD)
                k++;
            EXPECT_INT(list->items[i].micro_batch, whole->items[k].micro_batch);
            EXPECT_INT(list->items[i].chunk, whole->items[k++].chunk);
        }
    }
    EXPECT_OK(schedule_simulate(&schedule, &plain, &run, NULL));
    EXPECT_INT(run.max_in_flight, 0);
    schedule_free(&schedule);
}

static void expect_whole_step(const struct schedule *schedule) {
    const struct schedule_shape *shape = &schedule->shape;
    for (int stage = 0; stage < shape->stages; stage++) {
        const struct schedule_list *list = &schedule->stages[stage];
        EXPECT_INT(list->items[0].work, WORK_PREPARE);
        EXPECT_INT(list->items[1].work, WORK_LOAD);
        expect_inputs(shape, list);
        expect_end(shape, list);
    }
    expect_evaluation(schedule);
}

// Each message that a stage sends is expected by exactly that item of the other stage, and vice versa.
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

// Simulates the lists with messages that arrive strictly in the order they were sent between two stages: a receiver
// keeps what arrives early, so order alone can never block it, but every message must have been taken by the end.
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

// Simulates the lists over one channel in each direction between neighbours, as in the runner: messages come out in the
// order they went in, and a sender waits if there is no room. There is room for two messages, and with groups larger
// than the stages for as many more. Nothing may deadlock, and every item must find its own message at the front.
struct channel_play {
    struct schedule_item waiting[2][MAX_STAGES][MAX_MICRO_BATCHES * MAX_CHUNKS];  // by kind and receiving stage
    int sent[2][MAX_STAGES], taken[2][MAX_STAGES];
    int next[MAX_STAGES];
};

static bool can_play(const struct schedule *schedule, const struct channel_play *play, int stage,
                     struct schedule_item item) {
    int kind = work_is_backward(item.work), room = 2 + schedule->shape.group - schedule->shape.stages;
    struct schedule_message from = schedule_origin(&schedule->shape, stage, item);
    struct schedule_message to = schedule_destination(&schedule->shape, stage, item);
    return (from.stage < 0 || play->sent[kind][stage] > play->taken[kind][stage]) &&
           (to.stage < 0 || play->sent[kind][to.stage] - play->taken[kind][to.stage] < room);
}

static void play_item(const struct schedule *schedule, struct channel_play *play, int stage,
                      struct schedule_item item) {
    int kind = work_is_backward(item.work);
    struct schedule_message from = schedule_origin(&schedule->shape, stage, item);
    struct schedule_message to = schedule_destination(&schedule->shape, stage, item);
    if (from.stage >= 0) {
        struct schedule_item first = play->waiting[kind][stage][play->taken[kind][stage]++];
        EXPECT_INT(first.micro_batch, item.micro_batch);
        EXPECT_INT(first.chunk, item.chunk);
    }
    if (to.stage >= 0)
        play->waiting[kind][to.stage][play->sent[kind][to.stage]++] = to.item;
}

// The next item, or pair: both parts have what they wait for before either begins.
static bool play_next(const struct schedule *schedule, struct channel_play *play, int stage) {
    const struct schedule_list *list = &schedule->stages[stage];
    if (play->next[stage] == list->count)
        return false;
    const struct schedule_item *items = &list->items[play->next[stage]];
    int together = items->is_paired ? 2 : 1;
    for (int i = 0; i < together; i++)
        if (!can_play(schedule, play, stage, items[i]))
            return false;
    for (int i = 0; i < together; i++)
        play_item(schedule, play, stage, items[i]);
    play->next[stage] += together;
    return true;
}

static void expect_channels_suffice(const struct schedule *schedule) {
    static struct channel_play play;
    memset(&play, 0, sizeof play);
    for (bool is_moving = true; is_moving;) {
        is_moving = false;
        for (int stage = 0; stage < schedule->shape.stages; stage++)
            while (play_next(schedule, &play, stage))
                is_moving = true;
    }
    for (int stage = 0; stage < schedule->shape.stages; stage++)
        EXPECT_INT(play.next[stage], schedule->stages[stage].count);
}

static void note_in_flight(void *context, const struct schedule_span *span) {
    int *most = (int *)context + span->stage;
    *most = span->in_flight > *most ? span->in_flight : *most;
}

static struct schedule_run expect_sound(const struct schedule *schedule, int in_flight[MAX_STAGES]) {
    struct schedule_run run;
    expect_complete(schedule);
    expect_channels_suffice(schedule);
    expect_messages_meet(schedule);
    expect_all_messages_taken(schedule);
    expect_whole_step(schedule);
    memset(in_flight, 0, sizeof *in_flight * MAX_STAGES);
    EXPECT_OK(schedule_simulate(schedule, &plain, &run, &(struct schedule_watcher){note_in_flight, in_flight}));
    return run;
}

TEST(one_forward_one_backward) {
    for (int P = 1; P <= MAX_STAGES; P++)
        for (int M = 1; M <= MAX_MICRO_BATCHES; M++) {
            struct schedule schedule;
            int in_flight[MAX_STAGES];
            EXPECT_OK(build(&schedule, shape_of(SCHEDULE_1F1B, P, 1, M, 0)));
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
                    struct schedule_shape shape = shape_of(SCHEDULE_INTERLEAVED, P, V, M, G);
                    bool is_legal = M == 1 || M % G == 0 || M % G >= P;
                    if (!is_legal) {
                        EXPECT_ERROR(schedule_build(&schedule, &shape), "micro-batches");
                        continue;
                    }
                    int in_flight[MAX_STAGES];
                    EXPECT_OK(schedule_build(&schedule, &shape));
                    struct schedule_run run = expect_sound(&schedule, in_flight);
                    // One micro-batch alone goes from stage to stage.
                    int idle = M == 1 ? (P - 1) * V : P - 1;
                    EXPECT_NEAR(run.seconds, 3.0 * (M * V + idle), 1e-12);
                    EXPECT_NEAR(run.bubble, 3.0 * idle, 1e-12);
                    for (int stage = 0; stage < P; stage++)
                        EXPECT(in_flight[stage] <= least((P - stage - 1) * 2 + (V - 1) * G + 1, M * V));
                    schedule_free(&schedule);
                    built++;
                }
    EXPECT(built > 300);
}

// Groups of other sizes than the stages, and a last one that is not full, keep more activations and have the same
// bubble.
TEST(larger_groups) {
    for (int P = 2; P <= MAX_STAGES; P++)
        for (int V = 2; V <= MAX_CHUNKS; V++)
            for (int G = P + 1; G <= 2 * P; G++)
                for (int M = P; M <= MAX_MICRO_BATCHES; M++) {
                    struct schedule schedule;
                    int in_flight[MAX_STAGES];
                    if (M % G != 0 && M % G < P)
                        continue;
                    EXPECT_OK(build(&schedule, shape_of(SCHEDULE_INTERLEAVED, P, V, M, G)));
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
            EXPECT_OK(build(&schedule, shape_of(SCHEDULE_ZERO_BUBBLE, P, 1, M, 0)));
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

// Every forward after the first ones is paired with the backward behind it, of another micro-batch or chunk; returns
// how many pairs there are on all stages.
static int expect_pairs(const struct schedule *schedule) {
    int pairs = 0;
    for (int stage = 0; stage < schedule->shape.stages; stage++) {
        const struct schedule_list *list = &schedule->stages[stage];
        bool had_backward = false;
        for (int i = 0; i < list->count; i++) {
            const struct schedule_item *items = &list->items[i];
            had_backward = had_backward || items->work == WORK_BACKWARD;
            if (items->work == WORK_FORWARD)
                EXPECT(!had_backward || items->is_paired);
            if (!items->is_paired)
                continue;
            EXPECT(items[0].work == WORK_FORWARD && items[1].work == WORK_BACKWARD && items[1].is_paired);
            EXPECT(items[0].micro_batch != items[1].micro_batch || items[0].chunk != items[1].chunk);
            pairs++;
            i++;
            had_backward = true;
        }
    }
    return pairs;
}

// A pair takes as long as its two passes here: the bubble is that without pairs. One more forward is in flight.
TEST(pairs) {
    for (int P = 1; P <= MAX_STAGES; P++)
        for (int V = P > 1 ? 2 : 1; V <= (P > 1 ? MAX_CHUNKS : 1); V++)
            for (int G = P; G <= 2 * P && (P > 1 || G == P); G++)
                for (int M = 1; M <= MAX_MICRO_BATCHES; M++) {
                    struct schedule schedule;
                    struct schedule_shape shape = shape_of(P > 1 ? SCHEDULE_INTERLEAVED : SCHEDULE_1F1B, P, V, M, G);
                    int in_flight[MAX_STAGES], want = 0;
                    if (M % G != 0 && M % G < P)
                        continue;
                    shape.has_pairs = true;
                    EXPECT_OK(build(&schedule, shape));
                    struct schedule_run run = expect_sound(&schedule, in_flight);
                    for (int stage = 0; stage < P; stage++) {
                        int first = least((P - stage - 1) * 2 + (V - 1) * G + 1, M * V);
                        EXPECT(in_flight[stage] <= least(first + 1, M * V));
                        want += M * V - first;
                    }
                    EXPECT_INT(expect_pairs(&schedule), want);
                    EXPECT_NEAR(run.bubble, 3.0 * (P - 1), 1e-12);
                    schedule_free(&schedule);
                }
}

// Passes do not depend on how the update is distributed; a distributed one is gathered bucket by bucket.
TEST(divided_updates) {
    static const enum schedule_kind kinds[] = {SCHEDULE_1F1B, SCHEDULE_INTERLEAVED, SCHEDULE_ZERO_BUBBLE};
    for (int k = 0; k < 3; k++)
        for (int buckets = 0; buckets <= MAX_BUCKETS; buckets++)
            for (int has_ranges = 0; has_ranges < 2; has_ranges++) {
                struct schedule schedule;
                struct schedule_shape shape = shape_of(kinds[k], 4, kinds[k] == SCHEDULE_INTERLEAVED ? 2 : 1, 8, 0);
                int in_flight[MAX_STAGES];
                shape.buckets = buckets;
                shape.has_ranges = has_ranges;
                EXPECT_OK(build(&schedule, shape));
                expect_sound(&schedule, in_flight);
                schedule_free(&schedule);
            }
}

TEST(impossible_shapes) {
    const struct schedule_shape shapes[] = {
        shape_of(SCHEDULE_1F1B, 0, 1, 1, 0),
        shape_of(SCHEDULE_1F1B, 2, 1, 0, 0),
        shape_of(SCHEDULE_1F1B, 2, 2, 4, 0),
        shape_of(SCHEDULE_INTERLEAVED, 1, 2, 4, 0),
        shape_of(SCHEDULE_INTERLEAVED, 4, 2, 8, 2),
        {.kind = SCHEDULE_1F1B, .stages = 2, .chunks = 1, .micro_batches = 4, .has_pairs = true},
        {.kind = SCHEDULE_ZERO_BUBBLE, .stages = 2, .chunks = 1, .micro_batches = 4, .has_pairs = true}};
    struct schedule schedule;
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++)
        EXPECT_ERROR(schedule_build(&schedule, &shapes[i]), "no such schedule");
}

// A list that waits for itself is reported, not run forever.
TEST(deadlock_is_found) {
    struct schedule schedule;
    EXPECT_OK(build(&schedule, shape_of(SCHEDULE_1F1B, 2, 1, 2, 0)));
    struct schedule_item *items = schedule.stages[1].items + 3, first = items[0];  // after PREPARE, LOAD and BEGIN
    EXPECT(first.work == WORK_FORWARD && items[1].work == WORK_BACKWARD);
    items[0] = items[1];
    items[1] = first;
    struct schedule_run run;
    EXPECT_ERROR(schedule_simulate(&schedule, &plain, &run, NULL), "stage");
    schedule_free(&schedule);
}

TEST_MAIN(TEST_CASE(one_forward_one_backward), TEST_CASE(interleaved), TEST_CASE(larger_groups), TEST_CASE(zero_bubble),
          TEST_CASE(pairs), TEST_CASE(divided_updates), TEST_CASE(impossible_shapes), TEST_CASE(deadlock_is_found))
