// Megatron's timers. See tracing.h.
#include "train/tracing.h"
#include "step/spans.h"

#include <string.h>

static const struct {
    const char *name;
    int level;
} table[TIMER_COUNT] = {
    [TIMER_FORWARD_BACKWARD] = {"forward-backward", 1},
    [TIMER_FORWARD] = {"forward-compute", 2},
    [TIMER_BACKWARD] = {"backward-compute", 2},
    [TIMER_BATCH] = {"batch-generator", 2},
    [TIMER_FORWARD_RECEIVE] = {"forward-recv", 2},
    [TIMER_FORWARD_SEND] = {"forward-send", 2},
    [TIMER_BACKWARD_RECEIVE] = {"backward-recv", 2},
    [TIMER_BACKWARD_SEND] = {"backward-send", 2},
    [TIMER_STREAM_GRADIENTS] = {"layernorm-grads-all-reduce", 1},
    [TIMER_SHARED_GRADIENTS] = {"embedding-grads-all-reduce", 1},
    [TIMER_GRADIENTS] = {"all-grads-sync", 1},
    [TIMER_GATHER] = {"params-all-gather", 1},
    [TIMER_CLIP] = {"optimizer-clip-main-grad", 1},
    [TIMER_UPDATE] = {"optimizer-inner-step", 1},
    [TIMER_OPTIMIZER] = {"optimizer", 1},
};

#define ADDS(timer) (1u << (timer))
#define TAG(work) (1 + (work))

// The timers that a span adds to, and those from which it is taken away because a larger span has added it.
static const struct {
    unsigned to, from;
} effects[STEP_TAG_COUNT] = {
    [TAG(WORK_LOAD)] = {ADDS(TIMER_FORWARD_BACKWARD) | ADDS(TIMER_BATCH), 0},
    [TAG(WORK_BEGIN)] = {ADDS(TIMER_FORWARD_BACKWARD), 0},
    [TAG(WORK_FORWARD)] = {ADDS(TIMER_FORWARD_BACKWARD) | ADDS(TIMER_FORWARD), 0},
    [TAG(WORK_BACKWARD)] = {ADDS(TIMER_FORWARD_BACKWARD) | ADDS(TIMER_BACKWARD), 0},
    [TAG(WORK_BACKWARD_INPUT)] = {ADDS(TIMER_FORWARD_BACKWARD) | ADDS(TIMER_BACKWARD), 0},
    [TAG(WORK_BACKWARD_WEIGHT)] = {ADDS(TIMER_FORWARD_BACKWARD) | ADDS(TIMER_BACKWARD), 0},
    [TAG(WORK_REDUCE)] = {ADDS(TIMER_GRADIENTS), 0},
    [TAG(WORK_CLIP)] = {ADDS(TIMER_OPTIMIZER) | ADDS(TIMER_CLIP), 0},
    [TAG(WORK_UPDATE)] = {ADDS(TIMER_OPTIMIZER) | ADDS(TIMER_UPDATE), 0},
    [TAG(WORK_GATHER)] = {ADDS(TIMER_OPTIMIZER) | ADDS(TIMER_GATHER), 0},
    [STEP_TAG_FORWARD_RECEIVE] = {ADDS(TIMER_FORWARD_RECEIVE), ADDS(TIMER_FORWARD)},
    [STEP_TAG_FORWARD_SEND] = {ADDS(TIMER_FORWARD_SEND), ADDS(TIMER_FORWARD)},
    [STEP_TAG_BACKWARD_RECEIVE] = {ADDS(TIMER_BACKWARD_RECEIVE), ADDS(TIMER_BACKWARD)},
    [STEP_TAG_BACKWARD_SEND] = {ADDS(TIMER_BACKWARD_SEND), ADDS(TIMER_BACKWARD)},
    [STEP_TAG_SHARED_GRADIENTS] = {ADDS(TIMER_SHARED_GRADIENTS), ADDS(TIMER_GRADIENTS)},
    [STEP_TAG_STREAM_GRADIENTS] = {ADDS(TIMER_STREAM_GRADIENTS), ADDS(TIMER_GRADIENTS)},
    [STEP_TAG_GRADIENTS] = {ADDS(TIMER_GRADIENTS), ADDS(TIMER_OPTIMIZER) | ADDS(TIMER_CLIP)},
    // A forward beside a backward counts as that.
    [STEP_TAG_PAIR] = {ADDS(TIMER_FORWARD_BACKWARD) | ADDS(TIMER_BACKWARD), 0},
    [STEP_TAG_PAIR_RECEIVE] = {ADDS(TIMER_FORWARD_RECEIVE), ADDS(TIMER_BACKWARD)},
    [STEP_TAG_PAIR_SEND] = {ADDS(TIMER_FORWARD_SEND), ADDS(TIMER_BACKWARD)},
};

void timers_add(struct timers *timers, int tag, double seconds) {
    for (int timer = 0; timer < TIMER_COUNT; timer++) {
        if (effects[tag].to & ADDS(timer))
            timers->seconds[timer] += seconds;
        if (effects[tag].from & ADDS(timer))
            timers->seconds[timer] -= seconds;
    }
}

const char *timer_name(enum timer timer) {
    return table[timer].name;
}

int timer_level(enum timer timer) {
    return table[timer].level;
}

// The least and the most among the ranks that have such a phase; false if none has.
static bool find_bounds(const struct timer_row *row, int ranks, double *least, double *most) {
    bool is_found = false;
    for (int i = 0; i < ranks; i++) {
        if (!(row->ms[i] > 0))
            continue;
        *least = !is_found || row->ms[i] < *least ? row->ms[i] : *least;
        *most = !is_found || row->ms[i] > *most ? row->ms[i] : *most;
        is_found = true;
    }
    return is_found;
}

// The name and a space, filled up with dots.
static void append_name(struct buffer *out, const char *name) {
    enum { WIDTH = 48 };
    size_t before = out->length;
    buffer_printf(out, "\n    %s ", name);
    while (out->length - before < 5 + WIDTH)
        buffer_append_byte(out, '.');
}

void timers_print(struct buffer *out, const struct timer_row *rows, int count, int ranks, const char *option) {
    bool is_max = strcmp(option, "max") == 0, is_all = strcmp(option, "all") == 0, is_begun = false;
    for (int i = 0; i < count; i++) {
        double least = 0, most = 0;
        if (!find_bounds(&rows[i], ranks, &least, &most))
            continue;
        if (!is_begun)
            buffer_append_string(out, is_max   ? "max time across ranks (ms):"
                                      : is_all ? "times across ranks (ms):"
                                               : "(min, max) time across ranks (ms):");
        is_begun = true;
        if (is_all)
            buffer_printf(out, "\n  %s:", rows[i].name);
        for (int rank = 0; is_all && rank < ranks; rank++)
            if (rows[i].ms[rank] > 0)
                buffer_printf(out, "\n     rank %2d: %.2f", rank, rows[i].ms[rank]);
        if (is_all)
            continue;
        append_name(out, rows[i].name);
        if (is_max)
            buffer_printf(out, ": %.2f", most);
        else
            buffer_printf(out, ": (%.2f, %.2f)", least, most);
    }
    if (is_begun)
        buffer_append_byte(out, '\n');
}
