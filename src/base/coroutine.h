// Two tasks of one thread that take turns: while one waits for something, the other works. Only one runs at a time, and
// it hands over only by an explicit call. Shared data thus needs no lock, and the order of all their work is the same
// in every run. The first task runs on the stack of the caller, the second on one of its own.
#ifndef BASE_COROUTINE_H
#define BASE_COROUTINE_H

struct coroutine;

struct coroutine_task {
    void (*work)(void *context);
    void *context;
};

// Returns -1 if there is no memory for a stack.
int coroutine_open(struct coroutine **coroutine);
void coroutine_close(struct coroutine *coroutine);  // NULL is fine
// Runs both tasks to their end, beginning with the first.
void coroutine_run(struct coroutine *coroutine, struct coroutine_task first, struct coroutine_task second);
// Called by a task: the other one runs until it hands over or ends. Returns at once if the other has ended.
void coroutine_yield(struct coroutine *coroutine);

#endif
