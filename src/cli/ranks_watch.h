// Finds the rank of an mpirun that ended first. A killed rank reports nothing, and mpirun does not name it and ends the
// others at once. The launcher therefore waits for all of them itself, through descriptors of processes.
#ifndef CLI_RANKS_WATCH_H
#define CLI_RANKS_WATCH_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct ranks_watch;

// Starts watching once `is_ready` reports the ranks. Returns NULL, which ranks_watch_end accepts, on failure.
struct ranks_watch_options {
    pid_t mpirun;
    int nproc;
    const char *program;  // program of the ranks
    bool (*is_ready)(const char *mark);
    const char *mark;
};
struct ranks_watch *ranks_watch_start(const struct ranks_watch_options *options);
// Ends the watch. `text` gets the first rank that ended, "rank 3 (process 4711)", or several if they seemed to end at
// the same time; "" if unknown.
void ranks_watch_end(struct ranks_watch *watch, char *text, size_t size);

#endif
