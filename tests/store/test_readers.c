// Reading a checkpoint while its run goes on, saves others and removes this one.
#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "base/memory.h"
#include "small_run.h"
#include "store/folder.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

static char folder[] = "/tmp/bevatron-readers-XXXXXX";

TEST(what_is_read_is_not_removed) {
    EXPECT(mkdtemp(folder) != NULL);
    log_set_level(LOG_ERROR);
    EXPECT_OK(small_save(folder, 1, 1));
    char *path = checkpoint_path(folder, 1);
    int hold = folder_hold(path);
    EXPECT(hold >= 0);
    EXPECT_OK(small_save(folder, 2, 1));
    int64_t iteration = -1;
    EXPECT_OK(small_load(path, &iteration));
    EXPECT_INT(iteration, 1);
    EXPECT_INT(folder_discard(path), 1);
    close(hold);
    EXPECT_OK(small_save(folder, 3, 1));
    EXPECT(!file_exists(path));
    EXPECT_INT(folder_hold(path), -1);
    free(path);
}

static atomic_bool is_over, has_failed;

static void *go_on(void *context) {
    (void)context;
    for (int64_t i = 4; !is_over; i++)
        has_failed = small_save(folder, i, 1) < 0 || has_failed;
    return NULL;
}

// The latest checkpoint of a run that keeps one: whichever it is, it can be found, and it stays while it is read.
TEST(the_latest_is_never_missing) {
    enum { READS = 150 };
    pthread_t run;
    EXPECT(pthread_create(&run, NULL, go_on, NULL) == 0);
    for (int i = 0; i < READS; i++) {
        int hold = -1;
        char *path = NULL;
        int64_t iteration = -1, loaded = -1;
        struct checkpoint_find find = {.folder = folder, .step = -1, .hold = &hold};
        EXPECT_OK(checkpoint_find(&find, &path, &iteration));
        EXPECT(hold >= 0);
        EXPECT_OK(small_load(path, &loaded));
        EXPECT_INT(loaded, iteration);
        close(hold);
        free(path);
    }
    is_over = true;
    EXPECT(pthread_join(run, NULL) == 0);
    EXPECT(!has_failed);
}

static atomic_int turns;

// A run that saves and removes checkpoints, by renaming two of them, so fast that readers are often in the middle of
// one.
static void *take_turns(void *context) {
    char *paths[2], *asides[2], *markers[2];
    char *marker = file_join(folder, folder_marker_name()), *next = file_join(folder, "next-marker");
    (void)context;
    for (int i = 0; i < 2; i++) {
        paths[i] = checkpoint_path(folder, 1 + i);
        asides[i] = memory_printf("%s/aside-%d", folder, i);
        markers[i] = memory_printf("%s/marker-%d", folder, i);
        has_failed = file_write_all(markers[i], i ? "2" : "1", 1) < 0 || has_failed;
    }
    for (int turn = 0; !is_over; turn = 1 - turn) {
        bool is_done = (turn == 1 || rename(asides[0], paths[0]) == 0 || file_exists(paths[0])) &&
                       (turn == 0 || rename(asides[1], paths[1]) == 0) && link(markers[turn], next) == 0 &&
                       rename(next, marker) == 0;
        has_failed = !is_done || rename(paths[1 - turn], asides[1 - turn]) < 0 || has_failed;
        turns++;
        clock_sleep(0.011);
    }
    for (int i = 0; i < 2; i++) {
        free(paths[i]);
        free(asides[i]);
        free(markers[i]);
    }
    free(marker);
    free(next);
    return NULL;
}

TEST(the_newer_one_is_taken) {
    enum { TURNS = 60 };
    pthread_t run;
    EXPECT_OK(file_remove_tree(folder));
    EXPECT_OK(small_save(folder, 1, 0));
    EXPECT_OK(small_save(folder, 2, 0));
    is_over = has_failed = false;
    EXPECT(pthread_create(&run, NULL, take_turns, NULL) == 0);
    while (turns < TURNS && !has_failed) {
        char *path = NULL;
        int64_t iteration = -1;
        struct checkpoint_find find = {.folder = folder, .step = -1};
        EXPECT_OK(checkpoint_find(&find, &path, &iteration));
        EXPECT(iteration == 1 || iteration == 2);
        free(path);
    }
    is_over = true;
    EXPECT(pthread_join(run, NULL) == 0);
    EXPECT(!has_failed);
}

// One that was asked for by its iteration is that one or none.
TEST(an_iteration_that_was_removed_is_missing) {
    int hold = -1;
    char *path = NULL;
    int64_t iteration = -1;
    struct checkpoint_find find = {.folder = folder, .step = 7, .hold = &hold};
    EXPECT_ERROR(checkpoint_find(&find, &path, &iteration), "the checkpoint of iteration 7 in");
    EXPECT_INT(hold, -1);
    EXPECT_OK(file_remove_tree(folder));
}

TEST_MAIN(TEST_CASE(what_is_read_is_not_removed), TEST_CASE(the_latest_is_never_missing),
          TEST_CASE(the_newer_one_is_taken), TEST_CASE(an_iteration_that_was_removed_is_missing))
