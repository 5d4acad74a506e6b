// Forked children take the next number from a counter in shared memory. See child_tasks.h.
#include "base/child_tasks.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/memory.h"
#include "base/process.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { MOST_CHILDREN = 64 };

// At the start of the shared memory; the results follow.
struct task_board {
    _Alignas(64) atomic_int next;
    atomic_int done;
};

static size_t board_bytes(const struct child_tasks *work) {
    return sizeof(struct task_board) + work->result_bytes * (size_t)work->count;
}

static void take_tasks(const struct child_tasks *work, struct task_board *board, bool watches) {
    for (int i; (i = atomic_fetch_add(&board->next, 1)) < work->count;) {
        work->task(work->context, i, (char *)(board + 1) + work->result_bytes * (size_t)i);
        int done = atomic_fetch_add(&board->done, 1) + 1;
        if (watches && work->watch)
            work->watch(work->context, done);
    }
}

static pid_t start_child(const struct child_tasks *work, struct task_board *board) {
    pid_t parent = getpid();
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        process_end_with(parent);
        take_tasks(work, board, false);
        _exit(0);
    }
    return child;
}

// Waits for all children; returns the number of those that failed.
static int await_children(const struct child_tasks *work, struct task_board *board, pid_t *children, int count) {
    int left = count, failed = 0;
    while (left > 0) {
        for (int i = 0; i < count; i++) {
            int status = 0;
            pid_t ended = children[i] == 0 ? 0 : waitpid(children[i], &status, WNOHANG);
            if (ended == 0 || (ended < 0 && errno == EINTR))
                continue;
            failed += ended > 0 && (!WIFEXITED(status) || WEXITSTATUS(status) != 0);
            children[i] = 0;
            left--;
        }
        if (work->watch)
            work->watch(work->context, atomic_load(&board->done));
        if (left > 0)
            nanosleep(&(struct timespec){.tv_nsec = 5000000}, NULL);
    }
    // If SIGCHLD is ignored, the exit status of a child is lost; its unfinished tasks show that it failed.
    return failed == 0 && atomic_load(&board->done) < work->count ? 1 : failed;
}

static int share_tasks(const struct child_tasks *work, struct task_board *board, int children) {
    pid_t pids[MOST_CHILDREN] = {0};
    int started = 0;
    if (children > MOST_CHILDREN)
        children = MOST_CHILDREN;
    while (started < children && (pids[started] = start_child(work, board)) > 0)
        started++;
    if (started == 0) {
        take_tasks(work, board, true);  // slower, and as good
        return 0;
    }
    int failed = await_children(work, board, pids, started);
    return failed == 0 ? 0
                       : error_set("%d of %d worker processes ended early; please report the command", failed, started);
}

void *child_tasks_run(const struct child_tasks *work, int children) {
    void *memory = mmap(NULL, board_bytes(work), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) {
        error_set("no memory for the results of %d tasks: %s", work->count, strerror(errno));
        return NULL;
    }
    struct task_board *board = memory;
    int status = 0;
    if (children <= 1 || work->count <= 1)
        take_tasks(work, board, true);
    else
        status = share_tasks(work, board, children < work->count ? children : work->count);
    if (status == 0)
        return board + 1;
    munmap(memory, board_bytes(work));
    return NULL;
}

void child_tasks_free(void *results, const struct child_tasks *work) {
    if (results)
        munmap((struct task_board *)results - 1, board_bytes(work));
}
