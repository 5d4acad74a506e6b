// The stopwatch behind every wait: what counts as waiting, when a rank writes its flight record, and what the final
// message says. The test moves the clock.
#include "base/memory.h"
#include "base/capture.h"
#include "comm/backend.h"
#include "comm/hang.h"
#include "moved_clock.h"
#include "test.h"

#include <stdlib.h>
#include <sys/inotify.h>
#include <unistd.h>

static const double DEADLINE = 5;  // a single check counts for at most half a second

static struct {
    struct world world;
    struct group group;
    struct host_name hosts[2];
    int ranks[2];
} pair;
static struct moved_clock moved;
static char folder[] = "/tmp/bevatron_hang_XXXXXX";
static const char *files;  // what the wait is for

static struct comm_request open_pair(const char *record_folder) {
    moved_clock_open(&moved, true);
    moved.now = 1;
    pair.world = (struct world){.place = {.rank = 0, .size = 2, .local_size = 1},
                                .deadline_seconds = DEADLINE,
                                .clock = &moved.clock,
                                .hosts = pair.hosts,
                                .record_folder = record_folder};
    memcpy(pair.hosts[1].words, "n2", 2);
    pair.ranks[1] = 1;
    pair.group = (struct group){.world = &pair.world, .name = "pair", .size = 2, .ranks = pair.ranks};
    pair.world.groups[pair.world.group_count++] = &pair.group;
    return (struct comm_request){.group = &pair.group, .name = "loss", .sequence = 1, .peer = -1};
}

static void look_after(struct stopwatch *stopwatch, double seconds, const struct comm_request *request) {
    moved.now += seconds;
    stopwatch_look(stopwatch, request);
}

static bool has_left(void) {
    char *path = memory_printf("%s/flight-0.jsonl", folder);
    bool has = access(path, F_OK) == 0;
    free(path);
    return has;
}

TEST(a_machine_that_stood_still_has_not_waited) {
    struct comm_request request = open_pair(NULL);
    struct stopwatch stopwatch = {0};
    stopwatch_look(&stopwatch, &request);
    EXPECT(stopwatch.waited == 0 && stopwatch.looked == 1);
    look_after(&stopwatch, 0.25, &request);
    EXPECT(stopwatch.waited == 0.25);
    look_after(&stopwatch, 3600, &request);
    EXPECT(stopwatch.waited == 0.25 + DEADLINE / 10);
    pair.world.deadline_seconds = 600;
    look_after(&stopwatch, 3600, &request);
    EXPECT(stopwatch.waited == 0.25 + DEADLINE / 10 + 1);
}

TEST(the_file_is_there_while_a_long_wait_lasts) {
    for (int i = 0; i < 2; i++) {
        struct comm_request request = open_pair(folder);
        struct stopwatch stopwatch = {.files = i == 0 ? NULL : "saving"};
        for (int k = 0; k < 8; k++)
            look_after(&stopwatch, 1, &request);
        EXPECT(!has_left() && !stopwatch.has_left);
        look_after(&stopwatch, 1, &request);
        EXPECT(has_left() && stopwatch.has_left);
        stopwatch_reset(&stopwatch, &pair.world);
        EXPECT(!has_left() && stopwatch.waited == 0 && stopwatch.looked == 0);
        EXPECT((stopwatch.files != NULL) == (i == 1));
    }
}

// Without --save: ranks of one machine have a folder of this run, which is created when the first file is left; those
// of several use the current folder, which the machines may share.
TEST(a_run_without_a_folder_has_its_own) {
    struct comm_request request = open_pair(NULL);
    struct world_options options = {.temporary_folder = folder};
    pair.hosts[0].start = 17;
    hang_choose_folder(&pair.world, &options);
    EXPECT_STRING(pair.world.record_folder, ".");
    EXPECT(!pair.world.run_folder);
    pair.world.place.local_size = 2;
    hang_choose_folder(&pair.world, &options);
    char *expected = memory_printf("%s/bevatron-hang-17", folder);
    EXPECT_STRING(pair.world.record_folder, expected);
    struct stopwatch stopwatch = {0};
    for (int k = 0; k < 9; k++) {
        EXPECT(access(expected, F_OK) < 0);
        look_after(&stopwatch, 1, &request);
    }
    char *path = memory_printf("%s/flight-0.jsonl", expected);
    EXPECT(access(path, F_OK) == 0);
    stopwatch_reset(&stopwatch, &pair.world);
    EXPECT(access(path, F_OK) < 0);
    hang_drop_folder(&pair.world);
    EXPECT(access(expected, F_OK) < 0);
    options.record_folder = folder;
    hang_choose_folder(&pair.world, &options);
    EXPECT_STRING(pair.world.record_folder, folder);
    EXPECT(!pair.world.run_folder);
    hang_choose_folder(&pair.world, &(struct world_options){0});
    EXPECT(!pair.world.record_folder && !pair.world.run_folder);
    pair.hosts[0].start = 0;
    free(expected);
    free(path);
}

static void wait_in_vain(void) {
    struct comm_request request = open_pair(NULL);
    struct stopwatch stopwatch = {.files = files};
    for (int k = 0; k < 12; k++)
        look_after(&stopwatch, 1, &request);
}

TEST(the_end_says_what_was_waited_for) {
    static struct capture capture;
    files = NULL;
    capture_run(&capture, wait_in_vain);
    EXPECT_INT(capture.status, EXIT_CODE_HANG);
    EXPECT(strstr(capture.text, "collective \"loss\" in group \"pair\" (rank 0 of 2) has waited 5 s"));
    EXPECT(strstr(capture.text, "another rank is lost or stuck: rank 1 on n2"));
    files = "saving";
    capture_run(&capture, wait_in_vain);
    EXPECT_INT(capture.status, EXIT_CODE_HANG);
    EXPECT(strstr(capture.text, "during saving for 5 s"));
    EXPECT(strstr(capture.text, "another rank is lost or stuck: rank 1 on n2"));
}

// The first line of a rank that waits for `sequence` of the group "trio".
static void leave_record(int rank, int sequence) {
    char *path = memory_printf("%s/flight-%d.jsonl", folder, rank);
    FILE *file = fopen(path, "w");
    EXPECT(file);
    fprintf(file, "{\"rank\":%d,\"run\":0,\"waits for\":\"loss\",\"of group\":\"trio\",\"begun\":{\"trio\":%d}}\n",
            rank, sequence);
    EXPECT_INT(fclose(file), 0);
    free(path);
}

static void describe_trio(int rank, struct buffer *out) {
    static struct host_name hosts[3];
    static int ranks[3] = {0, 1, 2};
    static struct world world;
    world = (struct world){.place = {.rank = rank, .size = 3, .local_size = 1},
                           .deadline_seconds = DEADLINE,
                           .clock = &moved.clock,
                           .hosts = hosts,
                           .record_folder = folder};
    struct group group = {.world = &world, .name = "trio", .rank = rank, .size = 3, .ranks = ranks};
    hang_describe(&(struct comm_request){.group = &group, .name = "loss", .sequence = 4, .peer = -1}, out);
}

// Rank 2 never leaves a file: while rank 0 waits for it, the file of rank 1 is opened once.
TEST(only_missing_files_are_looked_for_again) {
    char events[4096];
    struct buffer text = {0};
    leave_record(1, 4);
    char *path = memory_printf("%s/flight-1.jsonl", folder);
    int notices = inotify_init1(IN_NONBLOCK);
    EXPECT(notices >= 0 && inotify_add_watch(notices, path, IN_OPEN | IN_CLOSE_NOWRITE) >= 0);
    moved_clock_open(&moved, true);
    moved.now = 1;
    describe_trio(0, &text);
    EXPECT_NEAR(moved.now - 1, hang_patience(DEADLINE), 1e-9);
    EXPECT(strstr(buffer_string(&text), "1 other ranks arrived; missing: rank 2"));
    EXPECT_INT(read(notices, events, sizeof events), 2 * sizeof(struct inotify_event));
    EXPECT_INT(read(notices, events, sizeof events), -1);
    EXPECT_INT(close(notices), 0);
    EXPECT_INT(unlink(path), 0);
    buffer_free(&text);
    free(path);
}

// Ranks that wait have had a quarter of the deadline to leave their files; a short one has a longer wait behind it.
TEST(patience_is_short) {
    EXPECT_NEAR(hang_patience(600), 0.1, 1e-9);
    EXPECT_NEAR(hang_patience(6), 0.1, 1e-9);
    EXPECT_NEAR(hang_patience(1), 0.25, 1e-9);
    EXPECT_NEAR(hang_patience(0.1), 0.1, 1e-9);
}

// With few ranks, no rank waits for long.
TEST(ranks_take_turns) {
    EXPECT(hang_turn(0, 4) == 0);
    EXPECT_NEAR(hang_turn(3, 4), 0.3, 1e-9);
    EXPECT_NEAR(hang_turn(1, 4000), 1, 1e-9);
    EXPECT_NEAR(hang_turn(3999, 4000), hang_turn(16, 4000), 0);
    struct buffer text = {0};
    leave_record(0, 4);
    leave_record(1, 4);
    moved_clock_open(&moved, true);
    moved.now = 1;
    describe_trio(2, &text);
    EXPECT_NEAR(moved.now - 1, hang_turn(2, 3), 1e-9);
    EXPECT(strstr(buffer_string(&text), "all ranks entered this collective"));
    buffer_free(&text);
    for (int rank = 0; rank < 2; rank++) {
        char *path = memory_printf("%s/flight-%d.jsonl", folder, rank);
        EXPECT_INT(unlink(path), 0);
        free(path);
    }
}

int main(void) {
    const struct test_case cases[] = {TEST_CASE(a_machine_that_stood_still_has_not_waited),
                                      TEST_CASE(the_file_is_there_while_a_long_wait_lasts),
                                      TEST_CASE(a_run_without_a_folder_has_its_own),
                                      TEST_CASE(the_end_says_what_was_waited_for),
                                      TEST_CASE(only_missing_files_are_looked_for_again),
                                      TEST_CASE(patience_is_short),
                                      TEST_CASE(ranks_take_turns)};
    if (!mkdtemp(folder))
        return 1;
    int status = test_main(cases, sizeof cases / sizeof cases[0]);
    rmdir(folder);
    return status;
}
