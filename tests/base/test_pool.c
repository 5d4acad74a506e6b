// The thread pool: every index exactly once, for every pool size; runs in quick succession; sleeping and waking; error
// messages carried from tasks to the caller. Also meant for ThreadSanitizer.
#include "test.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/memory.h"
#include "base/host_limits.h"
#include "base/pool.h"
#include <sched.h>
#include <stdatomic.h>

struct tally {
    int threads;
    int64_t count;
    unsigned char *times;  // (count) plain bytes: a second visit would be a race
    _Atomic int64_t sum;
    _Atomic bool bad_thread;
};

static void visit(void *context, int64_t index, int thread) {
    struct tally *tally = context;
    tally->times[index]++;
    atomic_fetch_add_explicit(&tally->sum, index, memory_order_relaxed);
    if (thread < 0 || thread >= tally->threads)
        tally->bad_thread = true;
}

TEST(every_index_once) {
    for (int threads = 1; threads <= 5; threads++) {
        struct pool *pool;
        EXPECT_OK(pool_create(&pool, threads));
        EXPECT_INT(pool_threads(pool), threads);
        for (int64_t count = 0; count < 3000; count = count < 20 ? count + 1 : count * 3) {
            struct tally tally = {.threads = threads, .count = count};
            tally.times = memory_alloc((size_t)count);
            pool_run(pool, count, visit, &tally);
            for (int64_t i = 0; i < count; i++)
                EXPECT_INT(tally.times[i], 1);
            EXPECT_INT(tally.sum, count * (count - 1) / 2);
            EXPECT(!tally.bad_thread);
            free(tally.times);
        }
        pool_free(pool);
    }
}

static void count_up(void *context, int64_t index, int thread) {
    (void)thread;
    int64_t *cells = context;
    cells[index]++;
}

// Thousands of short runs in a row, each with a new job: a helper that is late for one run must not touch the next.
TEST(runs_in_quick_succession) {
    enum { RUNS = 20000, CELLS = 7 };
    struct pool *pool;
    int64_t cells[2][CELLS] = {0};
    EXPECT_OK(pool_create(&pool, 3));
    for (int run = 0; run < RUNS; run++)
        pool_run(pool, 2 + run % (CELLS - 1), count_up, cells[run % 2]);
    pool_free(pool);
    int64_t total = 0, expected = 0;
    for (int run = 0; run < RUNS; run++)
        expected += 2 + run % (CELLS - 1);
    for (int i = 0; i < 2 * CELLS; i++)
        total += cells[i / CELLS][i % CELLS];
    EXPECT_INT(total, expected);
}

static void nap(void *context, int64_t index, int thread) {
    (void)thread;
    clock_sleep(index % 2 ? 0.002 : 0.0002);
    count_up(context, index, thread);
}

// Helpers and caller both fall asleep here, and must be woken.
TEST(sleeping_and_waking) {
    struct pool *pool;
    int64_t cells[8] = {0};
    EXPECT_OK(pool_create(&pool, 4));
    for (int run = 0; run < 30; run++) {
        clock_sleep(run % 3 * 0.001);
        pool_run(pool, 8, nap, cells);
    }
    pool_free(pool);
    for (int i = 0; i < 8; i++)
        EXPECT_INT(cells[i], 30);
}

// Threads that no longer spin find the same work.
TEST(sleeping_at_once) {
    enum { RUNS = 2000, CELLS = 17 };
    struct pool *pool;
    int64_t cells[CELLS] = {0};
    EXPECT_OK(pool_create(&pool, 2));
    for (int run = 0; run < RUNS; run++) {
        if (run == RUNS / 4)
            pool_sleep_at_once(pool);
        pool_run(pool, CELLS, count_up, cells);
    }
    pool_free(pool);
    for (int i = 0; i < CELLS; i++)
        EXPECT_INT(cells[i], RUNS);
}

TEST(create_and_free) {
    struct pool *pool;
    for (int i = 0; i < 50; i++) {
        EXPECT_OK(pool_create(&pool, 1 + i % 4));
        if (i % 3 == 0) {
            int64_t cells[4] = {0};
            pool_run(pool, 4, count_up, cells);
            EXPECT_INT(cells[3], 1);
        }
        pool_free(pool);
    }
    pool_free(NULL);
    EXPECT_ERROR(pool_create(&pool, 0), "at least 1");
}

struct task_outcome {
    struct error_note *notes[16];
};

static void fail_sometimes(void *context, int64_t index, int thread) {
    (void)thread;
    struct task_outcome *outcome = context;
    if (index % 5 == 3)
        error_set_code(EXIT_CODE_BAD_DATA, "task %d failed", (int)index);
    outcome->notes[index] = error_take();
}

TEST(messages_travel) {
    struct pool *pool;
    struct task_outcome outcome = {0};
    EXPECT_OK(pool_create(&pool, 3));
    error_clear();
    pool_run(pool, 16, fail_sometimes, &outcome);
    pool_free(pool);
    EXPECT_STRING(error_message(), "");
    for (int i = 0; i < 16; i++) {
        EXPECT((outcome.notes[i] != NULL) == (i % 5 == 3));
        if (outcome.notes[i]) {
            EXPECT_INT(error_give(outcome.notes[i]), -1);
            char expected[32];
            snprintf(expected, sizeof expected, "task %d failed", i);
            EXPECT_STRING(error_message(), expected);
            EXPECT_INT(error_exit_code(), EXIT_CODE_BAD_DATA);
        }
    }
}

TEST(processors) {
    int all = pool_available_processors();
    EXPECT(all >= 1);
    cpu_set_t before, one;
    EXPECT(sched_getaffinity(0, sizeof before, &before) == 0);
    CPU_ZERO(&one);
    for (size_t i = 0; i < CPU_SETSIZE; i++) {
        if (CPU_ISSET(i, &before)) {
            CPU_SET(i, &one);
            break;
        }
    }
    EXPECT(sched_setaffinity(0, sizeof one, &one) == 0);
    int pinned = pool_available_processors();
    EXPECT(sched_setaffinity(0, sizeof before, &before) == 0);
    EXPECT_INT(pinned, 1);
    EXPECT_INT(pool_available_processors(), all);
}

static void write_text(const char *folder, const char *name, const char *text) {
    char *path = file_join(folder, name);
    EXPECT_OK(file_write_all(path, text, strlen(text)));
    free(path);
}

TEST(quotas) {
    char root[] = "/tmp/bevatron-test-XXXXXX";
    EXPECT(mkdtemp(root));
    char *group = file_join(root, "a/b"), *above = file_join(root, "a"), *old = file_join(root, "cpu");
    char *membership = file_join(root, "membership");
    EXPECT_OK(file_make_folders(group));
    EXPECT_OK(file_make_folders(old));
    EXPECT_INT(pool_processors_in_quota(root, membership, 64), 64);  // nothing there
    write_text(root, "membership", "1:name=systemd:/x\n0::/a/b\n");
    write_text(group, "cpu.max", "max 100000\n");
    EXPECT_INT(pool_processors_in_quota(root, membership, 64), 64);
    write_text(group, "cpu.max", "250000 100000\n");
    EXPECT_INT(pool_processors_in_quota(root, membership, 64), 3);
    EXPECT_INT(pool_processors_in_quota(root, membership, 2), 2);
    write_text(above, "cpu.max", "200000 100000\n");
    EXPECT_INT(pool_processors_in_quota(root, membership, 64), 2);
    write_text(old, "cpu.cfs_quota_us", "-1\n");
    write_text(old, "cpu.cfs_period_us", "100000\n");
    EXPECT_INT(pool_processors_in_quota(root, membership, 64), 2);
    write_text(old, "cpu.cfs_quota_us", "50000\n");
    EXPECT_INT(pool_processors_in_quota(root, membership, 64), 1);
    EXPECT_STRING(error_message(), "");
    EXPECT_OK(file_remove_tree(root));
    free(group), free(above), free(old), free(membership);
}

// The minimum of machine, cgroups and version 1 cgroups; inactive file pages count as available.
TEST(memory_of_groups) {
    char root[] = "/tmp/bevatron-test-XXXXXX";
    EXPECT(mkdtemp(root));
    char *group = file_join(root, "a/b"), *above = file_join(root, "a"), *old = file_join(root, "memory");
    char *membership = file_join(root, "membership");
    struct host_files files = {.proc = root, .cgroups = root, .membership = membership};
    EXPECT_OK(file_make_folders(group));
    EXPECT_OK(file_make_folders(old));
    EXPECT(host_memory_room_in(&files, 1) == UINT64_MAX);
    EXPECT(host_memory_room_in(&files, 4) == UINT64_MAX);
    write_text(root, "meminfo", "MemTotal:        9000 kB\nMemFree:  10 kB\nMemAvailable:    4000 kB\n");
    EXPECT_INT(host_memory_room_in(&files, 1), 4096000);
    EXPECT_INT(host_memory_room_in(&files, 4), 1024000);
    write_text(root, "membership", "0::/a/b\n");
    write_text(group, "memory.max", "max\n");
    write_text(group, "memory.current", "3000000\n");
    EXPECT_INT(host_memory_room_in(&files, 1), 4096000);
    write_text(group, "memory.max", "5000000\n");
    EXPECT_INT(host_memory_room_in(&files, 1), 2000000);
    write_text(group, "memory.stat", "anon 7\ninactive_file 500000\nactive_file 3\n");
    EXPECT_INT(host_memory_room_in(&files, 1), 2500000);
    write_text(above, "memory.max", "100\n");
    write_text(above, "memory.current", "200\n");
    EXPECT_INT(host_memory_room_in(&files, 1), 0);
    write_text(above, "memory.max", "1000200\n");
    EXPECT_INT(host_memory_room_in(&files, 1), 1000000);
    write_text(old, "memory.limit_in_bytes", "9223372036854771712\n");
    write_text(old, "memory.usage_in_bytes", "100\n");
    EXPECT_INT(host_memory_room_in(&files, 1), 1000000);
    write_text(old, "memory.limit_in_bytes", "600\n");
    EXPECT_INT(host_memory_room_in(&files, 1), 500);
    // The groups of version 1 that a job is in, as Slurm makes them.
    char *job = file_join(old, "slurm/job_7");
    EXPECT_OK(file_make_folders(job));
    write_text(root, "membership", "4:memory:/slurm/job_7\n3:cpu,cpuacct:/\n0::/a/b\n");
    write_text(job, "memory.limit_in_bytes", "400\n");
    write_text(job, "memory.usage_in_bytes", "100\n");
    EXPECT_INT(host_memory_room_in(&files, 1), 300);
    free(job);
    EXPECT_STRING(error_message(), "");
    EXPECT(host_memory_room(1) > 0);
    EXPECT_OK(file_remove_tree(root));
    free(group), free(above), free(old), free(membership);
}

struct durations {
    double seconds[64];
};

static void take_time(void *context, int64_t index, int thread) {
    (void)thread;
    struct durations *durations = context;
    double start = clock_seconds(), now = start;
    while (now < start + 1e-4)
        now = clock_seconds();
    durations->seconds[index] = now - start;
}

// The threads' working time is at least their tasks' time and at most all of their time.
TEST(busy_time) {
    enum { TASKS = 64 };
    for (int threads = 1; threads <= 3; threads++) {
        struct pool *pool;
        struct durations durations;
        double sum = 0;
        EXPECT_OK(pool_create(&pool, threads));
        pool_run(pool, TASKS, take_time, &durations);
        EXPECT(pool_busy_seconds(pool) == 0);
        pool_count_busy(pool, true);
        double start = clock_seconds();
        pool_run(pool, TASKS, take_time, &durations);
        double seconds = clock_seconds() - start, busy = pool_busy_seconds(pool);
        for (int i = 0; i < TASKS; i++)
            sum += durations.seconds[i];
        EXPECT(busy >= sum - 1e-6);
        EXPECT(busy <= threads * seconds + 1e-6);
        pool_count_busy(pool, false);
        pool_run(pool, TASKS, take_time, &durations);
        EXPECT(pool_busy_seconds(pool) == busy);
        pool_free(pool);
    }
}

TEST_MAIN(TEST_CASE(busy_time), TEST_CASE(memory_of_groups), TEST_CASE(every_index_once),
          TEST_CASE(runs_in_quick_succession), TEST_CASE(sleeping_and_waking), TEST_CASE(sleeping_at_once),
          TEST_CASE(create_and_free), TEST_CASE(messages_travel), TEST_CASE(processors), TEST_CASE(quotas))
