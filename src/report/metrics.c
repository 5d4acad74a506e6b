// The fields of a log line, as data, and what several sinks ask of the values. See metrics.h.
#include "report/metrics.h"

#include "base/memory.h"
#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#define AT(member) offsetof(struct metrics, member)
#define REAL(member) .type = METRIC_REAL, .offset = AT(member)
#define COUNT(member) .type = METRIC_COUNT, .offset = AT(member)
#define IF(member) .condition = AT(member)

const struct metric_field metric_fields[] = {
    {"train_iters", COUNT(train_iters)},
    {"consumed_samples", COUNT(consumed_samples), .family = "samples_total",
     .help = "Samples that the run has trained on."},
    {"skipped_samples", COUNT(skipped_samples), .tag = "skipped-train-samples", .is_tag_positive = true,
     .is_iterations_only = true},
    {"losses", .type = METRIC_LOSSES, .family = "loss", .help = "Training loss, mean over the last log interval."},
    {"learning_rate", REAL(learning_rate), .tag = "learning-rate", .family = "learning_rate", .help = "Learning rate."},
    {"decoupled_learning_rate", REAL(decoupled_learning_rate), IF(has_decoupled), .tag = "decoupled-learning-rate",
     .is_iterations_only = true},
    {"global_batch_size", COUNT(global_batch_size), .tag = "batch-size", .family = "batch_size",
     .help = "Samples per iteration."},
    {"elapsed_ms", REAL(elapsed_ms), .divisor = 1000, .tag = "iteration-time", .is_timer = true,
     .family = "iteration_seconds", .help = "Seconds per iteration, mean over the last log interval."},
    {"tokens_per_second", REAL(tokens_per_second), .family = "tokens_per_second",
     .help = "Tokens per second of the whole run."},
    {"planned_tokens_per_second", REAL(planned_tokens_per_second), .is_positive = true,
     .family = "planned_tokens_per_second", .help = "Tokens per second that the planner expects."},
    {"teraflops", REAL(teraflops), IF(has_throughput), .tag = "throughput", .is_timer = true,
     .is_iterations_only = true, .family = "teraflops_per_device", .help = "Model TFLOP/s per device."},
    {"mfu", .type = METRIC_MFU},
    {"loss_scale", REAL(loss_scale), .tag = "loss-scale", .is_loss_scale = true, .family = "loss_scale",
     .help = "Loss scale of fp16; 1 if there is none."},
    {"grad_norm", REAL(grad_norm), IF(has_grad_norm), .tag = "grad-norm", .family = "grad_norm",
     .help = "Norm of the gradient before clipping."},
    {"num_zeros", REAL(num_zeros), IF(has_num_zeros), .tag = "num-zeros"},
    {"params_norm", REAL(params_norm), IF(has_params_norm), .tag = "params-norm"},
    {"skipped_iterations", COUNT(skipped_iterations)},
    {"nan_iterations", COUNT(nan_iterations)},
    {"memory_bytes", COUNT(memory_bytes), .is_positive = true, .family = "memory_bytes",
     .help = "Memory of the rank that uses most."},
    {"cpu_cores", REAL(processors), IF(has_system)},
    {"data_wait_ms", REAL(data_wait_ms), IF(has_system)},
    {"host_memory_bytes", COUNT(host_memory_bytes), IF(has_system), .is_positive = true},
    {"expert_balance", REAL(expert_balance), .needs_experts = true, .tag = "expert-balance", .family = "expert_balance",
     .help = "Tokens of the expert with most, relative to the mean; mean over layers."},
    {"idle_experts", COUNT(idle_experts), .needs_experts = true, .tag = "idle-experts", .family = "idle_experts",
     .help = "Experts without tokens in the last log interval."},
    {0},
};

double metric_value(const struct metric_field *field, const struct metrics *m) {
    const char *at = (const char *)m + field->offset;
    return field->type == METRIC_REAL ? *(const double *)(const void *)at : (double)*(const int64_t *)(const void *)at;
}

bool metric_is_there(const struct metric_field *field, const struct metrics *m) {
    if (field->needs_experts && m->expert_layer_count == 0)
        return false;
    if (field->condition && !*(const bool *)(const void *)((const char *)m + field->condition))
        return false;
    return !field->is_positive || metric_value(field, m) > 0;
}

void metrics_each_tag(const struct metrics *m, const struct metrics_choice *choice, bool timers,
                      const struct metrics_taker *taker) {
    for (const struct metric_field *field = metric_fields; field->key; field++) {
        if (field->type == METRIC_LOSSES && !timers)
            for (int i = 0; i < m->loss_count; i++)
                taker->put(taker->context, m->losses[i].name, m->losses[i].value, false);
        bool is_chosen = field->tag && field->is_timer == timers && !(field->is_loss_scale && choice->no_loss_scale);
        if (!is_chosen || !metric_is_there(field, m) || (field->is_tag_positive && metric_value(field, m) <= 0))
            continue;
        double divisor = field->divisor > 0 ? field->divisor : 1;
        taker->put(taker->context, field->tag, metric_value(field, m) / divisor, field->is_iterations_only);
    }
    if (!timers && choice->world_size > 0)
        taker->put(taker->context, "world-size", (double)choice->world_size, false);
}

void metrics_each_eval_tag(const struct metrics_eval *eval, const struct metrics_choice *choice,
                           const struct metrics_taker *taker) {
    for (int i = 0; i < eval->loss_count; i++) {
        const struct metrics_loss *loss = &eval->losses[i];
        OWNED char *tag = memory_printf("%s %s", loss->name, eval->set), *ppl = memory_printf("%s ppl", tag);
        taker->put(taker->context, tag, loss->value, false);
        if (choice->validation_ppl && !loss->is_score)
            taker->put(taker->context, ppl, metrics_perplexity(loss->value), false);
    }
}

bool metrics_is_nan(const struct metrics *m) {
    return m->loss_count > 0 && !isfinite(m->losses[0].value);
}

double metrics_perplexity(double loss) {
    return exp(loss < 20 ? loss : 20);
}

bool metrics_event_is_end(const char *name) {
    return strcmp(name, "finished") == 0 || strcmp(name, "stopped") == 0 || strcmp(name, "failed") == 0;
}
