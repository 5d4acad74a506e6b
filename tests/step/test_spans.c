// The spans of a step: one per item of its list, apart from each other, on a CPU and on a device that works on its own
// and records; and the same bits with and without them.
#include "base/clock.h"
#include "ranks_step.h"
#include "step/spans.h"
#include "tape.h"

enum { STEPS = 5, MOST_STAMPS = 4096 };

// The clock of a GPU, as far as a CPU can play one: a stamp is the time of the call, and there is none in a recording.
static struct {
    double seconds[MOST_STAMPS + 1];
    int64_t count;
    int depth, most_depth;
} clock_state;

static void fake_start(struct device *device, int64_t most) {
    (void)device;
    EXPECT(most <= MOST_STAMPS);
    clock_state.count = 0;
}

static void fake_stop(struct device *device) {
    (void)device;
}

static int64_t fake_stamp(struct device *device, void *stream) {
    (void)device, (void)stream;
    EXPECT(clock_state.count < MOST_STAMPS);
    if (tape.now)
        return 0;
    clock_state.seconds[++clock_state.count] = clock_seconds();
    return clock_state.count;
}

static bool fake_read(struct device *device, int64_t stamp, double *seconds) {
    (void)device;
    *seconds = clock_state.seconds[stamp];
    return stamp > 0 && stamp <= clock_state.count;
}

static void fake_announce(struct device *device, bool is_on) {
    (void)device, (void)is_on;
}

static void fake_push(const char *name) {
    EXPECT(name && name[0]);
    if (++clock_state.depth > clock_state.most_depth)
        clock_state.most_depth = clock_state.depth;
}

static void fake_pop(void) {
    clock_state.depth--;
}

static void *fake_stream(struct device *device, enum stream stream) {
    (void)stream;
    return device;
}

static const struct device_clock fake_clock = {.start = fake_start,
                                               .stop = fake_stop,
                                               .stamp = fake_stamp,
                                               .read = fake_read,
                                               .announce = fake_announce,
                                               .push_range = fake_push,
                                               .pop_range = fake_pop};

struct spans_course {
    double loss[STEPS];
    uint64_t weights;
    struct trace_event events[2048];
    int count;
    int64_t items;  // of the lists that were run, as the trace has them
};

static void run_steps(struct spans_course *course, const char *flags, bool is_traced, bool has_clock) {
    struct ranks ranks = {.place = {.rank = 0, .size = 1, .local_rank = 0, .local_size = 1}};
    struct rank_step r;
    *course = (struct spans_course){0};
    EXPECT_OK(device_open(&ranks.device, &(struct device_options){.name = "cpu", .threads = 1}));
    EXPECT_OK(world_open(&ranks.world, &(struct world_options){.backend = "self"}, ranks.device));
    char *line =
        memory_printf("--num-layers 2 --hidden-size 32 --num-attention-heads 2 --seq-length 16 --vocab-size 48 "
                      "--max-position-embeddings 16 --micro-batch-size 2 --global-batch-size 4 %s",
                      flags);
    tape_put_on(ranks.device);
    if (has_clock) {
        tape.table.clock = &fake_clock;
        tape.table.native_stream = fake_stream;
    }
    rank_step_open(&r, &ranks, line);
    device_clock_start(ranks.device, MOST_STAMPS);
    if (is_traced)
        trace_open(2048);
    for (int i = 0; i < STEPS; i++) {
        trace_set_iteration(i);
        course->loss[i] = rank_step_train(&r, 2).loss;
    }
    while (trace_take(&course->events[course->count], INT64_MAX))
        course->count++;
    EXPECT_INT(trace_take_lost(), 0);
    trace_close();
    course->weights = sum_weights(r.step);
    device_clock_stop(ranks.device);
    rank_step_close(&r);
    ranks_close(&ranks);
    free(line);
}

static int count_spans(const struct spans_course *course, int track, int tag) {
    int count = 0;
    for (int i = 0; i < course->count; i++)
        count += course->events[i].track == track && course->events[i].tag == tag;
    return count;
}

// The items of a track follow each other, and what is inner lies within one of them.
static void expect_apart(const struct spans_course *course, int track) {
    double last = 0, inner_start = INFINITY, inner_end = 0;
    for (int i = 0; i < course->count; i++) {
        const struct trace_event *event = &course->events[i];
        double start = event->start, end = event->end;
        if (event->track != track)
            continue;
        if (event->stamps[0])
            EXPECT(fake_read(NULL, event->stamps[0], &start) && fake_read(NULL, event->stamps[1], &end));
        EXPECT(start <= end && start >= last);
        if (event->is_inner) {
            inner_start = start < inner_start ? start : inner_start;
            inner_end = end;
            continue;
        }
        EXPECT(inner_end == 0 || (inner_start >= start && inner_end <= end));
        last = end;
        inner_start = INFINITY;
        inner_end = 0;
    }
}

static struct spans_course plain, traced;

TEST(every_item_has_a_span) {
    run_steps(&plain, "--no-cuda-graph", false, false);
    run_steps(&traced, "--no-cuda-graph", true, false);
    EXPECT_INT(plain.count, 0);
    EXPECT(memcmp(plain.loss, traced.loss, sizeof plain.loss) == 0 && plain.weights == traced.weights);
    EXPECT_INT(count_spans(&traced, TRACK_HOST, 1 + WORK_FORWARD), 2 * STEPS);
    EXPECT_INT(count_spans(&traced, TRACK_HOST, 1 + WORK_BACKWARD), 2 * STEPS);
    EXPECT_INT(count_spans(&traced, TRACK_HOST, 1 + WORK_LOAD), 2 * STEPS);
    EXPECT_INT(count_spans(&traced, TRACK_HOST, STEP_TAG_DATA), 2 * STEPS);
    EXPECT_INT(count_spans(&traced, TRACK_HOST, 1 + WORK_CLIP), STEPS);
    EXPECT_INT(count_spans(&traced, TRACK_HOST, 1 + WORK_UPDATE), STEPS);
    EXPECT_INT(count_spans(&traced, TRACK_DEVICE, 1 + WORK_FORWARD), 0);
    expect_apart(&traced, TRACK_HOST);
}

TEST(a_device_with_a_clock_has_spans_of_its_own) {
    run_steps(&plain, "--no-cuda-graph", false, true);
    EXPECT_INT(clock_state.count, 0);
    run_steps(&traced, "--no-cuda-graph", true, true);
    EXPECT(memcmp(plain.loss, traced.loss, sizeof plain.loss) == 0 && plain.weights == traced.weights);
    EXPECT_INT(count_spans(&traced, TRACK_DEVICE, 1 + WORK_FORWARD), 2 * STEPS);
    // What the host took to ask for it counts for no timer.
    EXPECT_INT(count_spans(&traced, TRACK_HOST, 1 + WORK_FORWARD), 0);
    expect_apart(&traced, TRACK_DEVICE);
    expect_apart(&traced, TRACK_HOST);
    EXPECT_INT(clock_state.depth, 0);
    EXPECT_INT(clock_state.most_depth, 2);
}

// The third run of a range is recorded, and from then on it is one span.
TEST(a_replay_is_one_span) {
    run_steps(&plain, "", false, true);
    run_steps(&traced, "", true, true);
    EXPECT(tape.replayed > 0);
    EXPECT(memcmp(plain.loss, traced.loss, sizeof plain.loss) == 0 && plain.weights == traced.weights);
    EXPECT_INT(count_spans(&traced, TRACK_DEVICE, STEP_TAG_RECORDED), tape.replayed);
    EXPECT_INT(count_spans(&traced, TRACK_DEVICE, 1 + WORK_FORWARD), 2 * STEPS - tape.replayed);
    expect_apart(&traced, TRACK_DEVICE);
}

TEST_MAIN(TEST_CASE(every_item_has_a_span), TEST_CASE(a_device_with_a_clock_has_spans_of_its_own),
          TEST_CASE(a_replay_is_one_span))
