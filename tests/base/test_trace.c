// The ring of spans: order, iterations, what is lost when it is full, threads. What it costs while it is closed:
// bench/bench_watching.c.
#include "base/trace.h"
#include "test.h"

static void add(const char *name, double start) {
    trace_add(&(struct trace_event){.name = name, .start = start, .end = start + 1, .micro_batch = -1, .chunk = -1});
}

TEST(spans_come_out_in_order_and_by_iteration) {
    struct trace_event event;
    EXPECT(!trace_is_on());
    trace_open(4);
    EXPECT(trace_is_on());
    trace_set_iteration(7);
    add("a", 1);
    add("b", 2);
    trace_set_iteration(8);
    add("c", 3);
    EXPECT(!trace_take(&event, 6));
    EXPECT(trace_take(&event, 7));
    EXPECT_STRING(event.name, "a");
    EXPECT_INT(event.iteration, 7);
    EXPECT(trace_take(&event, 7));
    EXPECT_STRING(event.name, "b");
    EXPECT(!trace_take(&event, 7));
    EXPECT(trace_take(&event, 8));
    EXPECT_STRING(event.name, "c");
    EXPECT(!trace_take(&event, INT64_MAX));
    EXPECT_INT(trace_take_lost(), 0);
    trace_close();
    EXPECT(!trace_is_on());
}

TEST(a_full_ring_loses_the_oldest_and_counts_them) {
    struct trace_event event;
    trace_open(4);
    for (int i = 0; i < 10; i++)
        add("x", i);
    EXPECT_INT(trace_take_lost(), 6);
    EXPECT_INT(trace_take_lost(), 0);
    for (int i = 6; i < 10; i++) {
        EXPECT(trace_take(&event, INT64_MAX));
        EXPECT(event.start == i);
    }
    EXPECT(!trace_take(&event, INT64_MAX));
    trace_close();
}

TEST(a_larger_ring_keeps_what_the_smaller_one_had) {
    struct trace_event event;
    trace_open(3);
    for (int i = 0; i < 5; i++)
        add("x", i);
    trace_open(16);
    trace_open(2);  // not smaller than it is
    for (int i = 5; i < 15; i++)
        add("x", i);
    EXPECT_INT(trace_take_lost(), 2);
    for (int i = 2; i < 15; i++) {
        EXPECT(trace_take(&event, INT64_MAX));
        EXPECT(event.start == i);
    }
    trace_close();
}

TEST(a_paused_ring_keeps_its_spans) {
    struct trace_event event;
    trace_open(4);
    add("x", 1);
    trace_pause();
    EXPECT(!trace_is_on());
    EXPECT(trace_take(&event, INT64_MAX));
    trace_open(4);
    EXPECT(trace_is_on());
    trace_close();
    trace_close();
    add("late", 1);  // a thread that asked before the ring was closed
    EXPECT(!trace_take(&event, INT64_MAX));
}

enum { THREADS = 4, SPANS = 2000 };

static void *add_many(void *context) {
    const char *name = context;
    for (int i = 0; i < SPANS; i++)
        add(name, i);
    return NULL;
}

TEST(threads_add_at_the_same_time) {
    static char names[THREADS][2] = {"0", "1", "2", "3"};
    pthread_t threads[THREADS];
    int next[THREADS] = {0};
    struct trace_event event;
    trace_open(THREADS * SPANS);
    for (int i = 0; i < THREADS; i++)
        EXPECT_INT(pthread_create(&threads[i], NULL, add_many, names[i]), 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    while (trace_take(&event, INT64_MAX))
        EXPECT(event.start == next[event.name[0] - '0']++);
    for (int i = 0; i < THREADS; i++)
        EXPECT_INT(next[i], SPANS);
    EXPECT_INT(trace_take_lost(), 0);
    trace_close();
}

TEST_MAIN(TEST_CASE(spans_come_out_in_order_and_by_iteration), TEST_CASE(a_full_ring_loses_the_oldest_and_counts_them),
          TEST_CASE(a_larger_ring_keeps_what_the_smaller_one_had), TEST_CASE(a_paused_ring_keeps_its_spans),
          TEST_CASE(threads_add_at_the_same_time))
