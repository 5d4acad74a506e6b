// Sources over sources. See step_sources.h.
#include "train/step_sources.h"

#include "base/error.h"
#include "base/memory.h"
#include <stdlib.h>
#include <string.h>

static int take(void *context, struct batch *batch) {
    struct kept_batches *kept = context;
    TRY(kept->from.next(kept->from.context, batch));
    struct batch *copy = &kept->batches[kept->taken++];
    struct batch_form form = batch_form(batch), empty = form;
    empty.B = 0;
    batch_allocate(copy, &empty, form.B);
    for (int i = 0; i < BATCH_FIELD_COUNT; i++)
        if (batch->fields[i] && copy->fields[i])
            memcpy(copy->fields[i], batch->fields[i],
                   (size_t)batch_elements(&form, (enum batch_field)i) * batch_rule((enum batch_field)i)->element_bytes);
    return 0;
}

static int give(void *context, struct batch *batch) {
    struct kept_batches *kept = context;
    CHECK(kept->given < kept->taken);
    *batch = kept->batches[kept->given++];
    return 0;
}

struct step_source kept_batches_first(struct kept_batches *kept, struct step_source from) {
    *kept = (struct kept_batches){.from = from, .batches = memory_alloc(sizeof *kept->batches * (size_t)from.count)};
    return (struct step_source){.next = take, .context = kept, .count = from.count};
}

struct step_source kept_batches_again(struct kept_batches *kept) {
    return (struct step_source){.next = give, .context = kept, .count = kept->from.count};
}

void kept_batches_free(struct kept_batches *kept) {
    for (int64_t i = 0; i < kept->taken; i++)
        batch_free(&kept->batches[i]);
    free(kept->batches);
    *kept = (struct kept_batches){0};
}

// ---- progress of the first iteration ----

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
