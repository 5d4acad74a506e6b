// Two short steps and a line through them. See brief.h.
#include "plan/brief.h"
#include "base/error.h"

#include <string.h>

enum { FEWEST = 4 };

// Of the shorter of two steps: as many as fill the pipeline, in whole groups. Zero-bubble schedules put off gradients
// of weights, and are full later. Memory is that of the longer one: interleaved schedules begin with two groups.
static int64_t short_batches(int64_t stages, bool is_zero_bubble) {
    return (is_zero_bubble ? 2 : 1) * (stages > FEWEST ? stages : FEWEST / stages * stages);
}

static bool is_long(int64_t micro_batches, int64_t shorter) {
    return micro_batches > 4 * shorter;
}

int64_t plan_brief_batches(int64_t micro_batches, int64_t stages, bool is_zero_bubble) {
    int64_t shorter = short_batches(stages, is_zero_bubble);
    return is_long(micro_batches, shorter) ? 3 * shorter : micro_batches;
}

static void extend(double *value, double further, double factor) {
    *value += (further - *value) * factor;
}

static void extend_stage(struct plan_stage *stage, const struct plan_stage *further, double factor) {
    extend(&stage->compute, further->compute, factor);
    extend(&stage->tensor, further->tensor, factor);
    extend(&stage->context, further->context, factor);
    extend(&stage->data, further->data, factor);
    extend(&stage->other, further->other, factor);
    extend(&stage->flops, further->flops, factor);
    extend(&stage->update, further->update, factor);
    stage->memory = further->memory;
}

// Goes on from a step, and one with twice as many micro-batches, to one with `count`.
static void extend_plan(struct plan *plan, const struct plan *further, int64_t count) {
    double factor = (double)(count - plan->micro_batches) / (double)(further->micro_batches - plan->micro_batches);
    for (int i = 0; i < plan->measured; i++)
        extend_stage(&plan->stage[i], &further->stage[i], factor);
    extend(&plan->seconds, further->seconds, factor);
    extend(&plan->bubble, further->bubble, factor);
    extend(&plan->messages, further->messages, factor);
    extend(&plan->executed, further->executed, factor);
    extend(&plan->tokens, further->tokens, factor);
    extend(&plan->flops, further->flops, factor);
    plan->fullest = further->fullest;
    plan->global_batch_size = plan->global_batch_size / plan->micro_batches * count;
    plan->micro_batches = count;
}

static int plan_batches(struct plan *plan, const struct plan_options *options, int64_t micro_batches) {
    struct config *config = options->config;
    int64_t whole = config->global_batch_size;
    config->global_batch_size = micro_batches * config->micro_batch_size * config->data_parallel_size;
    int status = plan_make(plan, options);
    config->global_batch_size = whole;
    return status;
}

int plan_make_brief(struct plan *plan, const struct plan_options *options) {
    const struct config *config = options->config;
    int64_t stages = config->pipeline_model_parallel_size;
    int64_t count = config->global_batch_size / (config->micro_batch_size * config->data_parallel_size);
    bool is_zero_bubble = config->pipeline_schedule && strcmp(config->pipeline_schedule, "zero-bubble") == 0;
    int64_t shorter = short_batches(stages, is_zero_bubble);
    struct plan further;
    bool has_groups = config->microbatch_group_size_per_virtual_pipeline_stage > stages;
    if (has_groups || !is_long(count, shorter))
        return plan_make(plan, options);
    TRY(plan_batches(plan, options, shorter));
    if (plan->seconds == 0)  // it is too large
        return 0;
    TRY(plan_batches(&further, options, 2 * shorter));
    if (further.seconds == 0) {
        *plan = further;
        return 0;
    }
    extend_plan(plan, &further, count);
    return 0;
}
