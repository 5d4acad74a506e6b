// The progress of a Megatron checkpoint's run: counters, loss scale, schedules, and the training flags that a resumed
// run is compared with. States of random generators are not used: ours has only its seed.
#include "base/error.h"
#include "base/memory.h"
#include "formats/megatron_folder.h"
#include "formats/model_source.h"
#include <math.h>
#include <string.h>

// Beyond this, a double does not count samples exactly.
#define MOST_SAMPLES 9007199254740992.0

static bool get_number(const struct megatron_folder *folder, const struct torch_value *dict, const char *name,
                       double *number) {
    return megatron_number(folder->common_file, torch_get(dict, name), number);
}

static void get_count(const struct megatron_folder *folder, const struct torch_value *dict, const char *name,
                      int64_t *count) {
    double number;
    if (get_number(folder, dict, name, &number) && number >= 0 && number < MOST_SAMPLES)
        *count = (int64_t)number;
}

// The number of Adam's updates: of the group (fused optimizers), of a parameter (torch's own), or of all of them.
static int read_step(const struct megatron_folder *folder, const struct torch_value *inner, int64_t *step) {
    const struct torch_value *groups = torch_get(inner, "param_groups"), *states = torch_get(inner, "state");
    const struct torch_value *first =
        states && states->type == TORCH_DICT && states->count > 1 ? states->items[1] : NULL;
    double number = -1;
    bool is_there = get_number(folder, states, "common_step", &number) || get_number(folder, first, "step", &number);
    for (size_t i = 0; groups && i < groups->count && !is_there; i++)
        is_there = get_number(folder, groups->items[i], "step", &number);
    if (!is_there || number < 0 || number >= MOST_SAMPLES || number != floor(number))
        return megatron_refuse_optimizer(folder, "it does not say the number of its steps");
    *step = (int64_t)number;
    return 0;
}

// Names in the scheduler's dict, and their destinations.
static void read_schedule(const struct megatron_folder *folder, const struct torch_value *schedule,
                          struct model_source *source) {
    struct config *config = &source->config;
    const struct {
        const char *name, *older;
        double *real;
        int64_t *count;
    } members[] = {{"max_lr", "start_lr", &config->run.lr, NULL},
                   {"min_lr", "min_lr", &config->run.min_lr, NULL},
                   {"lr_warmup_steps", "warmup_steps", &config->run.lr_warmup_steps, NULL},
                   {"lr_decay_steps", "decay_steps", NULL, &config->run.lr_decay_steps},
                   {"start_wd", "start_wd", &config->run.start_weight_decay, NULL},
                   {"end_wd", "end_wd", &config->run.end_weight_decay, NULL},
                   {"end_wd", "end_wd", &config->run.weight_decay, NULL},
                   {"wd_incr_steps", "wd_incr_steps", NULL, &config->run.wd_incr_steps}};
    for (size_t i = 0; i < sizeof members / sizeof members[0]; i++) {
        double number;
        if (!get_number(folder, schedule, members[i].name, &number) &&
            !get_number(folder, schedule, members[i].older, &number))
            continue;
        if (members[i].real && number >= 0)
            *members[i].real = number;
        if (members[i].count && number >= 0 && number < MOST_SAMPLES)
            *members[i].count = (int64_t)number;
    }
    static const struct {
        const char *name, *older, *flag;
    } styles[] = {{"lr_decay_style", "decay_style", "--lr-decay-style"},
                  {"wd_incr_style", "wd_incr_style", "--weight-decay-incr-style"}};
    struct flag_table table = config_flag_table(0);
    for (size_t i = 0; i < sizeof styles / sizeof styles[0]; i++) {
        const struct torch_value *style = torch_get(schedule, styles[i].name);
        style = style ? style : torch_get(schedule, styles[i].older);
        if (style && style->type == TORCH_STRING &&
            flag_set(&table, config, styles[i].flag, style->text, FLAG_FROM_FILE) < 0)
            error_clear();  // an unsupported style: the flags of the resumed run decide
    }
}

// Arguments of the training that config.json keeps for comparison. Unsupported ones are skipped.
static void read_training(const struct torch_value *args, struct config *config) {
    static const char *const names[] = {"seed",      "adam_beta1",  "adam_beta2",       "adam_eps",
                                        "clip_grad", "train_iters", "micro_batch_size", "global_batch_size"};
    struct flag_table table = config_flag_table(0);
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        const struct torch_value *value = torch_get(args, names[i]);
        OWNED char *text = NULL;
        if (value && value->type == TORCH_INT)
            text = memory_printf("%lld", (long long)value->integer);
        else if (value && value->type == TORCH_FLOAT)
            text = memory_printf("%.17g", value->real);
        if (text && flag_set(&table, config, names[i], text, FLAG_FROM_FILE) < 0)
            error_clear();
    }
}

int megatron_read_progress(const struct megatron_folder *folder, struct model_source *source) {
    struct checkpoint_state *state = &source->state;
    const struct torch_value *optimizer = megatron_first_optimizer(folder->common);
    const struct torch_value *scaler = folder->scaler ? folder->scaler : torch_get(optimizer, "grad_scaler");
    const struct torch_value *name = torch_get(folder->args, "optimizer");
    if (name && name->type == TORCH_STRING && strcmp(name->text, "adam") != 0)
        return megatron_refuse_optimizer(folder, "it is not Adam's");
    const struct torch_value *schedule = torch_get(folder->common, "opt_param_scheduler");
    schedule = schedule ? schedule : torch_get(folder->common, "lr_scheduler");
    TRY(read_step(folder, folder->inner ? folder->inner : megatron_inner_optimizer(optimizer), &state->adam_step));
    state->schedule_samples = state->consumed_train_samples;
    get_count(folder, schedule, "num_steps", &state->schedule_samples);
    get_count(folder, folder->args, "consumed_valid_samples", &state->consumed_valid_samples);
    get_count(folder, folder->args, "skipped_train_samples", &state->skipped_train_samples);
    get_count(folder, folder->args, "seed", &state->seed);
    state->loss_scale = 1;
    (void)get_number(folder, scaler, "scale", &state->loss_scale);
    get_count(folder, scaler, "growth_tracker", &state->loss_scale_growth);
    get_count(folder, scaler, "hysteresis_tracker", &state->loss_scale_hysteresis);
    (void)get_number(folder, folder->common, "num_floating_point_operations_so_far", &state->flops_so_far);
    read_training(folder->args, &source->config);
    read_schedule(folder, schedule, source);
    return 0;
}
