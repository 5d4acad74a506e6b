// A pool of threads that share out the numbers 0…count-1. The caller works too: a pool of n threads has n-1 helpers,
// and a pool of one runs everything in the caller. Work is cut by the caller into tasks that do not depend on the
// number of threads, so results are the same for every pool size. Helpers spin briefly, then sleep.
#ifndef BASE_POOL_H
#define BASE_POOL_H

#include <stdint.h>

struct pool;

int pool_create(struct pool **pool, int threads);  // threads >= 1
void pool_free(struct pool *pool);                 // NULL is fine
int pool_threads(const struct pool *pool);

// Calls task(context, index, thread) for every index in [0, count), thread in [0, threads); returns when all are done.
// Not reentrant: a task must not call pool_run on the same pool.
void pool_run(struct pool *pool, int64_t count, void (*task)(void *context, int64_t index, int thread), void *context);

// Processors this process may use (its affinity mask and cgroup quota), at least 1.
int pool_available_processors(void);

#endif
