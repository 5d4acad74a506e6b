// See first_iteration.h.
#include "train/first_iteration.h"

void first_iteration_begin(struct first_iteration *first, int64_t micro_batches, bool tells_start) {
    *first = (struct first_iteration){
        .phase = phase_begin_amount("computing the first iteration", "micro-batches", (double)micro_batches),
        .tells_start = tells_start};
}

// The micro-batches before this one are computed, or queued for the device.
static int next_counted(void *context, struct batch *batch) {
    struct first_iteration *first = context;
    phase_advance(first->phase, first->taken++ > 0);
    return first->source.next(first->source.context, batch);
}

struct step_source first_iteration_count(struct first_iteration *first, struct step_source source) {
    first->source = source;
    return first->phase ? (struct step_source){next_counted, first, source.count} : source;
}

void first_iteration_end(struct first_iteration *first) {
    phase_end(first->phase);
    first->phase = NULL;
    if (first->tells_start)
        phase_tell_start();
    first->tells_start = false;
}
