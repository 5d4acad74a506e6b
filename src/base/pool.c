// A pool of threads around one atomic word, the ticket: the number of the present run in its upper half and the next
// index to hand out in its lower half. A thread claims an index by a compare-and-swap on the ticket. Between runs the
// ticket is closed before the job beside it is rewritten, so a swap that succeeds proves that the job that was read
// belongs to the run. A run is over when every claimed index has been reported done; helpers that sleep through a short
// run cost nothing.
//
// Waiting is a short spin, then a condition variable. Sleepers count themselves before they look at the ticket for the
// last time, and the caller moves the ticket before it looks at the count: one of the two always sees the other.
#include "base/pool.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/host_limits.h"
#include "base/memory.h"
#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// For the body of a spinning loop: tells the core that nothing happens here, which saves power and helps its sibling
// thread.
static inline void processor_relax(void) {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("isb" ::: "memory");
#endif
}

typedef void pool_task(void *context, int64_t index, int thread);

struct pool {
    int threads;
    _Atomic bool may_spin;
    pthread_t *helpers;  // threads - 1 of them
    _Alignas(64) _Atomic uint64_t ticket;
    _Alignas(64) _Atomic int64_t done;  // tickets of the present run that are finished
    // The job. Atomic because a late helper may read it while the next one is written; see claim().
    _Alignas(64) pool_task *_Atomic task;
    void *_Atomic context;
    _Atomic int64_t count;
    _Atomic int64_t grain;    // indices per ticket, 1 except for enormous counts
    _Atomic int64_t tickets;  // number of tickets of the run
    _Atomic bool counts_busy;
    _Atomic int64_t busy_ns;
    _Atomic bool stop;
    pthread_mutex_t lock;
    pthread_cond_t work_ready, work_done;
    _Atomic int sleepers;
    _Atomic bool caller_sleeps;
};

struct helper_start {
    struct pool *pool;
    int thread;
};

static const double spin_seconds = 100e-6;
static const int64_t most_tickets = (int64_t)1 << 31;
static const uint64_t closed = UINT32_MAX;  // as the lower half of a ticket: more than any run has

static uint32_t run_of(uint64_t ticket) {
    return (uint32_t)(ticket >> 32);
}

struct pool_job {
    pool_task *task;
    void *context;
    int64_t first, last;  // indices [first, last)
};

// Takes the next ticket; false if the present run has none left.
static bool claim(struct pool *pool, struct pool_job *job) {
    uint64_t ticket = atomic_load_explicit(&pool->ticket, memory_order_acquire);
    for (;;) {
        int64_t number = (int64_t)(uint32_t)ticket;
        if (number >= atomic_load_explicit(&pool->tickets, memory_order_relaxed))
            return false;
        int64_t grain = atomic_load_explicit(&pool->grain, memory_order_relaxed);
        int64_t count = atomic_load_explicit(&pool->count, memory_order_relaxed);
        job->task = atomic_load_explicit(&pool->task, memory_order_relaxed);
        job->context = atomic_load_explicit(&pool->context, memory_order_relaxed);
        // Rewriting the job begins with closing the ticket, so if the swap succeeds, the job read above is this run's.
        if (atomic_compare_exchange_weak_explicit(&pool->ticket, &ticket, ticket + 1, memory_order_acq_rel,
                                                  memory_order_acquire)) {
            job->first = number * grain;
            job->last = count - job->first < grain ? count : job->first + grain;
            return true;
        }
    }
}

static void add_busy(struct pool *pool, double start) {
    atomic_fetch_add_explicit(&pool->busy_ns, (int64_t)((clock_seconds() - start) * 1e9), memory_order_relaxed);
}

// Works until the present run has no tickets left, then reports the number done; the last one wakes the caller.
static void work(struct pool *pool, int thread) {
    struct pool_job job;
    bool counts = false;
    double start = 0;
    int64_t finished = 0;
    int64_t tickets = 0;
    while (claim(pool, &job)) {
        // Read only now: a helper that is late for one run may work in the next, which may or may not be counted.
        if (finished == 0) {
            counts = atomic_load_explicit(&pool->counts_busy, memory_order_relaxed);
            start = counts ? clock_seconds() : 0;
        }
        for (int64_t index = job.first; index < job.last; index++)
            job.task(job.context, index, thread);
        tickets = atomic_load_explicit(&pool->tickets, memory_order_relaxed);
        finished++;
    }
    if (finished == 0)
        return;
    if (counts)
        add_busy(pool, start);
    int64_t done = atomic_fetch_add(&pool->done, finished) + finished;
    if (thread > 0 && done == tickets && atomic_load(&pool->caller_sleeps)) {
        pthread_mutex_lock(&pool->lock);
        pthread_cond_signal(&pool->work_done);
        pthread_mutex_unlock(&pool->lock);
    }
}

static bool has_work(struct pool *pool, uint32_t last_run) {
    return run_of(atomic_load(&pool->ticket)) != last_run || atomic_load(&pool->stop);
}

static bool is_finished(struct pool *pool, int64_t tickets) {
    return atomic_load(&pool->done) == tickets;
}

static bool may_spin(const struct pool *pool) {
    return atomic_load_explicit(&pool->may_spin, memory_order_relaxed);
}

static void wait_for_work(struct pool *pool, uint32_t last_run) {
    double deadline = may_spin(pool) ? clock_seconds() + spin_seconds : 0;
    while (deadline > 0 && clock_seconds() < deadline) {
        for (int i = 0; i < 32; i++) {
            if (has_work(pool, last_run))
                return;
            processor_relax();
        }
    }
    pthread_mutex_lock(&pool->lock);
    atomic_fetch_add(&pool->sleepers, 1);
    while (!has_work(pool, last_run))
        pthread_cond_wait(&pool->work_ready, &pool->lock);
    atomic_fetch_sub(&pool->sleepers, 1);
    pthread_mutex_unlock(&pool->lock);
}

static void wait_until_finished(struct pool *pool, int64_t tickets) {
    double deadline = may_spin(pool) ? clock_seconds() + spin_seconds : 0;
    while (deadline > 0 && clock_seconds() < deadline) {
        for (int i = 0; i < 32; i++) {
            if (is_finished(pool, tickets))
                return;
            processor_relax();
        }
    }
    pthread_mutex_lock(&pool->lock);
    atomic_store(&pool->caller_sleeps, true);
    while (!is_finished(pool, tickets))
        pthread_cond_wait(&pool->work_done, &pool->lock);
    atomic_store(&pool->caller_sleeps, false);
    pthread_mutex_unlock(&pool->lock);
}

static void *helper_main(void *argument) {
    struct helper_start *start = argument;
    struct pool *pool = start->pool;
    int thread = start->thread;
    free(start);
    uint32_t last_run = 0;
    for (;;) {
        wait_for_work(pool, last_run);
        if (atomic_load(&pool->stop))
            return NULL;
        last_run = run_of(atomic_load(&pool->ticket));
        work(pool, thread);
    }
}

int pool_create(struct pool **out, int threads) {
    *out = NULL;
    if (threads < 1)
        return error_set("a pool needs at least 1 thread, not %d", threads);
    size_t bytes = (sizeof(struct pool) + 63) / 64 * 64;
    struct pool *pool = aligned_alloc(64, bytes);
    if (!pool)
        return error_set_code(EXIT_CODE_OUT_OF_MEMORY, "out of memory for a pool of %d threads", threads);
    memset(pool, 0, bytes);
    pool->threads = 1;
    pool->may_spin = threads <= pool_available_processors();
    pool->helpers = memory_alloc((size_t)threads * sizeof *pool->helpers);
    pthread_mutex_init(&pool->lock, NULL);
    pthread_cond_init(&pool->work_ready, NULL);
    pthread_cond_init(&pool->work_done, NULL);
    while (pool->threads < threads) {
        struct helper_start *start = memory_alloc(sizeof *start);
        *start = (struct helper_start){pool, pool->threads};
        int error = pthread_create(&pool->helpers[pool->threads - 1], NULL, helper_main, start);
        if (error) {
            free(start);
            error_set("cannot start thread %d of %d: %s; use fewer threads, or raise the limit (ulimit -u, or "
                      "pids.max of the control group)",
                      pool->threads + 1, threads, strerror(error));
            pool_free(pool);
            return -1;
        }
        pool->threads++;
    }
    *out = pool;
    return 0;
}

void pool_free(struct pool *pool) {
    if (!pool)
        return;
    pthread_mutex_lock(&pool->lock);
    atomic_store(&pool->stop, true);
    pthread_cond_broadcast(&pool->work_ready);
    pthread_mutex_unlock(&pool->lock);
    for (int i = 0; i < pool->threads - 1; i++)
        pthread_join(pool->helpers[i], NULL);
    pthread_mutex_destroy(&pool->lock);
    pthread_cond_destroy(&pool->work_ready);
    pthread_cond_destroy(&pool->work_done);
    free(pool->helpers);
    free(pool);
}

int pool_threads(const struct pool *pool) {
    return pool->threads;
}

void pool_sleep_at_once(struct pool *pool) {
    atomic_store_explicit(&pool->may_spin, false, memory_order_relaxed);
}

void pool_count_busy(struct pool *pool, bool is_on) {
    atomic_store(&pool->counts_busy, is_on);
}

double pool_busy_seconds(const struct pool *pool) {
    return (double)atomic_load(&pool->busy_ns) * 1e-9;
}

void pool_run(struct pool *pool, int64_t count, pool_task *task, void *context) {
    if (pool->threads == 1 || count <= 1) {
        bool counts = atomic_load_explicit(&pool->counts_busy, memory_order_relaxed);
        double start = counts ? clock_seconds() : 0;
        for (int64_t index = 0; index < count; index++)
            task(context, index, 0);
        if (counts)
            add_busy(pool, start);
        return;
    }
    int64_t grain = (count - 1) / most_tickets + 1;
    int64_t tickets = (count - 1) / grain + 1;
    // An exchange, not a store: it synchronises with the last claim, so that no late reader can see what follows.
    uint32_t run = run_of(atomic_fetch_or(&pool->ticket, closed)) + 1;
    atomic_store_explicit(&pool->task, task, memory_order_relaxed);
    atomic_store_explicit(&pool->context, context, memory_order_relaxed);
    atomic_store_explicit(&pool->count, count, memory_order_relaxed);
    atomic_store_explicit(&pool->grain, grain, memory_order_relaxed);
    atomic_store_explicit(&pool->tickets, tickets, memory_order_relaxed);
    atomic_store_explicit(&pool->done, 0, memory_order_relaxed);
    atomic_store(&pool->ticket, (uint64_t)run << 32);
    int sleepers = atomic_load(&pool->sleepers);
    if (sleepers > 0) {
        pthread_mutex_lock(&pool->lock);
        if (sleepers < tickets)
            pthread_cond_broadcast(&pool->work_ready);
        for (int64_t i = 0; sleepers >= tickets && i < tickets - 1; i++)
            pthread_cond_signal(&pool->work_ready);
        pthread_mutex_unlock(&pool->lock);
    }
    work(pool, 0);
    wait_until_finished(pool, tickets);
}

// Number of processors this process may keep busy: its affinity mask, reduced by the CPU quota of its control group,
// because a container with two processors' worth of time on a machine of 64 must not start 64 threads.

// The mask of a large machine does not fit the fixed cpu_set_t, so its size is tried upward.
static void look_at_mask(struct pool_share *share) {
    for (int most = 1024; most <= 1 << 20; most *= 4) {
        cpu_set_t *set = CPU_ALLOC((size_t)most);
        if (!set)
            break;
        size_t bytes = CPU_ALLOC_SIZE((size_t)most);
        int result = sched_getaffinity(0, bytes, set);
        share->processors = result == 0 ? CPU_COUNT_S(bytes, set) : 0;
        share->mask = result == 0 ? (int64_t)hash_bytes(set, bytes, 0) : 0;
        CPU_FREE(set);
        if (share->processors > 0)
            return;
    }
    long online = sysconf(_SC_NPROCESSORS_ONLN);
    share->processors = online > 0 && online < 1 << 20 ? (int)online : 1;
}

static int smaller_limit(int limit, int64_t quota, int64_t period) {
    if (quota <= 0 || period <= 0)
        return limit;
    int64_t processors = (quota - 1) / period + 1;
    return processors < limit ? (int)processors : limit;
}

// Version 2: every group from ours up to the root may set a quota; the smallest applies.
static void look_at_group(void *context, const char *folder) {
    int *limit = context;
    int64_t numbers[2];
    if (cgroup_read_numbers(folder, "cpu.max", numbers) == 2)
        *limit = smaller_limit(*limit, numbers[0], numbers[1]);
}

static void look_at_old_group(void *context, const char *folder) {
    int *limit = context;
    int64_t quota[2], period[2];
    if (cgroup_read_numbers(folder, "cpu.cfs_quota_us", quota) == 1 &&
        cgroup_read_numbers(folder, "cpu.cfs_period_us", period) == 1)
        *limit = smaller_limit(*limit, quota[0], period[0]);
}

int pool_processors_in_quota(const char *root, const char *membership, int limit) {
    cgroup_visit(root, membership, look_at_group, &limit);
    cgroup_visit_old(&(struct cgroup_old){root, membership, "cpu"}, look_at_old_group, &limit);
    return limit;
}

struct pool_share pool_find_share(void) {
    struct pool_share share = {.quota = pool_processors_in_quota("/sys/fs/cgroup", "/proc/self/cgroup", INT_MAX)};
    look_at_mask(&share);
    return share;
}

int pool_available_processors(void) {
    struct pool_share share = pool_find_share();
    return share.processors < share.quota ? share.processors : share.quota;
}
