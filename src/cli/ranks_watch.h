// Which rank of an mpirun ended first. A rank that is killed says nothing, mpirun does not tell which it was, and it
// ends the others at once. So the launcher waits for all of them itself, by descriptors of processes.
#ifndef CLI_RANKS_WATCH_H
#define CLI_RANKS_WATCH_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct ranks_watch;

// Begins to watch when `is_ready` says that the ranks are there. Returns NULL, which ranks_watch_end accepts, if it
// cannot.
struct ranks_watch_options {
    pid_t mpirun;
    int nproc;
    const char *program;  // that the ranks run
    bool (*is_ready)(const char *mark);
    const char *mark;
};
struct ranks_watch *ranks_watch_start(const struct ranks_watch_options *options);
// Ends the watch. `text` gets the first that ended, "rank 3 (process 4711)", or several if they were seen to end at the
// same time; "" if it is not known.
void ranks_watch_end(struct ranks_watch *watch, char *text, size_t size);

#endif
