// Megatron's timers: how long the phases of a step take, averaged over a log interval, on all ranks. A span of the step
// (step/spans.h) counts for the timers that contain it, and against those from which Megatron leaves it out. Only
// phases that our step has are listed: it has no copies between gradients of two types, for instance.
#ifndef TRAIN_TIMERS_H
#define TRAIN_TIMERS_H

#include "base/buffer.h"

#include <stdint.h>

// In the order in which Megatron prints them.
enum timer {
    TIMER_FORWARD_BACKWARD,
    TIMER_FORWARD,
    TIMER_BACKWARD,
    TIMER_BATCH,
    TIMER_FORWARD_RECEIVE,
    TIMER_FORWARD_SEND,
    TIMER_BACKWARD_RECEIVE,
    TIMER_BACKWARD_SEND,
    TIMER_STREAM_GRADIENTS,
    TIMER_SHARED_GRADIENTS,
    TIMER_GRADIENTS,
    TIMER_GATHER,
    TIMER_CLIP,
    TIMER_UPDATE,
    TIMER_OPTIMIZER,
    TIMER_COUNT
};

struct timers {
    double seconds[TIMER_COUNT];
};

void timers_add(struct timers *timers, int tag, double seconds);
const char *timer_name(enum timer timer);  // "forward-backward"
int timer_level(enum timer timer);         // of --timing-log-level, from which it is measured

// One timer on all ranks, in milliseconds; 0 on a rank that has no such phase.
struct timer_row {
    const char *name;
    const double *ms;  // (ranks)
};
// Megatron's output for --timing-log-option "minmax", "max" or "all", with a newline at the end. Rows without a
// positive time are left out; nothing is written if all are.
void timers_print(struct buffer *out, const struct timer_row *rows, int count, int ranks, const char *option);

#endif
