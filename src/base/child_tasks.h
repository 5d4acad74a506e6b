// Child processes that share the numbers 0…count-1 among them, for work with per-process state. Each task writes its
// result into memory shared with the parent.
#ifndef BASE_CHILD_TASKS_H
#define BASE_CHILD_TASKS_H

#include <stdbool.h>
#include <stddef.h>

struct child_tasks {
    int count;
    size_t result_bytes;  // of one task
    // Runs in a child. The result is zeroed before.
    void (*task)(void *context, int index, void *result);
    // Runs in the parent, now and then, with the number of tasks that have ended; may be NULL.
    void (*watch)(void *context, int done);
    void *context;
};
// Returns count × result_bytes of results, to be freed with child_tasks_free; NULL after error_set if a child could not
// be started or died. With one child or one task everything runs in this process.
void *child_tasks_run(const struct child_tasks *work, int children);
void child_tasks_free(void *results, const struct child_tasks *work);

#endif
