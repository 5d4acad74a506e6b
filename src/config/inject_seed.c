// The list of faults of a configuration: given ones, and those drawn from --inject-seed. Drawing is a pure function of
// the flags, so that all ranks, and all starts of a run, have the same faults.
#include "base/error.h"
#include "base/memory.h"
#include "base/rng.h"
#include "config/inject.h"
#include "config/validate.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

// Kinds after which a restarted run ends with the same weights, and which do not depend on the connections of ranks.
static const char *const usual_kinds[] = {"kill", "segv",   "abort", "stop",       "hang",
                                          "slow", "enospc", "eio",   "stuck-fsync"};

// Phases that every rank of every layout reaches in each iteration; the last ones only if the iteration is saved.
static const char *const phases[] = {"step",      "data",  "forward", "backward", "gradients",
                                     "optimizer", "agree", "write",   "fsync",    "rename"};
enum { PHASES = sizeof phases / sizeof phases[0], FILE_PHASES = 3, ALONE_PHASES = PHASES - FILE_PHASES - 1 };

struct draw {
    uint64_t seed;
    uint32_t number, word;
};

// Uniform in [0, count).
static int64_t draw_below(struct draw *draw, int64_t count) {
    struct philox bits = philox4x32(draw->seed, draw->number, draw->word++, 0, 0x1F);
    uint64_t value = (uint64_t)bits.word[0] << 32 | bits.word[1];
    return count > 1 ? (int64_t)(value % (uint64_t)count) : 0;
}

static const char *draw_kind(struct draw *draw, const struct string_list *given) {
    int64_t usual = sizeof usual_kinds / sizeof usual_kinds[0];
    return given->count > 0 ? given->items[draw_below(draw, given->count)] : usual_kinds[draw_below(draw, usual)];
}

static bool is_of_files(enum fault_kind kind) {
    return kind == FAULT_ENOSPC || kind == FAULT_EIO || kind == FAULT_STUCK_FSYNC;
}

// One of the saved iterations, if there are any.
static int64_t draw_save(struct draw *draw, const struct config *config) {
    int64_t saves = config->run.save_interval > 0 ? config->run.train_iters / config->run.save_interval : 0;
    return saves > 0 ? config->run.save_interval * (1 + draw_below(draw, saves)) : config->run.train_iters;
}

static int draw_fault(const struct config *config, uint32_t number, struct fault *fault) {
    struct draw draw = {.seed = (uint64_t)config->machine.inject_seed, .number = number};
    const char *kind = draw_kind(&draw, &config->machine.inject_kinds);
    char text[FAULT_TEXT_BYTES];
    TRY(inject_parse(kind, fault));
    int64_t rank = draw_below(&draw, config->machine.world_size), step = 1 + draw_below(&draw, config->run.train_iters);
    const char *phase = fault_phase_name(fault->phase);
    bool is_alone = config->machine.world_size == 1;
    if (is_of_files(fault->kind)) {
        // The first rank writes in every layout.
        rank = 0;
        step = draw_save(&draw, config);
    } else if (fault->kind != FAULT_NAN && fault->kind != FAULT_FLIP) {
        int64_t which = draw_below(&draw, config->run.save ? PHASES : PHASES - FILE_PHASES);
        which = is_alone && which == ALONE_PHASES ? 0 : which;
        phase = phases[which];
        if (which >= PHASES - FILE_PHASES) {
            rank = 0;
            step = draw_save(&draw, config);
        }
    }
    snprintf(text, sizeof text, "%s:rank=%" PRId64 ":step=%" PRId64 ":phase=%s", kind, rank, step, phase);
    return inject_parse(text, fault);
}

int inject_list(const struct config *config, struct fault **faults, int64_t *count) {
    const struct string_list *given = &config->machine.inject;
    int64_t drawn = config->machine.inject_count;
    *count = given->count + drawn;
    *faults = memory_alloc(sizeof **faults * (size_t)(*count + 1));
    int status = 0;
    for (int64_t i = 0; status == 0 && i < given->count; i++)
        status = inject_parse(given->items[i], &(*faults)[i]);
    for (int64_t i = 0; status == 0 && i < drawn; i++)
        status = draw_fault(config, (uint32_t)i, &(*faults)[given->count + i]);
    if (status < 0) {
        free(*faults);
        *faults = NULL;
    }
    return status;
}

static void validate_fault(const struct config *config, const char *text, struct complaints *complaints) {
    struct fault fault;
    if (inject_parse(text, &fault) < 0)
        complain(complaints, "%s", error_message());
    else if (config->machine.world_size > 0 && fault.rank >= config->machine.world_size)
        complain(complaints, "--inject %s: the ranks of this run are 0 to %" PRId64, text,
                 config->machine.world_size - 1);
    error_clear();
}

void validate_inject(const struct config *config, enum config_use use, struct complaints *complaints) {
    bool is_drawn = config->machine.inject_count > 0;
    if (use != CONFIG_TRAIN)
        return;
    for (int64_t i = 0; i < config->machine.inject.count; i++)
        validate_fault(config, config->machine.inject.items[i], complaints);
    for (int64_t i = 0; i < config->machine.inject_kinds.count; i++)
        validate_fault(config, config->machine.inject_kinds.items[i], complaints);
    if (is_drawn && config->run.train_iters <= 0)
        complain(complaints, "--inject-count needs --train-iters, the iterations to draw from");
}
