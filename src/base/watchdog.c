// The list of work in progress, and the thread that looks at it. See watchdog.h.
#include "base/watchdog.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/process.h"
#include "base/interrupt.h"
#include <inttypes.h>
#include <math.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>

// Between two checks at most COUNTED_SECONDS count, and no more than a tenth of the shortest limit. No limit thus
// expires within one check, and a warning always comes before the end.
static const double FIRST_LINE_SECONDS = 60, LONGEST_PAUSE = 0.1, COUNTED_SECONDS = 1;

static const char *const flags[WATCHDOG_KINDS] = {"--start-timeout-minutes", "--step-timeout-minutes",
                                                  "--save-timeout-minutes", "--load-timeout-minutes", ""};

static struct {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool is_open, is_over;
    pthread_t thread;
    struct watchdog_options options;
    struct watchdog_work *first;
    char host[256];
} state = {.lock = PTHREAD_MUTEX_INITIALIZER};

static atomic_int_fast64_t all_beats, iteration = -1;
static atomic_bool has_fired;
static _Thread_local struct watchdog_work *own;

// ---- working threads ----

void watchdog_begin(struct watchdog_work *work, enum watchdog_kind kind, const char *label) {
    *work = (struct watchdog_work){.kind = kind, .label = label, .outer = own, .seen = -1};
    pthread_mutex_lock(&state.lock);
    work->next = state.first;
    state.first = work;
    if (own)
        own->inner++;
    pthread_mutex_unlock(&state.lock);
    own = work;
}

void watchdog_end(struct watchdog_work *work) {
    pthread_mutex_lock(&state.lock);
    struct watchdog_work **at = &state.first;
    while (*at && *at != work)
        at = &(*at)->next;
    if (*at)
        *at = work->next;
    if (work->outer)
        work->outer->inner--;
    pthread_mutex_unlock(&state.lock);
    own = work->outer;
    watchdog_beat();
}

void watchdog_beat(void) {
    if (own)
        atomic_fetch_add_explicit(&own->beats, 1, memory_order_relaxed);
}

void watchdog_beat_all(void) {
    atomic_fetch_add_explicit(&all_beats, 1, memory_order_relaxed);
}

void watchdog_doing(const char *what, const char *path) {
    if (!own)
        return;
    pthread_mutex_lock(&state.lock);
    snprintf(own->doing, sizeof own->doing, "%s %s", what, path);
    pthread_mutex_unlock(&state.lock);
    watchdog_beat();
}

void watchdog_done(void) {
    if (!own)
        return;
    pthread_mutex_lock(&state.lock);
    own->doing[0] = '\0';
    pthread_mutex_unlock(&state.lock);
    watchdog_beat();
}

void watchdog_iteration(int64_t number) {
    atomic_store(&iteration, number);
}

bool watchdog_has_fired(void) {
    return atomic_load(&has_fired);
}

// ---- the thread that watches ----

// "saving the checkpoint after iteration 20", "rank 3 on node7, syncing run/iter_0000020/model.safetensors".
static void describe(const struct watchdog_work *work, char what[256], char where[768]) {
    int64_t number = atomic_load(&iteration);
    snprintf(what, 256, "%s", work->label);
    if (number >= 0)
        snprintf(what, 256, "%s after iteration %" PRId64, work->label, number);
    char who[32] = "the launcher";
    if (state.options.rank >= 0)
        snprintf(who, sizeof who, "rank %d", state.options.rank);
    snprintf(where, 768, "%s on %s%s%s", who, state.host, work->doing[0] ? ", " : "", work->doing);
}

// The message about work that takes long.
struct finding {
    bool is_due, is_end;
    double waited, limit;
    const char *flag;
    char what[256], where[768];
};

static void look_at(struct watchdog_work *work, double passed, struct finding *finding) {
    double limit = state.options.limits[work->kind];
    int64_t beats = atomic_load(&work->beats) + (work->kind == WATCHDOG_SAVE ? 0 : atomic_load(&all_beats));
    if (beats != work->seen || work->inner > 0) {
        work->seen = beats;
        work->waited = 0;
        work->next_line = fmin(FIRST_LINE_SECONDS, limit / 2);
        return;
    }
    work->waited += passed;
    // One line at a time: others that are due are found at the next check.
    if (limit <= 0 || work->waited < work->next_line || finding->is_due)
        return;
    *finding = (struct finding){.is_due = true,
                                .is_end = work->waited >= limit,
                                .waited = work->waited,
                                .limit = limit,
                                .flag = flags[work->kind]};
    describe(work, finding->what, finding->where);
    work->next_line = fmin(2 * work->next_line, limit);
}

// Without the lock: the log may be slow, and the code that ends this process may use the watchdog.
static void say(const struct finding *finding) {
    if (!finding->is_end) {
        log_warn("still %s, %.0f s, %s; the run ends after %.0f s without progress (%s)", finding->what,
                 finding->waited, finding->where, finding->limit, finding->flag);
        return;
    }
    atomic_store(&has_fired, true);
    die_code(EXIT_CODE_HANG,
             "%s: nothing was completed for %.0f s, longer than %s allows, on %s; look for what does not answer "
             "(`ps -eLo pid,stat,wchan:30,args`, dmesg), then resume from the last checkpoint",
             finding->what, finding->waited, finding->flag, finding->where);
}

// Time in which the process or its machine was suspended does not count as waiting.
static void *run_watchdog(void *argument) {
    struct clock *clock = state.options.clock;
    double shortest = *(double *)argument, looked = clock_now(clock);
    double pause = fmin(LONGEST_PAUSE, shortest / 20), counted = fmin(COUNTED_SECONDS, shortest / 10);
    pthread_mutex_lock(&state.lock);
    while (!state.is_over) {
        (void)clock_wait(clock, &state.changed, &state.lock, looked + pause);
        double now = clock_now(clock), passed = fmin(now - looked, counted);
        looked = now;
        struct finding finding = {0};
        for (struct watchdog_work *work = state.first; work && !state.is_over; work = work->next)
            look_at(work, passed, &finding);
        pthread_mutex_unlock(&state.lock);
        if (finding.is_due)
            say(&finding);
        pthread_mutex_lock(&state.lock);
    }
    pthread_mutex_unlock(&state.lock);
    return NULL;
}

void watchdog_open(const struct watchdog_options *options) {
    static double shortest;
    shortest = INFINITY;
    for (int kind = 0; kind < WATCHDOG_KINDS; kind++)
        if (options->limits[kind] > 0)
            shortest = fmin(shortest, options->limits[kind]);
    pthread_cond_init(&state.changed, NULL);
    state.options = *options;
    state.is_over = false;
    process_host(state.host, sizeof state.host);
    state.is_open = thread_start(&state.thread, run_watchdog, &shortest);
    if (!state.is_open)
        log_warn("cannot start a thread that looks for hangs; raise the limit of threads (ulimit -u, pids.max)");
}

void watchdog_close(void) {
    if (!state.is_open)
        return;
    pthread_mutex_lock(&state.lock);
    state.is_over = true;
    pthread_cond_signal(&state.changed);
    pthread_mutex_unlock(&state.lock);
    pthread_join(state.thread, NULL);
    pthread_cond_destroy(&state.changed);
    state.is_open = false;
}
