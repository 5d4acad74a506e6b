// Spans of a step. See spans.h.
#include "step/spans.h"
#include "base/clock.h"
#include "base/process.h"
#include "ops/device.h"
#include "step/internal.h"

// A recording is made of calls that do no work yet.
struct step_span span_begin(const struct step *step, const char *name) {
    if (!trace_is_on() || step->is_recording)
        return (struct step_span){0};
    device_push_range(step->device, name);
    return (struct step_span){
        .is_on = true, .start = clock_seconds(), .stamp = device_stamp(step->device, STREAM_COMPUTE)};
}

static void span_end(const struct step *step, struct step_span span, const struct trace_event *what) {
    if (!span.is_on)
        return;
    struct trace_event event = *what;
    event.start = span.start;
    event.end = clock_seconds();
    event.track = TRACK_HOST;
    if (span.stamp) {
        struct trace_event there = event;
        there.track = TRACK_DEVICE;
        there.stamps[0] = span.stamp;
        there.stamps[1] = device_stamp(step->device, STREAM_COMPUTE);
        trace_add(&there);
        // Timers count the device's work, not the time to queue it.
        event.tag = STEP_TAG_NONE;
        event.kind = event.kind == TRACE_COMPUTE ? TRACE_LAUNCH : event.kind;
    }
    trace_add(&event);
    device_pop_range(step->device);
}

const char *span_item_name(enum work work) {
    static const char *const names[WORK_COUNT] = {
        [WORK_PREPARE] = "prepare",
        [WORK_LOAD] = "load inputs",
        [WORK_BEGIN] = "clear gradients",
        [WORK_FORWARD] = "forward",
        [WORK_BACKWARD] = "backward",
        [WORK_BACKWARD_INPUT] = "backward: inputs",
        [WORK_BACKWARD_WEIGHT] = "backward: weights",
        [WORK_REDUCE] = "reduce gradients",
        [WORK_TOTALS] = "sum losses",
        [WORK_CLIP] = "gradient norm",
        [WORK_UPDATE] = "update",
        [WORK_GATHER] = "gather parameters",
        [WORK_RANGES] = "fp8 ranges",
        [WORK_REPORT] = "report",
    };
    return names[work];
}

struct step_span span_begin_item(const struct step *step, struct schedule_item item) {
    run_position_set_phase(span_item_name(item.work));
    return span_begin(step, span_item_name(item.work));
}

void span_end_item(const struct step *step, struct step_span span, struct schedule_item item) {
    if (!span.is_on)
        return;
    bool is_pass = item.work >= WORK_FORWARD && item.work <= WORK_BACKWARD_WEIGHT;
    span_end(step, span,
             &(struct trace_event){.name = span_item_name(item.work),
                                   .micro_batch = is_pass || item.work == WORK_LOAD ? item.micro_batch : -1,
                                   .chunk = is_pass ? item.chunk : -1,
                                   .kind = item.work == WORK_LOAD ? TRACE_DATA : TRACE_COMPUTE,
                                   .tag = (uint8_t)(1 + item.work)});
}

static const char PAIR_NAME[] = "forward beside backward";

struct step_span span_begin_pair(const struct step *step) {
    run_position_set_phase(PAIR_NAME);
    return span_begin(step, PAIR_NAME);
}

void span_enter_second(void) {
    run_position_set_phase("backward beside forward");
}

void span_end_pair(const struct step *step, struct step_span span, struct schedule_item backward) {
    span_end(step, span,
             &(struct trace_event){.name = PAIR_NAME,
                                   .micro_batch = backward.micro_batch,
                                   .chunk = backward.chunk,
                                   .kind = TRACE_COMPUTE,
                                   .tag = STEP_TAG_PAIR});
}

void span_end_part(const struct step *step, struct step_span span, enum step_tag tag) {
    static const struct {
        const char *name;
        enum trace_kind kind;
    } parts[STEP_TAG_COUNT] = {
        [STEP_TAG_FORWARD_RECEIVE] = {"receive activations", TRACE_COMMUNICATION},
        [STEP_TAG_FORWARD_SEND] = {"send activations", TRACE_COMMUNICATION},
        [STEP_TAG_BACKWARD_RECEIVE] = {"receive gradients", TRACE_COMMUNICATION},
        [STEP_TAG_BACKWARD_SEND] = {"send gradients", TRACE_COMMUNICATION},
        [STEP_TAG_SHARED_GRADIENTS] = {"sum shared gradients", TRACE_COMMUNICATION},
        [STEP_TAG_STREAM_GRADIENTS] = {"sum stream gradients", TRACE_COMMUNICATION},
        [STEP_TAG_GRADIENTS] = {"await gradients", TRACE_COMMUNICATION},
        [STEP_TAG_DATA] = {"await a micro-batch", TRACE_DATA},
        [STEP_TAG_RECORDED] = {"recorded pass", TRACE_COMPUTE},
        [STEP_TAG_PAIR_RECEIVE] = {"receive activations", TRACE_COMMUNICATION},
        [STEP_TAG_PAIR_SEND] = {"send activations", TRACE_COMMUNICATION},
    };
    span_end(step, span,
             &(struct trace_event){.name = parts[tag].name,
                                   .micro_batch = -1,
                                   .chunk = -1,
                                   .kind = (uint8_t)parts[tag].kind,
                                   .tag = (uint8_t)tag,
                                   .is_inner = tag != STEP_TAG_RECORDED});
}
