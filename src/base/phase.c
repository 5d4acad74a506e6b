// A thread for each phase, which sleeps until a line is due or the phase ends. See phase.h.
#include "base/phase.h"
#include "base/clock.h"
#include "base/lifeline.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/interrupt.h"
#include "base/process.h"
#include "base/progress.h"
#include "base/screen.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

static const double first_line_seconds = 2, redraw_seconds = 0.5;
static const double plain_line_seconds[] = {2, 10, 30, 60};
enum { PLAIN_LINES = sizeof plain_line_seconds / sizeof plain_line_seconds[0] };

// Number of phases that have begun and not ended: like the status line of the log, it belongs to the process.
static _Atomic int active;
// Work within the phase, reported by code far below it; and how many times it was set since the last phase began.
static const char *_Atomic noted;
static _Atomic int notes;
static struct clock *_Atomic given_clock;
// Duration of each kind of outermost phase during the start. Threads that outlive it have phases of their own.
enum { MOST_KINDS = 16 };
static pthread_mutex_t start_lock = PTHREAD_MUTEX_INITIALIZER;
static struct {
    bool is_over;
    int count;
    struct start_phase {
        const char *label;
        double seconds;
    } kinds[MOST_KINDS];
} start;

struct phase {
    int level;  // 1 for the outermost
    const char *label, *unit;
    const char *before;  // work in progress when it began, see run_position_set_phase
    double total, started;
    struct clock *clock;
    _Atomic int64_t done;
    bool is_terminal, was_shown;  // the thread's, until it has ended
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t ended;
    bool is_over;  // under the lock
};

static double due_seconds(const struct phase *phase, int lines) {
    if (phase->is_terminal)
        return first_line_seconds + lines * redraw_seconds;
    return lines < PLAIN_LINES ? plain_line_seconds[lines] : (lines - PLAIN_LINES + 2) * 60.0;
}

static void compose(const struct phase *phase, struct buffer *line) {
    double done = (double)atomic_load(&phase->done);
    buffer_printf(line, "%s: ", phase->label);
    if (phase->total > 0)
        buffer_printf(line, "%.0f %% of ", 100 * (done < phase->total ? done / phase->total : 1));
    if (phase->total > 0 || done > 0) {
        progress_append_count(line, phase->total > 0 ? phase->total : done);
        buffer_printf(line, " %s, ", phase->unit);
    }
    const char *note = atomic_load(&noted);
    if (note)
        buffer_printf(line, "%s (%d), ", note, atomic_load(&notes));
    progress_append_duration(line, clock_now(phase->clock) - phase->started);
}

static void show(struct phase *phase) {
    if (atomic_load(&active) != phase->level)
        return;
    struct buffer line = {0};
    compose(phase, &line);
    if (phase->is_terminal)
        log_status(buffer_string(&line));
    else
        log_info("%s so far", buffer_string(&line));
    buffer_free(&line);
    phase->was_shown = true;
}

// Sleeps until this many seconds after the beginning; false if the phase ended in the meantime.
static bool sleep_until(struct phase *phase, double seconds) {
    bool is_ahead = true;
    pthread_mutex_lock(&phase->lock);
    while (!phase->is_over && is_ahead)
        is_ahead = clock_wait(phase->clock, &phase->ended, &phase->lock, phase->started + seconds);
    bool is_over = phase->is_over;
    pthread_mutex_unlock(&phase->lock);
    return !is_over;
}

static void *watch(void *argument) {
    struct phase *phase = argument;
    for (int lines = 0; sleep_until(phase, due_seconds(phase, lines)); lines++)
        show(phase);
    return NULL;
}

struct phase *phase_begin_amount(const char *label, const char *unit, double total) {
    lifeline_phase(label);
    atomic_store(&notes, 0);
    const char *before = run_position_set_phase(label);
    struct clock *used = atomic_load(&given_clock);
    struct phase *phase = memory_alloc(sizeof *phase);
    *phase = (struct phase){.before = before,
                            .level = atomic_fetch_add(&active, 1) + 1,
                            .label = label,
                            .unit = unit,
                            .total = total,
                            .clock = used,
                            .started = clock_now(used),
                            .is_terminal = screen_is_live()};
    pthread_mutex_init(&phase->lock, NULL);
    pthread_cond_init(&phase->ended, NULL);
    if (thread_start(&phase->thread, watch, phase))
        return phase;
    pthread_cond_destroy(&phase->ended);
    pthread_mutex_destroy(&phase->lock);
    free(phase);
    atomic_fetch_sub(&active, 1);
    return NULL;
}

void phase_set_clock(struct clock *clock) {
    atomic_store(&given_clock, clock);
}

struct phase *phase_begin(const char *label) {
    return phase_begin_amount(label, "", 0);
}

void phase_advance(struct phase *phase, int64_t amount) {
    lifeline_beat();
    if (phase)
        atomic_fetch_add(&phase->done, amount);
}

void phase_note(const char *what) {
    lifeline_beat();
    if (what)
        atomic_fetch_add(&notes, 1);
    atomic_store(&noted, what);
}

static void count_start(const struct phase *phase) {
    int i = 0;
    pthread_mutex_lock(&start_lock);
    while (i < start.count && start.kinds[i].label != phase->label)
        i++;
    if (!start.is_over && phase->level == 1 && i < MOST_KINDS) {
        start.count = i == start.count ? i + 1 : start.count;
        start.kinds[i].label = phase->label;
        start.kinds[i].seconds += clock_now(phase->clock) - phase->started;
    }
    pthread_mutex_unlock(&start_lock);
}

void phase_end(struct phase *phase) {
    lifeline_phase("");
    atomic_store(&noted, NULL);
    run_position_set_phase(phase ? phase->before : NULL);
    if (!phase)
        return;
    pthread_mutex_lock(&phase->lock);
    phase->is_over = true;
    pthread_cond_signal(&phase->ended);
    pthread_mutex_unlock(&phase->lock);
    pthread_join(phase->thread, NULL);
    atomic_fetch_sub(&active, 1);
    count_start(phase);
    if (phase->was_shown) {
        struct buffer line = {0};
        progress_append_duration(&line, clock_now(phase->clock) - phase->started);
        log_status(NULL);
        log_info("%s took %s", phase->label, buffer_string(&line));
        buffer_free(&line);
    }
    pthread_cond_destroy(&phase->ended);
    pthread_mutex_destroy(&phase->lock);
    free(phase);
}

void phase_drop(struct phase **phase) {
    phase_end(*phase);
}

void phase_tell_start(void) {
    struct timespec now;
    pthread_mutex_lock(&start_lock);
    bool was_over = start.is_over;
    start.is_over = true;
    pthread_mutex_unlock(&start_lock);
    if (was_over)
        return;
    // Nothing changes it after this.
    clock_gettime(CLOCK_BOOTTIME, &now);
    double ticks = (double)sysconf(_SC_CLK_TCK), began = (double)process_start(getpid());
    double lived = (double)now.tv_sec + (double)now.tv_nsec * 1e-9 - began / ticks, other = lived;
    struct buffer line = {0};
    for (int i = 0; i < start.count; i++) {
        buffer_printf(&line, "%s %.2f s, ", start.kinds[i].label, start.kinds[i].seconds);
        other -= start.kinds[i].seconds;
    }
    log_info("the start took %.2f s: %sother %.2f s", lived, buffer_string(&line), other > 0 ? other : 0);
    buffer_free(&line);
}
