// Internals of the store, for the files that answer queries from it.
//
// Locks: the store's protects the list of runs, their is_busy and has_work, and the revision; a run's protects the run.
// No thread waits for one while holding the other. Runs are never freed before the store is closed.
#ifndef REPORT_BOARD_INTERNAL_H
#define REPORT_BOARD_INTERNAL_H

#include "report/board/run.h"

enum { STORE_MOST_THREADS = 4 };

struct board_store {
    char *logdir, *cache_dir;
    double poll_seconds;
    size_t memory_bytes;

    pthread_mutex_t lock;
    pthread_cond_t work;     // a run has work, or the store is closing
    pthread_cond_t changed;  // the revision grew, a scan of all files ended, or the store is closing
    pthread_cond_t pause;    // the watcher's sleep
    struct board_run **runs;
    size_t count;
    int64_t revision, looks;
    int64_t searches;  // of the folder
    bool is_awake;
    int busy_count;
    atomic_bool is_closing;
    atomic_int bin_limit;
    atomic_bool is_dirty;  // an answer may differ from earlier ones

    pthread_mutex_t zoom;  // one query at a time, because it takes memory
    pthread_t watcher, workers[STORE_MOST_THREADS];
    bool has_watcher;
    int worker_count;
};

// The existing runs; the list is to be freed.
struct board_run **store_runs(struct board_store *store, size_t *count);
// NULL, with a message, if no run has this id.
struct board_run *store_find(struct board_store *store, const char *id);

// Finds runs and reads the sizes of their files.
int store_look(struct board_store *store, bool finds);
// Reads until no run has work. With `waits` it then waits for more, until the store is closing.
void store_work(struct board_store *store, bool waits);
// Makes all curves coarser while they exceed the limit of memory.
void store_limit_memory(struct board_store *store);
// Writes a run's data to the cache if at least this much is new.
void store_write_cache(struct board_store *store, struct board_run *run, uint64_t least_bytes);
void store_sweep_cache(const struct board_store *store);

#endif
