// Spans of time for a profile: this process's work, with times and tracks. They go to a ring that is allocated before
// the first iteration and that the trainer empties after each one: adding a span allocates nothing. If the ring is
// full, the oldest span is lost, and counted.
//
// While no ring is open, trace_is_on is false, and callers add nothing: a load and a branch that is never taken.
// Any thread may add spans. One thread opens, takes and closes.
#ifndef BASE_TRACE_H
#define BASE_TRACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum trace_kind {
    TRACE_COMPUTE,
    TRACE_COMMUNICATION,
    TRACE_IDLE,    // waits for another rank or for the device
    TRACE_DATA,    // waits for samples, or reads them
    TRACE_FILES,   // saves
    TRACE_LAUNCH,  // the host queues work of a device
    TRACE_ITERATION,
    TRACE_KINDS
};

// Where a span is drawn. Spans of one track follow or contain each other, except that collectives may overlap.
enum trace_track { TRACK_ITERATIONS, TRACK_HOST, TRACK_DEVICE, TRACK_LOADER, TRACK_COLLECTIVES, TRACK_COUNT };

struct trace_event {
    const char *name;   // lives as long as the program
    const char *group;  // of a collective, lives as long as the trace; NULL for anything else
    const char *how;    // "all_reduce"; NULL for anything but a collective
    double start, end;  // of clock_seconds
    // On an asynchronous device: the moments there, see device_stamp. 0 if the times above apply.
    int64_t stamps[2];
    int64_t bytes;           // of a collective
    int64_t iteration;       // set by trace_add
    int micro_batch, chunk;  // -1 for none
    uint8_t kind, track;     // enum trace_kind, enum trace_track
    uint8_t tag;             // the caller's; 0 for none
    bool is_inner;           // a part of another span of its track
};

// Opens a ring for at least this many spans; an open one is replaced if it is smaller, and keeps its spans.
void trace_open(size_t capacity);
// No spans are added until the next trace_open; those in the ring stay.
void trace_pause(void);
void trace_close(void);  // spans that were not taken are lost; safe if none is open
bool trace_is_on(void);
// Sets the iteration of the spans added next.
void trace_set_iteration(int64_t iteration);
void trace_add(const struct trace_event *event);
// Takes the oldest span if it belongs to an iteration up to `last`; false if there is none.
bool trace_take(struct trace_event *event, int64_t last);
// Number of spans lost since the last call.
int64_t trace_take_lost(void);

#endif
