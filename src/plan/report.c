// Text and JSON of a plan. See report.h.
#include "plan/report.h"
#include "base/json.h"
#include "train/setup.h"

#include <inttypes.h>

static double part(double seconds, const struct plan *plan) {
    return 100 * seconds / plan->seconds;
}

static void append_part(struct buffer *out, const char *name, double seconds, const struct plan *plan) {
    if (seconds > 0)
        buffer_printf(out, "  %-34s %10.1f ms %6.1f %%\n", name, seconds * 1e3, part(seconds, plan));
}

// The waits of a rank at its collectives, without those after the last pass.
static double passes_wait(const struct plan_stage *stage) {
    return stage->tensor + stage->context;
}

static double tokens_per_second(const struct plan *plan) {
    return plan->tokens / plan->seconds;
}

static double run_days(const struct plan *plan, const struct plan_budget *budget) {
    return budget->tokens / tokens_per_second(plan) / 86400;
}

static double run_dollars(const struct plan *plan, const struct plan_budget *budget) {
    return run_days(plan, budget) * 24 * plan->nodes * budget->machine->dollars;
}

static void append_memory(const struct plan *plan, const struct machine *machine, struct buffer *out) {
    for (int i = 0; i < plan->measured; i++) {
        const struct plan_stage *stage = &plan->stage[i];
        if (plan->stages > 1)
            buffer_printf(out, "memory of a rank of stage %d, %" PRId64 " parameters: ", stage->stage,
                          stage->parameters);
        else
            buffer_printf(out, "memory of a rank, %" PRId64 " parameters: ", stage->parameters);
        setup_describe_memory(&stage->memory, out);
        buffer_append_string(out, "\n");
    }
    buffer_append_string(out, plan_fits(plan, machine) ? "fits into " : "DOES NOT FIT into ");
    if (machine->gpus > 0)
        buffer_printf(out, "the %d GiB of %s GPUs\n", machine->gpu_gib, machine->gpu);
    else
        buffer_printf(out, "the %d GiB of a %s\n", machine->memory_gib, machine->name);
}

static void append_cost(const struct plan *plan, const struct plan_budget *budget, struct buffer *out) {
    if (budget->tokens <= 0)
        return;
    double dollars = run_dollars(plan, budget);
    buffer_printf(out, "%.4g tokens take %.1f days without interruptions", budget->tokens, run_days(plan, budget));
    if (dollars > 0)
        buffer_printf(out, " and cost $%.0f (%d × %s at $%.2f an hour)", dollars, plan->nodes, budget->machine->name,
                      budget->machine->dollars);
    buffer_append_string(out, "\n");
    if (dollars > 0)
        buffer_printf(out, "note: %s\n", machine_price_note());
}

void plan_describe(const struct plan *plan, const struct plan_budget *budget, struct buffer *out) {
    const struct plan_stage *slowest = plan_slowest(plan);
    buffer_printf(out, "%d ranks on %d × %s: %d data-parallel replicas of %d stages, %" PRId64 " micro-batches each\n",
                  plan->ranks, plan->nodes, budget->machine->name, plan->data_parallel, plan->stages,
                  plan->micro_batches);
    buffer_printf(out, "number of parameters: %" PRId64 "\n", plan->parameters);
    append_memory(plan, budget->machine, out);
    buffer_printf(out, "a step of %.0f tokens takes %.1f ms:\n", plan->tokens, plan->seconds * 1e3);
    append_part(out, "computing", slowest->compute, plan);
    append_part(out, "waiting for tensor parallelism", slowest->tensor, plan);
    append_part(out, "waiting for context parallelism", slowest->context, plan);
    append_part(out, "waiting for data parallelism", slowest->data, plan);
    append_part(out, "waiting for other collectives", slowest->other, plan);
    double rest = plan->seconds - slowest->compute - passes_wait(slowest) - slowest->data - slowest->other;
    append_part(out, "waiting for other stages (bubble)", rest > 1e-9 ? rest : 0, plan);
    append_part(out, "of all, after the last pass", slowest->update, plan);
    buffer_printf(out, "%.0f tokens/s, %.0f for each rank; %.1f TFLOP/s of model FLOPs for each rank, MFU %.1f %%\n",
                  tokens_per_second(plan), tokens_per_second(plan) / plan->ranks,
                  plan->flops / plan->seconds / plan->ranks / 1e12, 100 * plan_mfu(plan));
    append_cost(plan, budget, out);
}

static void write_stage(struct json_writer *w, const struct plan_stage *stage) {
    const struct {
        const char *name;
        size_t bytes;
    } memory[] = {
        {"weights", stage->memory.weights},
        {"gradients", stage->memory.gradients},
        {"optimizer", stage->memory.optimizer},
        {"buffers", stage->memory.buffers},
        {"activations", stage->memory.activations},
        {"scratch", stage->memory.scratch},
        {"total", stage->memory.total},
    };
    const struct {
        const char *name;
        double seconds;
    } times[] = {
        {"compute_seconds", stage->compute},      {"tensor_wait_seconds", stage->tensor},
        {"context_wait_seconds", stage->context}, {"data_wait_seconds", stage->data},
        {"other_wait_seconds", stage->other},     {"after_passes_seconds", stage->update},
    };
    json_begin_object(w);
    json_key(w, "stage");
    json_int(w, stage->stage);
    json_key(w, "parameters");
    json_int(w, stage->parameters);
    json_key(w, "memory_bytes");
    json_begin_object(w);
    for (size_t i = 0; i < sizeof memory / sizeof memory[0]; i++) {
        json_key(w, memory[i].name);
        json_int(w, (int64_t)memory[i].bytes);
    }
    json_end_object(w);
    for (size_t i = 0; i < sizeof times / sizeof times[0]; i++) {
        json_key(w, times[i].name);
        json_double(w, times[i].seconds);
    }
    json_end_object(w);
}

void plan_write_json(const struct plan *plan, const struct plan_budget *budget, struct buffer *out) {
    struct json_writer w = {.out = out, .indent = 2};
    const struct {
        const char *name;
        double value;
    } numbers[] = {
        {"tokens_per_step", plan->tokens},
        {"model_flops_per_step", plan->flops},
        {"step_seconds", plan->seconds},
        {"bubble_seconds", plan->bubble},
        {"tokens_per_second", tokens_per_second(plan)},
        {"mfu", plan_mfu(plan)},
    };
    json_begin_object(&w);
    json_key(&w, "machine");
    json_cstring(&w, budget->machine->name);
    json_key(&w, "ranks");
    json_int(&w, plan->ranks);
    json_key(&w, "nodes");
    json_int(&w, plan->nodes);
    json_key(&w, "data_parallel");
    json_int(&w, plan->data_parallel);
    json_key(&w, "micro_batches");
    json_int(&w, plan->micro_batches);
    json_key(&w, "parameters");
    json_int(&w, plan->parameters);
    json_key(&w, "fits");
    json_bool(&w, plan_fits(plan, budget->machine));
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        json_key(&w, numbers[i].name);
        json_double(&w, numbers[i].value);
    }
    if (budget->tokens > 0) {
        json_key(&w, "days");
        json_double(&w, run_days(plan, budget));
        json_key(&w, "dollars");
        json_double(&w, run_dollars(plan, budget));
    }
    json_key(&w, "stages");
    json_begin_array(&w);
    for (int i = 0; i < plan->measured; i++)
        write_stage(&w, &plan->stage[i]);
    json_end_array(&w);
    json_end_object(&w);
    buffer_append_string(out, "\n");
}
