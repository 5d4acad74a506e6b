// Errors are of two kinds.
//
// From outside (a file, a flag, the network, memory): the function returns -1 after error_set() has said what is wrong,
// where (file, line or byte) and what the user can do. Callers pass -1 upward with TRY and may add context; the
// command line prints the message once and exits. The message belongs to the calling thread: a task of a thread pool
// must hand its own message over (error_take, error_give).
//
// From inside (a broken invariant, a failed CUDA or MPI call in a step): die() prints rank, file and line and ends the
// process at once, and through the handler the whole job with it.
#ifndef BASE_ERROR_H
#define BASE_ERROR_H

#include <stdbool.h>

// Exit codes of the program: people's scripts and schedulers act on them. Those above 143 stay above what a signal
// gives.
enum exit_code {
    EXIT_CODE_OK = 0,
    EXIT_CODE_ERROR = 1,
    EXIT_CODE_USAGE = 2,
    EXIT_CODE_STOPPED = 210,  // stopped by a signal or a time limit after saving: run me again
    EXIT_CODE_PEER_LOST = 211,
    EXIT_CODE_HANG = 212,
    EXIT_CODE_NOT_FINITE = 213,  // NaN or Inf that would not go away
    EXIT_CODE_OUT_OF_MEMORY = 214,
    EXIT_CODE_BAD_DATA = 215,
    EXIT_CODE_NO_CHECKPOINT = 216,  // no valid checkpoint
    EXIT_CODE_NO_PROGRESS = 217,
};

// Sets the thread's message, exit code EXIT_CODE_ERROR; always returns -1, so that `return error_set(…)` reads well.
int error_set(const char *format, ...) __attribute__((format(printf, 1, 2)));

// The same with another exit code.
int error_set_code(enum exit_code code, const char *format, ...) __attribute__((format(printf, 2, 3)));

// Puts "context: " before the present message; returns -1.
int error_context(const char *format, ...) __attribute__((format(printf, 1, 2)));

const char *error_message(void);
enum exit_code error_exit_code(void);
void error_clear(void);
// The present message is known to all ranks of a run, so that one of them is enough to say it.
void error_mark_shared(void);
bool error_is_shared(void);

// Moves a message between threads: error_take returns a copy (NULL where there is none) and clears; error_give sets it
// on this thread, frees it, and returns -1; error_drop frees it and leaves this thread's message alone.
struct error_note;
struct error_note *error_take(void);
int error_give(struct error_note *note);
void error_drop(struct error_note *note);

#define TRY(call)                                                                                                      \
    do {                                                                                                               \
        if ((call) < 0)                                                                                                \
            return -1;                                                                                                 \
    } while (0)

// Where a die() stands in the source, and what the process exits with.
struct die_place {
    const char *file;
    int line;
    enum exit_code code;
};
_Noreturn void die_at(struct die_place place, const char *format, ...) __attribute__((format(printf, 2, 3)));
#define die(...) die_at((struct die_place){__FILE__, __LINE__, EXIT_CODE_ERROR}, __VA_ARGS__)
#define die_code(code, ...) die_at((struct die_place){__FILE__, __LINE__, code}, __VA_ARGS__)

// For invariants of our own code, in every build.
#define CHECK(condition)                                                                                               \
    do {                                                                                                               \
        if (!(condition))                                                                                              \
            die("broken invariant: %s", #condition);                                                                   \
    } while (0)

// What die() calls with its exit code before it ends the process, to take the other ranks along. NULL for none.
void die_set_handler(void (*handler)(enum exit_code code));

#endif
