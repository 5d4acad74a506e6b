// Two tasks of one thread that take turns: while one waits for something, the other works. Only one runs at a time, and
// it hands over only where it says so. So what both use needs no lock, and the order of all that they do is the same in
// every run. The first task runs on the stack of the caller, the second on one of its own.
#ifndef BASE_TURNS_H
#define BASE_TURNS_H

struct turns;

struct turns_task {
    void (*work)(void *context);
    void *context;
};

// Returns -1 if there is no memory for a stack.
int turns_open(struct turns **turns);
void turns_close(struct turns *turns);  // NULL is fine
// Runs both tasks to their end, beginning with the first.
void turns_take(struct turns *turns, struct turns_task first, struct turns_task second);
// Called by a task: the other one goes on until it hands over or ends. Returns at once if it has ended.
void turns_hand_over(struct turns *turns);

#endif
