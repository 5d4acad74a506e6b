// Ranges of 8-bit tensors, to a checkpoint and back. See ranges.h.
#include "train/ranges.h"
#include "base/log.h"
#include "base/memory.h"

#include <stdlib.h>

enum { TENSORS_A_LAYER = 2 };

size_t ranges_count(const struct step *step) {
    size_t count = 0;
    for (int i = 0; i < step->chunk_count; i++)
        count += TENSORS_A_LAYER * (size_t)step->chunks[i].model.fp8.count;
    return count;
}

void ranges_list(const struct step *step, struct checkpoint_tensor *list) {
    for (int i = 0; i < step->chunk_count; i++) {
        const struct fp8 *fp8 = &step->chunks[i].model.fp8;
        for (int layer = 0; layer < fp8->count; layer++) {
            const char *name = fp8->layers[layer].weight->name;
            int64_t first = (int64_t)layer * FP8_ROLES;
            *list++ = (struct checkpoint_tensor){.name = memory_printf("fp8_ranges.%s", name),
                                                 .tensor = tensor_rows(fp8->ranges, first, FP8_ROLES)};
            *list++ = (struct checkpoint_tensor){.name = memory_printf("fp8_history.%s", name),
                                                 .tensor = tensor_rows(fp8->history, first, FP8_ROLES)};
        }
    }
}

int64_t ranges_steps(const struct step *step) {
    return step->chunks[0].model.fp8.step;
}

int ranges_load(struct step *step, const char *path, int64_t steps) {
    size_t count = ranges_count(step);
    struct checkpoint_tensor *list = memory_alloc(sizeof *list * (count + 1));
    ranges_list(step, list);
    const struct checkpoint_load load = {.path = path,
                                         .part = CHECKPOINT_OPTIMIZER,
                                         .device = step->device,
                                         .tensors = list,
                                         .count = count,
                                         .is_partial = true};
    // A rank that cannot read must not go on without: it would measure where others do not.
    int fits = steps > 0 ? checkpoint_fits(&load) : 0;
    int status = fits > 0 ? checkpoint_load_tensors(&load) : fits;
    for (int i = 0; i < step->chunk_count && fits > 0 && status == 0; i++)
        fp8_resume(&step->chunks[i].model.fp8, steps);
    if (fits == 0 && step->chunks[0].model.fp8.is_delayed)
        log_info("note: %s, so the first step measures them, as that of a new run does",
                 steps > 0 ? "the checkpoint's scales of 8-bit tensors are of another --fp8-amax-history-len"
                           : "the checkpoint has no scales of 8-bit tensors");
    for (size_t i = 0; i < count; i++)
        free((char *)(uintptr_t)list[i].name);
    free(list);
    return status;
}
