// Parts that all backends share: the spans of collectives in a trace, the flight recorder's file, slower links, and
// pauses between looks. See backend.h.
#include "comm/backend.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/trace.h"
#include "comm/comm.h"
#include "comm/record.h"
#include "ops/device.h"

#include <inttypes.h>
#include <math.h>
#include <sched.h>

// The collective itself, from its start or on its stream, and the wait for it on the track of the waiter.
static void add_spans(const struct comm_request *request, const int64_t stamps[2], struct trace_event wait) {
    struct trace_event flight = {.name = request->name,
                                 .group = request->group->name,
                                 .how = collective_kind_name(request->kind),
                                 .start = request->started,
                                 .end = wait.end,
                                 .stamps = {stamps[0], stamps[1]},
                                 .bytes = request->bytes,
                                 .micro_batch = -1,
                                 .chunk = -1,
                                 .kind = TRACE_COMMUNICATION,
                                 .track = TRACK_COLLECTIVES};
    trace_add(&flight);
    wait.name = request->name;
    wait.micro_batch = wait.chunk = -1;
    wait.kind = TRACE_IDLE;
    wait.is_inner = true;
    if (wait.end > wait.start || wait.stamps[0])
        trace_add(&wait);
}

void request_trace(const struct comm_request *request, double began, double ended) {
    add_spans(request, (int64_t[2]){0, 0}, (struct trace_event){.start = began, .end = ended, .track = TRACK_HOST});
}

bool request_order(struct comm_request *request) {
    struct device *device = request->group->world->device;
    if (!trace_is_on() || !request->collective->stamps)
        return request->collective->order(request->group, request->handle);
    int64_t flight[2] = {0};
    struct trace_event wait = {.track = TRACK_DEVICE};
    wait.stamps[0] = device_stamp(device, STREAM_COMPUTE);
    // The handle may be freed here; a receive is queued here.
    bool is_watched = request->collective->order(request->group, request->handle);
    if (is_watched) {
        request->collective->stamps(request->group, request->handle, flight);
        wait.stamps[1] = device_stamp(device, STREAM_COMPUTE);
    }
    if (is_watched && flight[0] && wait.stamps[0])
        add_spans(request, flight, wait);
    return is_watched;
}

// The flight recorder's ring.

const char *collective_kind_name(enum collective_kind kind) {
    static const char *const names[COLLECTIVE_KINDS] = {
        "all_reduce", "all_gather", "reduce_scatter", "all_to_all", "broadcast", "send", "receive", "host", "recorded"};
    CHECK(kind < COLLECTIVE_KINDS);
    return names[kind];
}

void record_write(const struct record *record, int rank, FILE *file) {
    int64_t first = record->count > RECORD_ENTRIES ? record->count - RECORD_ENTRIES + 1 : 1;
    for (int64_t number = first; number <= record->count; number++) {
        const struct record_entry *entry = &record->entries[(number - 1) % RECORD_ENTRIES];
        fprintf(file, "{\"rank\": %d, \"number\": %" PRId64 ", \"kind\": \"%s\", \"name\": \"%s\", \"group\": \"%s\"",
                rank, entry->number, collective_kind_name(entry->kind), entry->name, entry->group);
        fprintf(file, ", \"bytes\": %" PRId64 ", \"start\": %.6f", entry->bytes, entry->start);
        if (entry->end > 0)
            fprintf(file, ", \"seconds\": %.6f", entry->end - entry->start);
        fprintf(file, "}\n");
    }
}

// ---- slower links ----

double link_carry(struct link *link, enum collective_kind kind, size_t bytes, int ranks, double now) {
    if (link->bytes_per_second <= 0)
        return 0;
    double ring = (double)(ranks - 1) / ranks, share = 1;
    if (kind == COLLECTIVE_ALL_REDUCE)
        share = 2 * ring;
    else if (kind == COLLECTIVE_ALL_GATHER || kind == COLLECTIVE_REDUCE_SCATTER || kind == COLLECTIVE_ALL_TO_ALL)
        share = ring;
    double start = link->free_at > now ? link->free_at : now;
    link->free_at = start + link->latency_seconds + share * (double)bytes / link->bytes_per_second;
    return link->free_at;
}

// ---- pauses ----

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
