// The store: its list of runs and its threads. One thread checks the files from time to time and updates the revision;
// others read. See store.h and docs/internals/board.md.
#include "report/board/store.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/file.h"
#include "base/memory.h"
#include "base/pool.h"
#include "base/interrupt.h"
#include "report/board/internal.h"
#include <stdlib.h>
#include <string.h>

// How often the watcher checks the revision, and minimal seconds between two searches of the folder.
static const double tick_seconds = 0.5, find_seconds = 5;

struct board_run **store_runs(struct board_store *store, size_t *count) {
    pthread_mutex_lock(&store->lock);
    struct board_run **runs = memory_alloc((store->count + 1) * sizeof runs[0]);
    *count = 0;
    for (size_t i = 0; i < store->count; i++)
        if (!store->runs[i]->is_gone)
            runs[(*count)++] = store->runs[i];
    pthread_mutex_unlock(&store->lock);
    return runs;
}

struct board_run *store_find(struct board_store *store, const char *id) {
    struct board_run *found = NULL;
    pthread_mutex_lock(&store->lock);
    for (size_t i = 0; i < store->count && !found; i++)
        if (strcmp(store->runs[i]->id, id) == 0 && !store->runs[i]->is_gone)
            found = store->runs[i];
    pthread_mutex_unlock(&store->lock);
    if (!found)
        error_set("there is no run with this id; reload the page");
    return found;
}

size_t board_store_count(struct board_store *store) {
    size_t count;
    free(store_runs(store, &count));
    return count;
}

// Runs whose answers change with time alone make the store dirty too.
static void check_states(struct board_store *store) {
    size_t count;
    OWNED struct board_run **runs = store_runs(store, &count);
    double now = clock_wall_seconds();
    for (size_t i = 0; i < count; i++) {
        run_lock(runs[i]);
        int state = (int)run_state(run_shown(runs[i]), now);
        if (state != runs[i]->last_state)
            store->is_dirty = true;
        runs[i]->last_state = state;
        run_unlock(runs[i]);
    }
}

static void end_look(struct board_store *store) {
    check_states(store);
    store_limit_memory(store);
    pthread_mutex_lock(&store->lock);
    if (atomic_exchange(&store->is_dirty, false))
        store->revision++;
    store->looks++;
    pthread_cond_broadcast(&store->changed);
    pthread_mutex_unlock(&store->lock);
}

static void *watch(void *argument) {
    struct board_store *store = argument;
    double next_find = 0, next_look = 0;
    pthread_mutex_lock(&store->lock);
    while (!store->is_closing) {
        pthread_mutex_unlock(&store->lock);
        double start = clock_seconds();
        if (start >= next_look) {
            bool finds = start >= next_find;
            (void)store_look(store, finds);
            error_clear();
            double now = clock_seconds(), spent = now - start;
            next_look = now + store->poll_seconds;
            // A tree on a slow file system is searched less often.
            if (finds)
                next_find = now + (20 * spent > find_seconds ? 20 * spent : find_seconds);
        }
        end_look(store);
        double pause = store->poll_seconds < tick_seconds ? store->poll_seconds : tick_seconds;
        double until = clock_seconds() + pause;
        pthread_mutex_lock(&store->lock);
        if (!store->is_closing)
            (void)clock_wait(NULL, &store->pause, &store->lock, until);
    }
    pthread_mutex_unlock(&store->lock);
    return NULL;
}

static void *work(void *argument) {
    store_work(argument, true);
    return NULL;
}

static int start_threads(struct board_store *store) {
    int wanted = pool_available_processors();
    wanted = wanted < STORE_MOST_THREADS ? wanted : STORE_MOST_THREADS;
    for (int i = 0; i < wanted; i++) {
        if (!thread_start(&store->workers[store->worker_count], work, store))
            break;
        store->worker_count++;
    }
    store->has_watcher = store->worker_count > 0 && thread_start(&store->watcher, watch, store);
    return store->has_watcher ? 0 : error_set("cannot start the board's threads; raise the limit (ulimit -u)");
}

int board_store_open(struct board_store **result, const struct board_store_options *options) {
    *result = NULL;
    char *real = realpath(options->logdir, NULL);
    struct board_store *store = memory_alloc(sizeof *store);
    store->logdir = real ? real : memory_string(options->logdir);
    store->cache_dir = memory_string(options->cache_dir);
    store->poll_seconds = options->poll_seconds > 0 ? options->poll_seconds : 1;
    store->memory_bytes = options->memory_bytes > 0 ? options->memory_bytes : (size_t)96 << 20;
    store->bin_limit = PYRAMID_MOST_BINS;
    pthread_mutex_init(&store->lock, NULL);
    pthread_mutex_init(&store->zoom, NULL);
    pthread_cond_init(&store->work, NULL);
    pthread_cond_init(&store->changed, NULL);
    pthread_cond_init(&store->pause, NULL);
    // A cache that cannot be written is treated as missing.
    if (store->cache_dir && file_make_folders(store->cache_dir) < 0) {
        error_clear();
        free(store->cache_dir);
        store->cache_dir = NULL;
    }
    store_sweep_cache(store);
    int status = store_look(store, true);
    if (status == 0 && !options->no_threads)
        status = start_threads(store);
    if (status < 0) {
        struct error_note *note = error_take();
        board_store_close(store);
        return error_give(note);
    }
    *result = store;
    return 0;
}

void board_store_close(struct board_store *store) {
    if (!store)
        return;
    pthread_mutex_lock(&store->lock);
    store->is_closing = true;
    store->is_awake = true;
    pthread_cond_broadcast(&store->work);
    pthread_cond_broadcast(&store->changed);
    pthread_cond_broadcast(&store->pause);
    pthread_mutex_unlock(&store->lock);
    if (store->has_watcher)
        pthread_join(store->watcher, NULL);
    for (int i = 0; i < store->worker_count; i++)
        pthread_join(store->workers[i], NULL);
    enum { LEAST_NEW_BYTES = 1 << 20 };
    for (size_t i = 0; i < store->count; i++) {
        store_write_cache(store, store->runs[i], LEAST_NEW_BYTES);
        run_free(store->runs[i]);
    }
    free(store->runs);
    free(store->logdir);
    free(store->cache_dir);
    pthread_mutex_destroy(&store->lock);
    pthread_mutex_destroy(&store->zoom);
    pthread_cond_destroy(&store->work);
    pthread_cond_destroy(&store->changed);
    pthread_cond_destroy(&store->pause);
    free(store);
}

static void *work_once(void *argument) {
    store_work(argument, false);
    return NULL;
}

// The caller reads too.
static void scan_alone(struct board_store *store) {
    pthread_t threads[STORE_MOST_THREADS];
    int count = 0, wanted = pool_available_processors() - 1;
    (void)store_look(store, true);
    while (count < wanted && count < STORE_MOST_THREADS - 1 && thread_start(&threads[count], work_once, store))
        count++;
    store_work(store, false);
    for (int i = 0; i < count; i++)
        pthread_join(threads[i], NULL);
    end_look(store);
    error_clear();
}

static bool has_work(const struct board_store *store) {
    bool has = store->busy_count > 0;
    for (size_t i = 0; i < store->count && !has; i++)
        has = store->runs[i]->has_work;
    return has;
}

void board_store_scan(struct board_store *store) {
    if (!store->has_watcher) {
        scan_alone(store);
        return;
    }
    pthread_mutex_lock(&store->lock);
    // The current look may already be past the relevant files; the next one sees them, and the one after it has
    // published their data.
    int64_t wanted = store->looks + 2;
    while (!store->is_awake && (store->looks < wanted || has_work(store))) {
        if (store->looks >= wanted)
            wanted = store->looks + 1;
        pthread_cond_wait(&store->changed, &store->lock);
    }
    pthread_mutex_unlock(&store->lock);
}

int64_t board_store_revision(struct board_store *store) {
    pthread_mutex_lock(&store->lock);
    int64_t revision = store->revision;
    pthread_mutex_unlock(&store->lock);
    return revision;
}

int64_t board_store_wait(struct board_store *store, int64_t after, double seconds) {
    double until = clock_seconds() + seconds;
    bool is_ahead = true;
    pthread_mutex_lock(&store->lock);
    while (store->revision <= after && !store->is_awake && is_ahead)
        is_ahead = clock_wait(NULL, &store->changed, &store->lock, until);
    int64_t revision = store->revision;
    pthread_mutex_unlock(&store->lock);
    return revision;
}

void board_store_wake(struct board_store *store) {
    pthread_mutex_lock(&store->lock);
    store->is_awake = true;
    pthread_cond_broadcast(&store->changed);
    pthread_mutex_unlock(&store->lock);
}
