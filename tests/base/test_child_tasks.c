// Tasks in child processes: every number once, results in shared memory, children that die.
#include "base/process.h"
#include "test.h"

#include <stdlib.h>
#include <unistd.h>

enum { TASKS = 100 };

struct seen {
    int most_done;
    int dies_at;
};

struct square_result {
    int square, process;
};

static void square(void *context, int index, void *result) {
    const struct seen *seen = context;
    struct square_result *r = result;
    if (index == seen->dies_at)
        abort();
    *r = (struct square_result){r->square + index * index, getpid()};
}

static void watch(void *context, int done) {
    struct seen *seen = context;
    seen->most_done = done > seen->most_done ? done : seen->most_done;
}

static void check_squares(int children) {
    struct seen seen = {.dies_at = -1};
    struct child_tasks work = {TASKS, sizeof(struct square_result), square, watch, &seen};
    struct square_result *results = child_tasks_run(&work, children);
    EXPECT(results != NULL);
    for (int i = 0; results && i < TASKS; i++) {
        EXPECT_INT(results[i].square, i * i);
        EXPECT((results[i].process == getpid()) == (children == 1));
    }
    EXPECT_INT(seen.most_done, TASKS);
    child_tasks_free(results, &work);
}

TEST(every_task_is_done_once) {
    check_squares(1);
    check_squares(3);
}

TEST(a_child_that_dies_is_an_error) {
    struct seen seen = {.dies_at = 7};
    struct child_tasks work = {TASKS, sizeof(struct square_result), square, NULL, &seen};
    EXPECT(child_tasks_run(&work, 3) == NULL);
    EXPECT(strstr(error_message(), "1 of 3 worker processes ended early") != NULL);
}

TEST_MAIN(TEST_CASE(every_task_is_done_once), TEST_CASE(a_child_that_dies_is_an_error))
