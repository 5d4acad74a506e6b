// A pool of threads that share the numbers 0…count-1 among them. The caller works too: a pool of n threads has n-1
// helpers, and a pool of one runs everything in the caller. The caller splits its work into tasks in a way that does
// not depend on the number of threads, so results are the same for every pool size. Helpers spin briefly, then sleep.
#ifndef BASE_POOL_H
#define BASE_POOL_H

#include <stdbool.h>
#include <stdint.h>

struct pool;

int pool_create(struct pool **pool, int threads);  // threads >= 1
void pool_free(struct pool *pool);                 // NULL is fine
int pool_threads(const struct pool *pool);

// Calls task(context, index, thread) for every index in [0, count), with thread in [0, threads); returns when all are
// done. Not reentrant: a task must not call pool_run on the same pool.
void pool_run(struct pool *pool, int64_t count, void (*task)(void *context, int64_t index, int thread), void *context);

// Makes waiting threads sleep at once: other processes need the processors. A pool cannot know that; it spins if it has
// no more threads than this process has processors.
void pool_sleep_at_once(struct pool *pool);

// Total working time of the threads since counting began, in all runs together: the rest of threads * time they waited.
// 0 if it never began. Not during a run.
void pool_count_busy(struct pool *pool, bool is_on);
double pool_busy_seconds(const struct pool *pool);

// The part of the machine that this process may use.
struct pool_share {
    int processors;  // in its affinity mask
    int64_t mask;    // a hash of that mask: processes with the same one have the same processors
    int quota;       // the processors' worth of time that control groups allow; INT_MAX if they do not say
};
struct pool_share pool_find_share(void);
// Number of processors this process may use (by its affinity mask and cgroup quota), at least 1.
int pool_available_processors(void);

// Number of processors that the CPU quotas below `root` (/sys/fs/cgroup) allow, at most `limit`; `membership` names
// this process's groups (/proc/self/cgroup). A fraction of a processor counts as a whole one.
int pool_processors_in_quota(const char *root, const char *membership, int limit);

#endif
