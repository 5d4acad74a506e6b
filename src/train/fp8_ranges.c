// Ranges of fp8 tensors, to a checkpoint and back. See fp8_ranges.h.
#include "train/fp8_ranges.h"
#include "base/log.h"
#include "base/memory.h"

#include <stdlib.h>
#include <string.h>

void ranges_list(const struct step *step, struct checkpoint_tensor *list) {
    for (int i = 0; i < step_range_count(step); i++) {
        struct step_range range = step_range(step, i);
        list[i] = (struct checkpoint_tensor){.name = memory_printf("%s.%s", range.name, range.weight->name),
                                             .tensor = range.tensor};
    }
}

int ranges_load(const struct run_state *run, const char *path, int64_t steps, bool *are_loaded) {
    size_t count = (size_t)step_range_count(run->step);
    OWNED struct checkpoint_tensor *list = memory_alloc(sizeof *list * (count + 1));
    ranges_list(run->step, list);
    const struct checkpoint_load load = {.path = path,
                                         .part = CHECKPOINT_OPTIMIZER,
                                         .device = step_device(run->step),
                                         .tensors = list,
                                         .count = count,
                                         .is_partial = true};
    // A rank that cannot read must not continue without ranges: it would measure where others of its stage do not.
    int fits = steps > 0 ? checkpoint_fits(&load) : 0;
    // All stages of a pipeline measure if one must, as a rank that has all layers does.
    int64_t lacks[1] = {fits <= 0};
    comm_max_i64(step_mesh(run->step)->all, lacks, 1, "fp8 scales of the checkpoint");
    fits = fits > 0 && lacks[0] ? 0 : fits;
    int status = fits > 0 ? checkpoint_load_tensors(&load) : fits;
    if (fits == 0 && strcmp(run->config->run.fp8_recipe, "delayed") == 0)
        log_info("note: %s, so the first step measures them, as in a new run",
                 steps > 0 ? "the checkpoint's fp8 scales are of other layers or another --fp8-amax-history-len"
                           : "the checkpoint has no fp8 scales");
    *are_loaded = fits > 0;
    for (size_t i = 0; i < count; i++)
        free((char *)(uintptr_t)list[i].name);
    return status;
}
