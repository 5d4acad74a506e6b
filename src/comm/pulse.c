// Rounds of the pulse. See backend.h.
#include "comm/backend.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/memory.h"
#include "base/interrupt.h"
#include "base/watchdog.h"
#include "comm/hang.h"

#include <math.h>
#include <stdlib.h>

struct pulse {
    struct group *line;  // the group used by the rounds, of the world that carries host values
    struct group ranks;  // the same ranks by number and name, only for messages
    const char *what;    // the work during which it runs
    double pause;        // between two rounds
    int64_t is_busy;     // whether this rank is; after a round, whether any is
    pthread_t thread;
    bool has_thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool is_done, is_dropped;  // with the lock
};

static const char GROUP_NAME[] = "pulse";

int pulse_open(struct pulse **pulse, struct world *world) {
    *pulse = NULL;
    struct group *all = world_group_all(world);
    if (all->size == 1)
        return 0;
    struct world *host = world->collective->host_group ? world->collective->host_group(all)->world : world;
    if (host->collective->share && !host->collective->share(host, false))
        return 0;
    struct pulse *p = memory_alloc(sizeof *p);
    p->ranks = (struct group){
        .world = world, .name = memory_string(GROUP_NAME), .rank = all->rank, .size = all->size, .ranks = all->ranks};
    p->pause = fmin(1, world->deadline_seconds / 20);
    CHECK(pthread_mutex_init(&p->lock, NULL) == 0 && pthread_cond_init(&p->changed, NULL) == 0);
    if (host->collective->group_create(host, &p->line, all->ranks, all->size, GROUP_NAME) < 0) {
        pulse_close(p);
        return -1;
    }
    *pulse = p;
    return 0;
}

void pulse_close(struct pulse *pulse) {
    if (!pulse)
        return;
    pulse_drop(pulse);
    if (pulse->line)
        pulse->line->world->collective->group_free(pulse->line);
    pthread_cond_destroy(&pulse->changed);
    pthread_mutex_destroy(&pulse->lock);
    free(pulse->ranks.name);
    free(pulse);
}

static bool is_dropped(struct pulse *pulse) {
    pthread_mutex_lock(&pulse->lock);
    bool is = pulse->is_dropped;
    pthread_mutex_unlock(&pulse->lock);
    return is;
}

// One round; false if this rank ended it before the others came.
static bool exchange(struct pulse *pulse) {
    const struct collective *collective = pulse->line->world->collective;
    struct comm_request request = {.group = &pulse->ranks, .name = GROUP_NAME, .peer = -1};
    request.sequence = ++pulse->ranks.collectives;
    void *handle = collective->host_max_i64(pulse->line, &pulse->is_busy, 1);
    struct stopwatch stopwatch = {.files = pulse->what};
    double nap = 20e-6;
    while (!collective->test(pulse->line, handle)) {
        if (is_dropped(pulse))
            return false;
        clock_pause(pulse->ranks.world->clock, nap);
        nap = fmin(2 * nap, 5e-3);
        stopwatch_look(&stopwatch, &request);
    }
    stopwatch_reset(&stopwatch, pulse->ranks.world);
    return true;
}

// Waits until it is time for the next round: at once if this rank is done. False if there is to be none.
static bool wait_for_turn(struct pulse *pulse) {
    struct clock *clock = pulse->ranks.world->clock;
    double until = clock_now(clock) + pulse->pause;
    bool is_ahead = true;
    pthread_mutex_lock(&pulse->lock);
    while (!pulse->is_done && !pulse->is_dropped && is_ahead)
        is_ahead = clock_wait(clock, &pulse->changed, &pulse->lock, until);
    pulse->is_busy = !pulse->is_done;
    bool goes_on = !pulse->is_dropped;
    pthread_mutex_unlock(&pulse->lock);
    return goes_on;
}

static void *run_pulse(void *argument) {
    struct pulse *pulse = argument;
    do {
        if (!wait_for_turn(pulse) || !exchange(pulse))
            break;
    } while (pulse->is_busy);
    return NULL;
}

static void share_line(const struct pulse *pulse, bool is_shared) {
    struct world *host = pulse->line->world;
    if (host->collective->share)
        host->collective->share(host, is_shared);
}

void pulse_start(struct pulse *pulse, const char *what) {
    pulse->what = what;
    pulse->is_done = false;
    share_line(pulse, true);
    pulse->has_thread = thread_start(&pulse->thread, run_pulse, pulse);
    if (!pulse->has_thread)
        die("cannot start a thread: ranks that work with files must answer the others; raise the limit of threads "
            "(ulimit -u)");
}

static void end_thread(struct pulse *pulse, bool *reason) {
    pthread_mutex_lock(&pulse->lock);
    *reason = true;
    pthread_cond_signal(&pulse->changed);
    pthread_mutex_unlock(&pulse->lock);
    if (!pulse->has_thread)
        return;
    // Waiting for others here has the pulse's own deadline.
    struct watchdog_work work;
    watchdog_begin(&work, WATCHDOG_ELSEWHERE, "waiting for other ranks");
    pthread_join(pulse->thread, NULL);
    watchdog_end(&work);
    pulse->has_thread = false;
    share_line(pulse, false);
}

void pulse_stop(struct pulse *pulse) {
    end_thread(pulse, &pulse->is_done);
}

void pulse_drop(struct pulse *pulse) {
    end_thread(pulse, &pulse->is_dropped);
}
