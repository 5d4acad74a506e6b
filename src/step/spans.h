// The spans of a step in a trace (base/trace.h): one per item of the list, and the parts of items that wait for other
// stages or replicas. Timers add up spans by tag. On an asynchronous device, an item has two spans: the host's, which
// queues the work, and the device's, between two stamps. Without a trace nothing is timed.
#ifndef STEP_SPANS_H
#define STEP_SPANS_H

#include "base/trace.h"
#include "parallel/schedule.h"

// The items come first: the tag of one is 1 + its enum work.
enum step_tag {
    STEP_TAG_NONE,
    STEP_TAG_FORWARD_RECEIVE = 1 + WORK_COUNT,
    STEP_TAG_FORWARD_SEND,
    STEP_TAG_BACKWARD_RECEIVE,
    STEP_TAG_BACKWARD_SEND,
    STEP_TAG_SHARED_GRADIENTS,  // of parameters that several stages hold
    STEP_TAG_STREAM_GRADIENTS,  // of norms, with sequence parallelism
    STEP_TAG_GRADIENTS,         // the wait for the sums over replicas
    STEP_TAG_DATA,              // the wait for a micro-batch
    STEP_TAG_RECORDED,          // a range of items that was replayed
    STEP_TAG_PAIR,              // a forward and a backward together, and what that forward receives and sends
    STEP_TAG_PAIR_RECEIVE,
    STEP_TAG_PAIR_SEND,
    STEP_TAG_COUNT
};

struct step;

// State at the beginning of a span; zeroed without a trace.
struct step_span {
    bool is_on;
    double start;
    int64_t stamp;
};
struct step_span span_begin(const struct step *step, const char *name);
const char *span_item_name(enum work work);
// An item of the list.
struct step_span span_begin_item(const struct step *step, struct schedule_item item);
void span_end_item(const struct step *step, struct step_span span, struct schedule_item item);
// A pair of the list, by its backward.
struct step_span span_begin_pair(const struct step *step);
void span_enter_second(void);  // its backward begins on a separate stack
void span_end_pair(const struct step *step, struct step_span span, struct schedule_item backward);
// A part of an item: a wait, or communication.
void span_end_part(const struct step *step, struct step_span span, enum step_tag tag);

#endif
