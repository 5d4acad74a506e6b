// Yielding and sleeping. See pause.h.
#include "comm/pause.h"
#include "base/clock.h"

#include <math.h>
#include <sched.h>

enum { EAGER_LOOKS = 4 };  // before the first yield, if there are processors for all ranks

// A yield takes a microsecond if nothing else is ready to run, and a slice of time, some milliseconds, if another
// program is. Yields then stop for a while, which doubles if the next one is long too: a core lost once to some work of
// the system soon gets yields again.
static const double LONG_YIELD = 1e-3, BUSY_AT_FIRST = 10e-3, BUSY_AT_MOST = 0.5;

static void yield_processor(struct pause_manner *manner, double now) {
    sched_yield();
    double later = clock_now(manner->clock);
    if (later - now < LONG_YIELD) {
        manner->busy_seconds /= 2;
        return;
    }
    manner->busy_seconds = fmin(fmax(2 * manner->busy_seconds, BUSY_AT_FIRST), BUSY_AT_MOST);
    manner->busy_until = later + manner->busy_seconds;
}

// If ranks outnumber processors, a look that finds nothing new takes 1 to 4 µs. One that moves data takes longer, and
// the other ranks soon need this rank's next look: a sum over MPI takes hundreds of them. While data moves, the wait
// counts as just begun. With enough processors a look tests MPI up to 64 times, so its length is meaningless. Eight
// replicas on two cores took 143 ms for a step that only yielded, 240 with sleeps after 1 ms of the whole wait, and 149
// with these; beside another program 271 and 213 ms (2026-11-18, a Xeon).
static const double MOVING_LOOK = 8e-6;

// When waits begin to sleep, and how long they do: a share of the wait so far. The kernel adds about 50 µs.
struct pause_pace {
    double after, share, shortest, longest;
};
static const struct pause_pace busy = {0, 0.25, 10e-6, 200e-6};
static const struct pause_pace crowded = {1e-3, 0.1, 10e-6, 200e-6};
static const struct pause_pace roomy = {5e-3, 1.0 / 256, 10e-6, 500e-6};

void pause_after_look(struct pause *pause, struct pause_manner *manner, double most) {
    if (pause->looks++ < (manner->is_crowded ? 0 : EAGER_LOOKS))
        return;
    double now = clock_now(manner->clock);
    bool has_moved = manner->is_crowded && pause->resumed > 0 && now - pause->resumed > MOVING_LOOK;
    if (pause->began == 0 || has_moved)
        pause->began = now;
    const struct pause_pace *pace = now < manner->busy_until ? &busy : manner->is_crowded ? &crowded : &roomy;
    double waited = now - pause->began;
    double nap = waited < pace->after ? 0 : fmin(fmax(waited * pace->share, pace->shortest), pace->longest);
    nap = fmin(nap, most);
    if (nap > 0)
        clock_pause(manner->clock, nap);
    else
        yield_processor(manner, now);
    pause->resumed = clock_now(manner->clock);
}
