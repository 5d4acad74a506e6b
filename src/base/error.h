// There are two kinds of errors.
//
// Errors from outside (a file, a flag, the network, memory): the function returns -1 after error_set() with a message
// that says what is wrong, where (file, line or byte) and what to do. Callers return -1 in turn, with TRY, and may add
// context; the command line prints the message once and exits. The message belongs to the calling thread: a task in a
// thread pool must hand its message over (error_take, error_give).
//
// Errors from inside (a broken invariant, a failed CUDA or MPI call in a step): die() prints rank, file and line and
// ends the process at once and, through the handler, the whole job.
#ifndef BASE_ERROR_H
#define BASE_ERROR_H

#include <stdbool.h>

// Exit codes of the program, for scripts and schedulers. Its own codes start at 210, above the codes of processes that
// a signal ended.
enum exit_code {
    EXIT_CODE_OK = 0,
    EXIT_CODE_ERROR = 1,
    EXIT_CODE_USAGE = 2,
    EXIT_CODE_STOPPED = 210,  // stopped by a signal or a time limit after saving: run me again
    EXIT_CODE_PEER_LOST = 211,
    EXIT_CODE_HANG = 212,
    EXIT_CODE_NOT_FINITE = 213,  // NaN or Inf that did not go away
    EXIT_CODE_OUT_OF_MEMORY = 214,
    EXIT_CODE_BAD_DATA = 215,
    EXIT_CODE_NO_CHECKPOINT = 216,  // no valid checkpoint
    EXIT_CODE_NO_PROGRESS = 217,
    EXIT_CODE_CORRUPT = 218,  // replicas differ: memory, a GPU or a link of a rank is faulty
};

// Limit of a message's size, with its NUL. Enough for all errors of a long command line.
enum { ERROR_BYTES = 32768 };

// Sets the thread's message, with exit code EXIT_CODE_ERROR. Always returns -1, so that one can write `return
// error_set(…)`.
int error_set(const char *format, ...) __attribute__((format(printf, 1, 2)));

// Like error_set, with another exit code.
int error_set_code(enum exit_code code, const char *format, ...) __attribute__((format(printf, 2, 3)));
// A dataset that is damaged or does not fit the run: "%s: byte %…: what; remedy".
#define bad_data(...) error_set_code(EXIT_CODE_BAD_DATA, __VA_ARGS__)

// Puts "context: " before the current message; returns -1.
int error_context(const char *format, ...) __attribute__((format(printf, 1, 2)));

const char *error_message(void);
enum exit_code error_exit_code(void);
void error_clear(void);
// Marks the current message as known to all ranks of the run, so that only one of them prints it.
void error_mark_shared(void);
bool error_is_shared(void);

// Move a message between threads. error_take returns a copy (NULL if there is none) and clears it; error_give sets it
// on this thread, frees it and returns -1; error_drop frees it and leaves this thread's message alone.
struct error_note;
struct error_note *error_take(void);
int error_give(struct error_note *note);
void error_drop(struct error_note *note);

#define TRY(call)                                                                                                      \
    do {                                                                                                               \
        if ((call) < 0)                                                                                                \
            return -1;                                                                                                 \
    } while (0)

// Source position of a die(), and the exit code of the process.
struct die_place {
    const char *file;
    int line;
    enum exit_code code;
};
_Noreturn void die_at(struct die_place place, const char *format, ...) __attribute__((format(printf, 2, 3)));
#define die(...) die_at((struct die_place){__FILE__, __LINE__, EXIT_CODE_ERROR}, __VA_ARGS__)
#define die_code(code, ...) die_at((struct die_place){__FILE__, __LINE__, code}, __VA_ARGS__)

// Checks invariants of our own code, in every build.
#define CHECK(condition)                                                                                               \
    do {                                                                                                               \
        if (!(condition))                                                                                              \
            die("broken invariant: %s", #condition);                                                                   \
    } while (0)

// Called by die() with its exit code before it ends the process, to end the other ranks too. NULL for none.
void die_set_handler(void (*handler)(enum exit_code code));

// Gets die()'s message before that handler, e.g. to record it where the run is watched. It may be called on any thread,
// once, and must return within seconds. NULL for none: afterwards the caller may free the context.
void die_set_witness(void (*witness)(void *context, enum exit_code code, const char *text), void *context);

#endif
