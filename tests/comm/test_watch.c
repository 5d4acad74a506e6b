// Collectives that a device waits for, with a fake transport that ends them on request: the host continues, ends are
// recorded oldest first, and one that does not end ends the process although the host is stuck. Where a deadline
// passes, the test moves the clock.
#include "../base/capture.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/memory.h"
#include "base/trace.h"
#include "comm/backend.h"
#include "comm/pump.h"
#include "moved_clock.h"
#include "ops/device.h"
#include "test.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

enum { MOST = 2000 };

// For events that come at once on an idle machine. A test that passes never waits that long.
static const double LONG_SECONDS = 300;

static struct moved_clock moved;

struct watched_operation {
    atomic_bool is_done;
    atomic_int orders, tests;
};

// Two ranks, this one the first.
static struct fake {
    struct world world;
    struct group group;
    struct world host;
    struct group host_group;
    struct host_name hosts[2];
    int ranks[2];
    struct watched_operation operations[MOST];
    int count;  // started so far
    bool records, keeps_host;
    atomic_bool is_broken;
} fake;

static void *fake_all_reduce(struct group *group, const struct tensor *x, enum reduction reduction) {
    (void)group;
    (void)x;
    (void)reduction;
    CHECK(fake.count < MOST);
    if (fake.keeps_host) {
        moved_clock_release(&moved);
        clock_sleep(LONG_SECONDS);
    }
    return &fake.operations[fake.count++];
}

static bool fake_test(struct group *group, void *handle) {
    struct watched_operation *operation = handle;
    if (atomic_load(&fake.is_broken))
        die_code(EXIT_CODE_PEER_LOST, "the transport of group \"%s\" is broken", group->name);
    atomic_fetch_add(&operation->tests, 1);
    return atomic_load(&operation->is_done);
}

static bool fake_order(struct group *group, void *handle) {
    (void)group;
    atomic_fetch_add(&((struct watched_operation *)handle)->orders, 1);
    return !fake.records;
}

// The moments of operation n on its stream are stamps 10 n and 10 n + 5.
static void fake_stamps(struct group *group, const void *handle, int64_t stamps[2]) {
    int64_t number = (const struct watched_operation *)handle - fake.operations + 1;
    (void)group;
    stamps[0] = 10 * number;
    stamps[1] = 10 * number + 5;
}

static void *fake_mark(struct group *group) {
    (void)group;
    CHECK(fake.count < MOST);
    return &fake.operations[fake.count++];
}

// A wrapped world whose host values never arrive.
static bool never_test(struct group *group, void *handle) {
    (void)group;
    (void)handle;
    return false;
}

static void *never_max(struct group *group, int64_t *values, int count) {
    (void)group;
    (void)count;
    moved_clock_release(&moved);
    moved_clock_set_step(&moved, 1);
    return values;
}

static const struct collective never = {.name = "never", .test = never_test, .host_max_i64 = never_max};

static struct group *fake_host_group(struct group *group) {
    (void)group;
    return &fake.host_group;
}

static const struct collective fake_collective = {.name = "fake",
                                                  .all_reduce = fake_all_reduce,
                                                  .test = fake_test,
                                                  .order = fake_order,
                                                  .stamps = fake_stamps,
                                                  .mark = fake_mark,
                                                  .host_group = fake_host_group};

static void open_fake(struct clock *clock) {
    memset(&fake, 0, sizeof fake);
    fake.world.clock = clock;
    fake.world.collective = &fake_collective;
    fake.world.place = (struct world_place){.rank = 0, .size = 2, .local_rank = 0, .local_size = 1};
    fake.world.deadline_seconds = clock ? 5 : 600;  // of which a look counts for half a second
    fake.world.hosts = fake.hosts;
    memcpy(&fake.hosts[0], "n1", 2);
    memcpy(&fake.hosts[1], "n2", 2);
    fake.ranks[1] = 1;
    fake.group = (struct group){.world = &fake.world, .name = "pair", .rank = 0, .size = 2, .ranks = fake.ranks};
    fake.world.groups[fake.world.group_count++] = &fake.group;
    fake.host = (struct world){.collective = &never};
    fake.host_group = (struct group){.world = &fake.host, .name = "host", .size = 2};
    fake.world.watch = watch_new(&fake.world);
}

// With a clock that stands still until the test moves it.
static void open_held(void) {
    moved_clock_open(&moved, false);
    moved.now = 1;
    open_fake(&moved.clock);
}

static void close_fake(void) {
    watch_settle(fake.world.watch);
    if (fake.world.clock)
        moved_clock_release(&moved);
    watch_free(fake.world.watch);
}

static float memory[4];

static void reduce(const char *name) {
    comm_all_reduce(&fake.group, tensor_1d(memory, DTYPE_F32, 4), REDUCE_SUM, name);
}

static void end(int operation) {
    atomic_store(&fake.operations[operation].is_done, true);
}

// End time of the nth collective, read under the lock of the watch.
static double end_of(int64_t number) {
    watch_lock(fake.world.watch);
    double seconds = fake.world.record.entries[(number - 1) % RECORD_ENTRIES].end;
    watch_unlock(fake.world.watch);
    return seconds;
}

static int64_t looks_at(int operation, int more) {
    int before = atomic_load(&fake.operations[operation].tests);
    for (double until = clock_seconds() + LONG_SECONDS; clock_seconds() < until;) {
        if (atomic_load(&fake.operations[operation].tests) >= before + more)
            break;
        clock_sleep(1e-3);
    }
    return atomic_load(&fake.operations[operation].tests) - before;
}

TEST(the_host_goes_on) {
    open_fake(NULL);
    reduce("first");
    reduce("second");
    EXPECT_INT(atomic_load(&fake.operations[0].orders), 1);
    EXPECT_INT(atomic_load(&fake.operations[1].orders), 1);
    // A collective that ended out of order is not queried before its turn.
    end(1);
    EXPECT(looks_at(0, 3) >= 3);
    EXPECT_INT(atomic_load(&fake.operations[1].tests), 0);
    EXPECT(end_of(1) == 0 && end_of(2) == 0);
    end(0);
    watch_settle(fake.world.watch);
    EXPECT(end_of(1) > 0 && end_of(2) > 0);
    EXPECT_INT(atomic_load(&fake.operations[1].tests), 1);
    close_fake();
}

static int64_t device_stamps;

static int64_t stamp_device(struct device *device, void *stream) {
    (void)device, (void)stream;
    return ++device_stamps;
}

static void *compute_stream(struct device *device, enum stream stream) {
    EXPECT_INT(stream, STREAM_COMPUTE);
    return device;
}

// The collective by the stamps of its stream, and the wait by stamps around it on the compute stream.
TEST(waits_of_the_device_are_traced) {
    static const struct device_clock clock = {.stamp = stamp_device};
    static const struct ops table = {.clock = &clock, .native_stream = compute_stream};
    struct device device = {.ops = &table};
    struct trace_event event;
    open_fake(NULL);
    fake.world.device = &device;
    reduce("before");
    trace_open(16);
    reduce("gradients");
    fake.records = true;  // of a recording nothing is known
    reduce("recorded");
    fake.records = false;
    EXPECT(trace_take(&event, INT64_MAX));
    EXPECT_STRING(event.name, "gradients");
    EXPECT_STRING(event.group, "pair");
    EXPECT_STRING(event.how, "all_reduce");
    EXPECT_INT(event.bytes, sizeof memory);
    EXPECT_INT(event.track, TRACK_COLLECTIVES);
    EXPECT(event.stamps[0] == 20 && event.stamps[1] == 25);
    EXPECT(trace_take(&event, INT64_MAX));
    EXPECT_STRING(event.name, "gradients");
    EXPECT_INT(event.track, TRACK_DEVICE);
    EXPECT_INT(event.kind, TRACE_IDLE);
    EXPECT(event.is_inner && event.stamps[0] == 1 && event.stamps[1] == 2);
    EXPECT(!trace_take(&event, INT64_MAX));
    trace_close();
    EXPECT(comm_waited_seconds(&fake.group) == 0);
    end(0);
    end(1);
    close_fake();
}

TEST(many_at_once) {
    open_fake(NULL);
    for (int i = 0; i < MOST; i++) {
        reduce("one of many");
        // Some of them end on the way.
        if (i < MOST / 2)
            end(i / 2);
        if (i % 500 == 0)
            clock_sleep(0.02);
    }
    for (int i = 0; i < MOST; i++)
        end(i);
    watch_settle(fake.world.watch);
    for (int i = MOST - RECORD_ENTRIES; i < MOST; i++)
        EXPECT(end_of(i + 1) > 0);
    for (int i = 0; i < MOST; i++)
        EXPECT(atomic_load(&fake.operations[i].tests) >= 1);
    EXPECT_INT(fake.group.traffic[COLLECTIVE_ALL_REDUCE].count, MOST);
    close_fake();
}

static void *end_later(void *argument) {
    (void)argument;
    (void)looks_at(0, 20);
    end(0);
    return NULL;
}

// When ranks work with files, the host knows when a wait is over.
TEST(a_patient_host_waits) {
    open_fake(NULL);
    pthread_t thread;
    EXPECT_INT(pthread_create(&thread, NULL, end_later, NULL), 0);
    fake.world.patience = 1;
    reduce("waited for");
    fake.world.patience = 0;
    EXPECT(atomic_load(&fake.operations[0].is_done));
    EXPECT(end_of(1) > 0);
    EXPECT_INT(atomic_load(&fake.operations[0].orders), 1);
    pthread_join(thread, NULL);
    close_fake();
}

// Recorded collectives are not watched; their replay is, as one.
TEST(recordings) {
    open_fake(NULL);
    EXPECT(comm_records(&fake.group));
    fake.records = true;
    reduce("recorded");
    reduce("recorded");
    fake.records = false;
    EXPECT(end_of(1) > 0 && end_of(2) > 0);
    comm_replayed(&fake.group, "replay");
    EXPECT(looks_at(2, 2) >= 2);
    EXPECT(end_of(3) == 0);
    end(2);
    watch_settle(fake.world.watch);
    EXPECT(end_of(3) > 0);
    EXPECT_INT(atomic_load(&fake.operations[0].tests), 0);
    EXPECT_INT(fake.group.collectives, 3);
    close_fake();
}

static char folder[64];

static char *flight_path(int rank) {
    return memory_printf("%s/flight-%d.jsonl", folder, rank);
}

static bool has_left(int rank) {
    char *path = flight_path(rank);
    bool exists = access(path, F_OK) == 0;
    free(path);
    return exists;
}

static void make_folder(void) {
    snprintf(folder, sizeof folder, "/tmp/test_watch.XXXXXX");
    EXPECT(mkdtemp(folder) != NULL);
}

static void remove_folder(void) {
    for (int rank = 0; rank < 2; rank++) {
        char *path = flight_path(rank);
        unlink(path);
        free(path);
    }
    rmdir(folder);
}

// Several looks of the watch, one second apart.
static void pass(int seconds) {
    moved_clock_await(&moved, 1);
    for (int i = 0; i < seconds; i++) {
        moved_clock_move(&moved, 1);
        moved_clock_await(&moved, 1);
    }
}

// A wait that ends after three quarters of the deadline removes its file again, and the next one starts from zero.
TEST(a_late_end) {
    make_folder();
    open_held();
    fake.world.record_folder = folder;
    reduce("late");
    pass(7);
    EXPECT(!has_left(0));
    pass(1);
    EXPECT(has_left(0));
    reduce("after it");
    end(0);
    pass(8);
    EXPECT(!has_left(0));
    EXPECT(end_of(1) > 0 && end_of(2) == 0);
    end(1);
    close_fake();
    remove_folder();
}

static void hang(void) {
    open_held();
    fake.world.record_folder = folder;
    end(0);
    reduce("gradients");
    reduce("loss");
    reduce("after it");
    reduce("after that");
    moved_clock_release(&moved);
    clock_sleep(LONG_SECONDS);  // like a host inside a driver
}

TEST(a_hang_ends_a_stuck_host) {
    make_folder();
    static struct capture capture;
    capture_run(&capture, hang);
    EXPECT_INT(capture.status, EXIT_CODE_HANG);
    EXPECT(strstr(capture.text, "collective \"loss\" in group \"pair\" (rank 0 of 2)"));
    EXPECT(strstr(capture.text, "0 other ranks arrived; missing: rank 1 on n2 (left no record in"));
    // The host has started four, its device has reached the second.
    EXPECT(has_left(0));
    char *own = flight_path(0);
    struct buffer text = {0};
    EXPECT_OK(file_read_all(own, 1 << 20, &text));
    EXPECT(strstr(buffer_string(&text), "\"waits for\":\"loss\""));
    EXPECT(strstr(buffer_string(&text), "\"begun\":{\"pair\":2}"));
    buffer_free(&text);
    free(own);
    // A peer that waits for something else has not arrived.
    char *path = flight_path(1);
    const char *line =
        "{\"rank\": 1, \"run\": 0, \"waits for\": \"x\", \"of group\": \"y\", \"begun\": {\"pair\": 1}}\n";
    EXPECT_OK(file_write_all(path, line, strlen(line)));
    free(path);
    capture_run(&capture, hang);
    EXPECT_INT(capture.status, EXIT_CODE_HANG);
    EXPECT(strstr(capture.text, "missing: rank 1 on n2 (waits for \"x\""));
    remove_folder();
}

static void hang_in_start(void) {
    open_held();
    fake.world.record_folder = folder;
    end(0);
    reduce("gradients");
    fake.keeps_host = true;
    reduce("first of its kind");
}

TEST(a_start_that_hangs) {
    make_folder();
    static struct capture capture;
    capture_run(&capture, hang_in_start);
    EXPECT_INT(capture.status, EXIT_CODE_HANG);
    EXPECT(strstr(capture.text, "collective \"first of its kind\" in group \"pair\" (rank 0 of 2)"));
    EXPECT(has_left(0));
    remove_folder();
}

static void hang_at_barrier(void) {
    open_held();
    fake.world.record_folder = folder;
    end(0);
    reduce("gradients");
    comm_barrier(&fake.group, "all are here");
}

// Host values belong to the world that requests them, whatever transport carries them.
TEST(a_hang_of_host_values) {
    make_folder();
    static struct capture capture;
    capture_run(&capture, hang_at_barrier);
    EXPECT_INT(capture.status, EXIT_CODE_HANG);
    EXPECT(strstr(capture.text, "collective \"all are here\" in group \"pair\" (rank 0 of 2)"));
    EXPECT(strstr(capture.text, "missing: rank 1 on n2 (left no record in"));
    EXPECT(has_left(0));
    remove_folder();
}

static void break_down(void) {
    open_fake(NULL);
    reduce("gradients");
    atomic_store(&fake.is_broken, true);
    clock_sleep(LONG_SECONDS);
}

TEST(a_broken_transport_ends_a_stuck_host) {
    static struct capture capture;
    capture_run(&capture, break_down);
    EXPECT_INT(capture.status, EXIT_CODE_PEER_LOST);
    EXPECT(strstr(capture.text, "the transport of group \"pair\" is broken"));
}

TEST_MAIN(TEST_CASE(the_host_goes_on), TEST_CASE(waits_of_the_device_are_traced), TEST_CASE(many_at_once),
          TEST_CASE(a_patient_host_waits), TEST_CASE(recordings), TEST_CASE(a_late_end),
          TEST_CASE(a_hang_ends_a_stuck_host), TEST_CASE(a_start_that_hangs), TEST_CASE(a_hang_of_host_values),
          TEST_CASE(a_broken_transport_ends_a_stuck_host))
