// Copies of micro-batches. See kept_batches.h.
#include "train/kept_batches.h"
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
