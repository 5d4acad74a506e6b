// The named rank and its cause, for ranks with known times; and Megatron's lines of timers.
#include "recovery/stragglers.h"
#include "step/spans.h"
#include "test.h"
#include "train/tracing.h"

enum { RANKS = 4 };

// Steps of 100 ms in which every rank computes for 80 and waits for 20.
static void set_alike(struct rank_times ranks[RANKS]) {
    for (int i = 0; i < RANKS; i++)
        ranks[i] = (struct rank_times){.step = 0.1, .wait = 0.02, .data = 0.0001, .stall = 0.001};
}

TEST(ranks_that_are_alike) {
    struct rank_times ranks[RANKS];
    set_alike(ranks);
    EXPECT_INT(stragglers_find(ranks, RANKS).rank, -1);
    ranks[2].wait = 0.011;  // later by less than a tenth of the step
    EXPECT_INT(stragglers_find(ranks, RANKS).rank, -1);
    EXPECT_INT(stragglers_find(ranks, 1).rank, -1);
    EXPECT_INT(stragglers_find(ranks, 0).rank, -1);
    for (int i = 0; i < RANKS; i++)
        ranks[i] = (struct rank_times){0};
    EXPECT_INT(stragglers_find(ranks, RANKS).rank, -1);
}

// Rank 2 is later by 40 ms, for one reason or another; the others wait for it.
static struct straggler find_late(double data, double stall) {
    struct rank_times ranks[RANKS];
    set_alike(ranks);
    for (int i = 0; i < RANKS; i++)
        ranks[i].step = 0.14;
    ranks[0].wait = ranks[1].wait = ranks[3].wait = 0.06;
    ranks[2].data += data;
    ranks[2].stall += stall;
    struct straggler found = stragglers_find(ranks, RANKS);
    EXPECT_INT(found.rank, 2);
    EXPECT_NEAR(found.late, 0.04, 1e-9);
    EXPECT_NEAR(found.share, 0.04 / 0.14, 1e-9);
    return found;
}

TEST(causes) {
    EXPECT_INT(find_late(0, 0).cause, CAUSE_COMPUTE);
    EXPECT_INT(find_late(0.03, 0).cause, CAUSE_DATA);
    EXPECT_INT(find_late(0, 0.03).cause, CAUSE_HOST);
    EXPECT_INT(find_late(0.01, 0.01).cause, CAUSE_COMPUTE);
    struct straggler found = find_late(0.03, 0);
    struct buffer text = {0};
    straggler_describe(&found, "b", &text);
    EXPECT_STRING(buffer_string(&text),
                  "rank 2 on b is 40.0 ms (29 %) of a step late: it waits for data (30.1 ms, others 0.1 ms); check the "
                  "storage that its host reads from");
    buffer_free(&text);
    EXPECT_STRING(straggler_cause_name(CAUSE_DATA), "data");
    EXPECT_STRING(straggler_cause_name(CAUSE_COMPUTE), "compute");
    EXPECT_STRING(straggler_cause_name(CAUSE_LINK), "link");
    EXPECT_STRING(straggler_cause_name(CAUSE_HOST), "host");
}

// The same, on GPUs with these clocks.
static struct straggler find_clocked(double clock, double others, double data) {
    struct rank_times ranks[RANKS];
    for (int i = 0; i < RANKS; i++)
        ranks[i] = (struct rank_times){.step = 0.14, .wait = i == 2 ? 0.02 : 0.06, .clock = i == 2 ? clock : others};
    ranks[2].data = data;
    struct straggler found = stragglers_find(ranks, RANKS);
    EXPECT_INT(found.rank, 2);
    return found;
}

// Rank 2 computes for 120 ms and is 40 ms late: at the others' clock it would need 120 ms × clock / others.
TEST(clocks_of_gpus) {
    struct straggler found = find_clocked(1320, 1980, 0);
    EXPECT_INT(found.cause, CAUSE_CLOCK);
    struct buffer text = {0};
    straggler_describe(&found, "b", &text);
    EXPECT_STRING(buffer_string(&text),
                  "rank 2 on b is 40.0 ms (29 %) of a step late: its GPU runs at 1320 MHz (others 1980 MHz); run "
                  "nvidia-smi -q -d PERFORMANCE on its host for the reason");
    buffer_free(&text);
    EXPECT_STRING(straggler_cause_name(CAUSE_CLOCK), "clock");
    EXPECT_INT(find_clocked(1640, 1980, 0).cause, CAUSE_CLOCK);
    EXPECT_INT(find_clocked(1660, 1980, 0).cause, CAUSE_COMPUTE);  // explains less than half
    EXPECT_INT(find_clocked(1980, 1980, 0).cause, CAUSE_COMPUTE);
    EXPECT_INT(find_clocked(0, 1980, 0).cause, CAUSE_COMPUTE);
    EXPECT_INT(find_clocked(1320, 0, 0).cause, CAUSE_COMPUTE);
    EXPECT_INT(find_clocked(1320, 1980, 0.03).cause, CAUSE_DATA);
}

// Links are numbered by the rank that they start from; a slow rank has two slow ones.
TEST(slow_links) {
    double ring[4] = {1e-4, 9e-4, 8e-4, 1.1e-4}, pair[4] = {1e-4, 9e-4, 1e-4, 1e-4}, three[3] = {5e-4, 5e-4, 1e-4};
    struct straggler found = link_probe_find(ring, 4, 1);
    EXPECT_INT(found.rank, 2);
    EXPECT_INT(found.cause, CAUSE_LINK);
    struct buffer text = {0};
    straggler_describe(&found, "b", &text);
    EXPECT_STRING(buffer_string(&text),
                  "rank 2 on b has slow links: a message takes 0.80 ms (others 0.10 ms); check the "
                  "network of its host");
    buffer_free(&text);
    EXPECT_INT(link_probe_find(pair, 4, 1).rank, -1);
    EXPECT_INT(link_probe_find(three, 3, 1).rank, 1);
    EXPECT_INT(link_probe_find(ring, 4, 2).rank, -1);        // two hosts: one link between them
    double hosts[6] = {1e-4, 1e-4, 1e-4, 4e-4, 1e-4, 5e-4};  // three hosts of two ranks
    EXPECT_INT(link_probe_find(hosts, 6, 2).rank, 5);
}

TEST(two_ranks) {
    struct rank_times ranks[2] = {{.step = 0.1, .wait = 0.05}, {.step = 0.1, .wait = 0.0}};
    EXPECT_INT(stragglers_find(ranks, 2).rank, 1);
    ranks[0].wait = 0;
    EXPECT_INT(stragglers_find(ranks, 2).rank, -1);
}

// The last stage has the output layer: it is compared with the other ranks of its stage only.
TEST(stages_have_different_work) {
    struct rank_times ranks[RANKS];
    set_alike(ranks);
    ranks[0].stage = ranks[1].stage = 0;
    ranks[2].stage = ranks[3].stage = 1;
    ranks[0].wait = ranks[1].wait = 0.05;
    EXPECT_INT(stragglers_find(ranks, RANKS).rank, -1);
    ranks[3].wait = 0;
    EXPECT_INT(stragglers_find(ranks, RANKS).rank, 3);
}

static void expect_text(const struct timer_row *rows, int count, int ranks, const char *option, const char *expected) {
    struct buffer text = {0};
    timers_print(&text, rows, count, ranks, option);
    EXPECT_STRING(buffer_string(&text), expected);
    buffer_free(&text);
}

TEST(timers_are_printed_as_megatron_does) {
    static const double passes[2] = {12.25, 20}, messages[2] = {0, 3.5}, none[2] = {0, 0};
    struct timer_row rows[] = {{"forward-backward", passes}, {"forward-recv", messages}, {"params-all-gather", none}};
    expect_text(rows, 3, 2, "minmax",
                "(min, max) time across ranks (ms):\n"
                "    forward-backward ...............................: (12.25, 20.00)\n"
                "    forward-recv ...................................: (3.50, 3.50)\n");
    expect_text(rows, 3, 2, "max",
                "max time across ranks (ms):\n"
                "    forward-backward ...............................: 20.00\n"
                "    forward-recv ...................................: 3.50\n");
    expect_text(rows, 3, 2, "all",
                "times across ranks (ms):\n"
                "  forward-backward:\n"
                "     rank  0: 12.25\n"
                "     rank  1: 20.00\n"
                "  forward-recv:\n"
                "     rank  1: 3.50\n");
    expect_text(rows + 2, 1, 2, "minmax", "");
}

TEST(spans_count_for_the_timers_that_contain_them) {
    struct timers timers = {0};
    timers_add(&timers, 1 + WORK_LOAD, 1);
    timers_add(&timers, 1 + WORK_FORWARD, 10);
    timers_add(&timers, STEP_TAG_FORWARD_RECEIVE, 2);
    timers_add(&timers, STEP_TAG_FORWARD_SEND, 1);
    timers_add(&timers, 1 + WORK_BACKWARD, 20);
    timers_add(&timers, STEP_TAG_BACKWARD_RECEIVE, 3);
    timers_add(&timers, 1 + WORK_REDUCE, 5);
    timers_add(&timers, STEP_TAG_SHARED_GRADIENTS, 1);
    timers_add(&timers, STEP_TAG_STREAM_GRADIENTS, 1.5);
    timers_add(&timers, 1 + WORK_CLIP, 4);
    timers_add(&timers, STEP_TAG_GRADIENTS, 3);
    timers_add(&timers, 1 + WORK_UPDATE, 6);
    timers_add(&timers, 1 + WORK_GATHER, 2);
    timers_add(&timers, 1 + WORK_TOTALS, 100);
    timers_add(&timers, STEP_TAG_NONE, 100);
    static const struct {
        enum timer timer;
        const char *name;
        double seconds;
        int level;
    } expected[] = {
        {TIMER_FORWARD_BACKWARD, "forward-backward", 31, 1},
        {TIMER_BATCH, "batch-generator", 1, 2},
        {TIMER_FORWARD, "forward-compute", 7, 2},
        {TIMER_FORWARD_RECEIVE, "forward-recv", 2, 2},
        {TIMER_FORWARD_SEND, "forward-send", 1, 2},
        {TIMER_BACKWARD, "backward-compute", 17, 2},
        {TIMER_BACKWARD_RECEIVE, "backward-recv", 3, 2},
        {TIMER_BACKWARD_SEND, "backward-send", 0, 2},
        {TIMER_SHARED_GRADIENTS, "embedding-grads-all-reduce", 1, 1},
        {TIMER_STREAM_GRADIENTS, "layernorm-grads-all-reduce", 1.5, 1},
        {TIMER_GRADIENTS, "all-grads-sync", 5.5, 1},
        {TIMER_GATHER, "params-all-gather", 2, 1},
        {TIMER_CLIP, "optimizer-clip-main-grad", 1, 1},
        {TIMER_UPDATE, "optimizer-inner-step", 6, 1},
        {TIMER_OPTIMIZER, "optimizer", 9, 1},
    };
    EXPECT_INT(sizeof expected / sizeof expected[0], TIMER_COUNT);
    for (size_t i = 0; i < TIMER_COUNT; i++) {
        EXPECT_STRING(timer_name(expected[i].timer), expected[i].name);
        EXPECT_NEAR(timers.seconds[expected[i].timer], expected[i].seconds, 1e-12);
        EXPECT_INT(timer_level(expected[i].timer), expected[i].level);
    }
}

TEST_MAIN(TEST_CASE(ranks_that_are_alike), TEST_CASE(causes), TEST_CASE(clocks_of_gpus), TEST_CASE(slow_links),
          TEST_CASE(two_ranks), TEST_CASE(stages_have_different_work), TEST_CASE(timers_are_printed_as_megatron_does),
          TEST_CASE(spans_count_for_the_timers_that_contain_them))
