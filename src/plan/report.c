// Text and JSON of a plan. See report.h.
#include "plan/report.h"

#include "base/json.h"
#include "plan/setup.h"
#include <inttypes.h>
#include <math.h>
#include <string.h>

static void append_part(struct buffer *out, const char *name, double seconds, const struct plan *plan) {
    if (seconds > 1e-9)
        buffer_printf(out, "  %-34s %10.1f ms %6.1f %%\n", name, seconds * 1e3, 100 * seconds / plan->seconds);
}

static double tokens_per_second(const struct plan *plan) {
    return plan->tokens / plan->seconds;
}

static double run_days(const struct plan *plan, const struct plan_budget *budget) {
    return budget->tokens / tokens_per_second(plan) / 86400;
}

// Days of the whole run with saves and failures; infinite if these leave no time for training.
static double whole_days(const struct plan *plan, const struct plan_budget *budget) {
    double effective = plan_interruptions(plan, budget->machine, &budget->rates).effective;
    return effective > 0 ? run_days(plan, budget) / effective : INFINITY;
}

static double run_dollars(const struct plan *plan, const struct plan_budget *budget) {
    return whole_days(plan, budget) * 24 * plan->nodes * budget->machine->dollars;
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
        buffer_printf(out, "the %d GiB of %s GPUs", machine->gpu_gib, machine->gpu);
    else
        buffer_printf(out, "the %d GiB of a %s", machine->memory_gib, machine->name);
    buffer_append_string(out, plan_fits(plan, machine) ? "\n" : "; --search looks for a layout that does\n");
}

static void append_cost(const struct plan *plan, const struct plan_budget *budget, struct buffer *out) {
    if (budget->tokens <= 0)
        return;
    double dollars = run_dollars(plan, budget);
    double days = whole_days(plan, budget);
    buffer_printf(out, "%.4g tokens take %.1f days without interruptions", budget->tokens, run_days(plan, budget));
    if (isfinite(days))
        buffer_printf(out, ", %.1f with saves and failures", days);
    else
        buffer_append_string(out, "; the run never finishes at this rate of failures");
    bool is_priced = isfinite(dollars) && dollars > 0;
    if (is_priced)
        buffer_printf(out, "; these cost $%.0f (%d × %s at $%.2f an hour)", dollars, plan->nodes, budget->machine->name,
                      budget->machine->dollars);
    buffer_append_string(out, "\n");
    if (is_priced)
        buffer_printf(out, "note: %s\n", machine_price_note());
    else if (budget->machine->dollars == 0)
        buffer_printf(out, "note: %s\n", machine_unpriced_note(budget->machine));
}

void plan_list_parts(const struct plan *plan, struct plan_part parts[PLAN_PARTS]) {
    const struct plan_stage *slowest = plan_slowest(plan);
    double rest = plan->seconds - slowest->compute - slowest->tensor - slowest->context - slowest->expert -
                  slowest->data - slowest->other;
    double messages = fmax(0, fmin(plan->messages, rest));
    const struct plan_part found[PLAN_PARTS] = {
        {"compute", "computing", slowest->compute},
        {"tensor", "waiting for tensor parallelism", slowest->tensor},
        {"context", "waiting for context parallelism", slowest->context},
        {"expert", "waiting for expert parallelism", slowest->expert},
        {"data", "waiting for data parallelism", slowest->data},
        {"other", "waiting for other collectives", slowest->other},
        {"messages", "waiting for messages of stages", messages},
        {"bubble", "waiting for other stages (bubble)", rest - messages},
    };
    memcpy(parts, found, sizeof found);
}

static void append_duration(struct buffer *out, double seconds) {
    if (seconds < 120)
        buffer_printf(out, "%.1f s", seconds);
    else if (seconds < 2 * 3600)
        buffer_printf(out, "%.1f min", seconds / 60);
    else if (seconds < 2 * 86400)
        buffer_printf(out, "%.1f h", seconds / 3600);
    else
        buffer_printf(out, "%.1f days", seconds / 86400);
}

static void append_interruptions(const struct plan *plan, const struct plan_budget *budget, struct buffer *out) {
    struct interruptions found = plan_interruptions(plan, budget->machine, &budget->rates);
    buffer_printf(out, "a checkpoint has %.1f GB and takes ", plan->checkpoint_bytes / 1e9);
    append_duration(out, found.save_seconds);
    buffer_printf(out, " at %.1f GB/s%s\n", found.bytes_per_second / 1e9,
                  budget->rates.bytes_per_second > 0 ? "" : ", assumed: 1 GB/s for each machine (--save-bandwidth)");
    if (found.failures_per_day <= 0)
        return;
    buffer_append_string(out, "a failure is expected every ");
    append_duration(out, 86400 / found.failures_per_day);
    buffer_printf(out, " (%.3g a day for %s%s)\n", budget->rates.failures_per_day,
                  budget->machine->gpus > 0 ? "8 GPUs" : "a machine",
                  budget->rates.is_default ? ", " INTERRUPTIONS_SOURCE : "");
    buffer_append_string(out, "save every ");
    append_duration(out, found.interval);
    buffer_printf(out,
                  ", %.0f steps: the time between saves that loses least (Young and Daly); then %.1f %% of the time is "
                  "effective training, with restarts of %.3g min\n",
                  fmax(1, round(found.interval / plan->seconds)), 100 * found.effective,
                  budget->rates.restart_seconds / 60);
}

static void plan_control(const struct plan *plan, const struct plan_budget *budget,
                         struct control_cost costs[CONTROL_PHASES]) {
    struct control_shape shape = plan->control;
    shape.operations_per_second = budget->file_operations;
    control_plan(&shape, costs);
}

// Lists the phases that grow faster than the number of ranks and take long.
static void append_growing(const struct control_cost costs[CONTROL_PHASES], struct buffer *out) {
    const double long_seconds = 10, faster = 1.2;
    static const struct {
        enum control_phase phase;
        const char *text;
    } growing[] = {
        {CONTROL_SAVE, "the tables of a save"},
        {CONTROL_LOAD_FILES, "opening the files of a checkpoint to resume (--ckpt-writers N makes fewer)"},
        {CONTROL_HANG_REPORT, "naming a rank that hangs"},
    };
    for (size_t i = 0; i < sizeof growing / sizeof growing[0]; i++) {
        const struct control_cost *cost = &costs[growing[i].phase];
        if (cost->seconds < long_seconds || cost->growth < faster)
            continue;
        buffer_printf(out, "grows with ranks^%.1f: %s takes ", cost->growth, growing[i].text);
        append_duration(out, cost->seconds);
        buffer_append_byte(out, '\n');
    }
}

// Only reported for many ranks.
static void append_control(const struct plan *plan, const struct plan_budget *budget, struct buffer *out) {
    enum { MANY_RANKS = 512 };
    struct control_cost costs[CONTROL_PHASES];
    const struct control_cost *log = &costs[CONTROL_LOG], *save = &costs[CONTROL_SAVE];
    if (plan->ranks < MANY_RANKS)
        return;
    plan_control(plan, budget, costs);
    buffer_printf(
        out,
        "rank 0 works %.2f s until all ranks have met and formed their groups, %.2f s for a log line (%.2f GB "
        "to all ranks) and %.2f s for the tables of a save (%.2f GB)\n",
        control_start_seconds(costs), log->seconds, log->bytes / 1e9, save->seconds, save->bytes / 1e9);
    buffer_printf(out, "beside the bytes, the file system takes ");
    append_duration(out, costs[CONTROL_SAVE_FILES].seconds);
    buffer_printf(out, " for %.0f files of a save and ", control_files(&plan->control));
    append_duration(out, costs[CONTROL_LOAD_FILES].seconds);
    buffer_append_string(out, " to open them to resume; a rank that hangs is named ");
    append_duration(out, costs[CONTROL_HANG_REPORT].seconds);
    buffer_append_string(out, " after the deadline\n");
    append_growing(costs, out);
}

static void write_control(struct json_writer *w, const struct plan *plan, const struct plan_budget *budget) {
    struct control_cost costs[CONTROL_PHASES];
    plan_control(plan, budget, costs);
    json_key(w, "control");
    json_begin_object(w);
    for (int i = 0; i < CONTROL_PHASES; i++) {
        const struct {
            const char *name;
            double value;
        } values[] = {{"seconds", costs[i].seconds},
                      {"bytes", costs[i].bytes},
                      {"file_operations", costs[i].operations},
                      {"growth", costs[i].growth}};
        json_key(w, control_names[i]);
        json_begin_object(w);
        for (size_t k = 0; k < sizeof values / sizeof values[0]; k++)
            json_put_double(w, values[k].name, values[k].value);
        json_end_object(w);
    }
    json_end_object(w);
}

static const char *plural(int64_t count) {
    return count == 1 ? "" : "s";
}

void plan_describe(const struct plan *plan, const struct plan_budget *budget, struct buffer *out) {
    const struct plan_stage *slowest = plan_slowest(plan);
    buffer_printf(out, "%d rank%s on %d × %s: %d data-parallel replica%s of %d stage%s, %" PRId64 " micro-batch%s%s\n",
                  plan->ranks, plural(plan->ranks), plan->nodes, budget->machine->name, plan->data_parallel,
                  plural(plan->data_parallel), plan->stages, plural(plan->stages), plan->micro_batches,
                  plan->micro_batches == 1 ? "" : "es", plan->data_parallel == 1 ? "" : " each");
    if (plan->expert_parallel > 1)
        buffer_printf(out,
                      "%d of the replicas share out the experts, with room for all rows that may come to a rank's "
                      "(--moe-expert-capacity-factor limits it)\n",
                      plan->expert_parallel);
    buffer_printf(out, "number of parameters: %" PRId64 "\n", plan->parameters);
    if (plan->active < plan->parameters)
        buffer_printf(out, "of which a token meets: %" PRId64 "\n", plan->active);
    append_memory(plan, budget->machine, out);
    buffer_printf(out, "a step of %.0f tokens takes %.1f ms:\n", plan->tokens, plan->seconds * 1e3);
    struct plan_part parts[PLAN_PARTS];
    plan_list_parts(plan, parts);
    for (int i = 0; i < PLAN_PARTS; i++)
        append_part(out, parts[i].name, parts[i].seconds, plan);
    append_part(out, "of all, after the last pass", slowest->update, plan);
    buffer_printf(out, "%.0f tokens/s, %.0f for each rank; %.1f TFLOP/s of model FLOPs for each rank, MFU %.1f %%\n",
                  tokens_per_second(plan), tokens_per_second(plan) / plan->ranks,
                  plan->flops / plan->seconds / plan->ranks / 1e12, 100 * plan_mfu(plan));
    buffer_printf(out,
                  "HFU %.1f %%: FLOPs that the devices execute, those computed twice included; MFU: the model's, as "
                  "Megatron counts them; both of %.0f TFLOP/s\n",
                  100 * plan_hfu(plan), plan->peak / 1e12);
    append_control(plan, budget, out);
    append_interruptions(plan, budget, out);
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
        {"hosted", stage->memory.hosted},
        {"offloaded", stage->memory.offloaded},
    };
    const struct {
        const char *name;
        double seconds;
    } times[] = {
        {"compute_seconds", stage->compute},      {"tensor_wait_seconds", stage->tensor},
        {"context_wait_seconds", stage->context}, {"expert_wait_seconds", stage->expert},
        {"data_wait_seconds", stage->data},       {"other_wait_seconds", stage->other},
        {"after_passes_seconds", stage->update},
    };
    json_begin_object(w);
    json_put_int(w, "stage", stage->stage);
    json_put_int(w, "parameters", stage->parameters);
    json_key(w, "memory_bytes");
    json_begin_object(w);
    for (size_t i = 0; i < sizeof memory / sizeof memory[0]; i++)
        json_put_int(w, memory[i].name, (int64_t)memory[i].bytes);
    json_end_object(w);
    for (size_t i = 0; i < sizeof times / sizeof times[0]; i++)
        json_put_double(w, times[i].name, times[i].seconds);
    json_end_object(w);
}

static void write_parts(struct json_writer *w, const struct plan *plan) {
    struct plan_part parts[PLAN_PARTS];
    plan_list_parts(plan, parts);
    json_key(w, "step_parts_seconds");
    json_begin_object(w);
    for (int i = 0; i < PLAN_PARTS; i++)
        json_put_double(w, parts[i].key, parts[i].seconds);
    json_end_object(w);
}

void plan_write_json(const struct plan *plan, const struct plan_budget *budget, struct buffer *out) {
    struct json_writer w = {.out = out, .indent = 2};
    const struct interruptions found = plan_interruptions(plan, budget->machine, &budget->rates);
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
        {"hfu", plan_hfu(plan)},
        {"executed_flops_per_step", plan->executed},
        {"checkpoint_bytes", plan->checkpoint_bytes},
        {"save_bytes_per_second", found.bytes_per_second},
        {"save_seconds", found.save_seconds},
        {"failures_per_day", found.failures_per_day},
        {"save_interval_seconds", found.interval},
        {"effective_time", found.effective},
    };
    json_begin_object(&w);
    json_put_string(&w, "machine", budget->machine->name);
    json_put_int(&w, "ranks", plan->ranks);
    json_put_int(&w, "nodes", plan->nodes);
    json_put_int(&w, "data_parallel", plan->data_parallel);
    json_put_int(&w, "expert_parallel", plan->expert_parallel);
    json_put_int(&w, "micro_batches", plan->micro_batches);
    json_put_int(&w, "parameters", plan->parameters);
    json_put_int(&w, "active_parameters", plan->active);
    json_put_bool(&w, "fits", plan_fits(plan, budget->machine));
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++)
        json_put_double(&w, numbers[i].name, numbers[i].value);
    if (budget->tokens > 0) {
        json_put_double(&w, "days", run_days(plan, budget));
        json_put_double(&w, "days_with_interruptions", whole_days(plan, budget));
        json_put_double(&w, "dollars", run_dollars(plan, budget));
    }
    write_parts(&w, plan);
    write_control(&w, plan, budget);
    json_key(&w, "stages");
    json_begin_array(&w);
    for (int i = 0; i < plan->measured; i++)
        write_stage(&w, &plan->stage[i]);
    json_end_array(&w);
    json_end_object(&w);
    buffer_append_string(out, "\n");
}

// ---- saves and failures ----

static const double SECONDS_PER_DAY = 86400;

// Failures grow with the number of GPUs, in any machines.
static double failing_units(const struct plan *plan, const struct machine *machine) {
    const double gpus_of_rate = 8;
    return machine->gpus > 0 ? plan->nodes * machine->gpus / gpus_of_rate : plan->nodes;
}

// A failure costs the work since the last save, half an interval on average, plus the restart and reading the
// checkpoint.
struct interruptions plan_interruptions(const struct plan *plan, const struct machine *machine,
                                        const struct interruption_rates *rates) {
    const double usual_bytes_per_second = 1e9;
    struct interruptions result = {.bytes_per_second = rates->bytes_per_second > 0
                                                           ? rates->bytes_per_second
                                                           : usual_bytes_per_second * plan->nodes,
                                   .failures_per_day = rates->failures_per_day * failing_units(plan, machine),
                                   .effective = 1};
    result.save_seconds = plan->checkpoint_bytes / result.bytes_per_second;
    if (result.failures_per_day <= 0)
        return result;
    double between = SECONDS_PER_DAY / result.failures_per_day;
    result.interval = sqrt(2 * result.save_seconds * between);
    double lost = rates->restart_seconds + result.save_seconds + result.interval / 2;
    result.effective = 1 - lost / between - (result.interval > 0 ? result.save_seconds / result.interval : 0);
    result.effective = result.effective > 0 ? result.effective : 0;
    return result;
}
