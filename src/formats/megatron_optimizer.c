// The states of Megatron's optimizers in files of the format torch. An optimizer has no names there: it has groups of
// numbered parameters, and a group has those of one kind in the order of the model: matrices, which decay, and vectors
// (biases and gains), which do not. The model in the same file is in that order too, so the n-th vector of the file
// belongs to the n-th number of the group of vectors. Shapes must agree, and fp32 copies must round to the parameters,
// which is checked when they are read. If experts are on several ranks, each file has a list of two optimizers: first
// that of all other parameters, which is the same in all files, then that of the experts.
#include "base/error.h"
#include "base/memory.h"
#include "formats/megatron_folder.h"
#include "formats/model_source.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

int megatron_refuse_optimizer(const struct megatron_folder *folder, const char *why) {
    return error_set("the optimizer state of %s cannot be used: %s; give --weights-only to convert without it",
                     folder->path, why);
}

bool megatron_number(const struct torch_file *file, const struct torch_value *value, double *number) {
    if (!value)
        return false;
    if (value->type == TORCH_INT)
        *number = (double)value->integer;
    else if (value->type == TORCH_FLOAT)
        *number = value->real;
    else if (value->type == TORCH_TENSOR && torch_tensor_count(&value->tensor) == 1 &&
             value->tensor.dtype->is_readable) {
        float single = 0;
        int64_t wide = 0;
        int32_t narrow = 0;
        enum dtype dtype = value->tensor.dtype->dtype;
        void *to = dtype == DTYPE_F32 ? (void *)&single : dtype == DTYPE_I64 ? (void *)&wide : (void *)&narrow;
        if ((dtype != DTYPE_F32 && dtype != DTYPE_I64 && dtype != DTYPE_I32) ||
            torch_read(file, &value->tensor, to) < 0)
            return false;
        *number = dtype == DTYPE_F32 ? (double)single : dtype == DTYPE_I64 ? (double)wide : (double)narrow;
    } else
        return false;
    return isfinite(*number);
}

const struct torch_value *megatron_inner_optimizer(const struct torch_value *optimizer) {
    const struct torch_value *inner = torch_get(optimizer, "optimizer");
    inner = inner ? inner : torch_get(optimizer, "optimizer_state_dict");  // in early releases
    inner = inner ? inner : optimizer;                                     // if the model is in fp32
    const struct torch_value *groups = torch_get(inner, "param_groups");
    return groups && groups->type == TORCH_LIST ? inner : NULL;
}

// ---- numbered states ----

struct taking {
    struct megatron_folder *folder;
    const struct megatron_order *order;
    const struct torch_value *states;   // maps a parameter's number to its states
    const struct torch_value *masters;  // lists of groups; NULL if parameters are in fp32
};

// The value of a number; usually they are in order.
static const struct torch_value *find_number(const struct torch_value *dict, int64_t number) {
    const struct torch_value *key = number >= 0 && (uint64_t)number < dict->count / 2 ? dict->items[2 * number] : NULL;
    if (key && key->type == TORCH_INT && key->integer == number)
        return dict->items[2 * number + 1];
    for (size_t i = 0; i < dict->count; i += 2)
        if (dict->items[i]->type == TORCH_INT && dict->items[i]->integer == number)
            return dict->items[i + 1];
    return NULL;
}

static const struct torch_tensor *tensor_of(const struct torch_value *value) {
    return value && value->type == TORCH_TENSOR ? &value->tensor : NULL;
}

static bool is_same_shape(const struct torch_tensor *a, const struct torch_tensor *b) {
    return a && a->rank == b->rank && memcmp(a->shape, b->shape, (size_t)a->rank * sizeof a->shape[0]) == 0;
}

static void add_state(struct taking *taking, const struct megatron_entry *entry, enum source_state state,
                      const struct torch_tensor *tensor) {
    OWNED char *key = memory_printf("%.2s/%s/%s", entry->key, source_state_names[state], entry->key + 3);
    weights_add_tensor(&taking->folder->states, key, taking->order->file, tensor);
}

static int take_parameter(struct taking *taking, const struct megatron_entry *entry, int64_t number,
                          const struct torch_value *master) {
    const struct torch_value *states = find_number(taking->states, number);
    const struct torch_tensor *average = tensor_of(torch_get(states, "exp_avg")),
                              *square = tensor_of(torch_get(states, "exp_avg_sq"));
    if (!states || !average || !square)
        return megatron_refuse_optimizer(taking->folder, "it lacks the moments of Adam for a parameter");
    if (!is_same_shape(average, entry->tensor) || !is_same_shape(square, entry->tensor) ||
        (taking->masters && !is_same_shape(tensor_of(master), entry->tensor)))
        return megatron_refuse_optimizer(taking->folder, "its parameters are not in the order of the model");
    if (!entry->is_first)
        return 0;
    add_state(taking, entry, STATE_EXP_AVG, average);
    add_state(taking, entry, STATE_EXP_AVG_SQ, square);
    if (taking->masters)
        add_state(taking, entry, STATE_MASTER, tensor_of(master));
    return 0;
}

static const struct torch_value *list_at(const struct torch_value *list, size_t i) {
    return list && list->type == TORCH_LIST && i < list->count ? list->items[i] : NULL;
}

static int take_group(struct taking *taking, const struct torch_value *group, const struct torch_value *masters,
                      bool *had_vectors, bool *had_matrices) {
    const struct torch_value *numbers = torch_get(group, "params");
    if (!numbers || numbers->type != TORCH_LIST)
        return megatron_refuse_optimizer(taking->folder, "a group has no list of parameters");
    if (numbers->count == 0)
        return 0;
    const struct torch_value *first = numbers->items[0];
    const struct torch_value *states = first->type == TORCH_INT ? find_number(taking->states, first->integer) : NULL;
    const struct torch_tensor *sample = tensor_of(torch_get(states, "exp_avg"));
    if (!sample)
        return megatron_refuse_optimizer(taking->folder, "it lacks the moments of Adam for a parameter");
    bool is_vectors = sample->rank == 1, *had = is_vectors ? had_vectors : had_matrices;
    if (*had)
        return megatron_refuse_optimizer(taking->folder, "it has several groups of parameters of a kind (as "
                                                         "--decoupled-lr makes them)");
    *had = true;
    size_t at = 0;
    for (size_t i = 0; i < taking->order->count; i++) {
        const struct megatron_entry *entry = &taking->order->entries[i];
        if ((entry->tensor->rank == 1) != is_vectors)
            continue;
        const struct torch_value *number = list_at(numbers, at);
        if (!number || number->type != TORCH_INT)
            return megatron_refuse_optimizer(
                taking->folder, "a group has fewer parameters than the model (as --decoupled-lr makes them)");
        TRY(take_parameter(taking, entry, number->integer, list_at(masters, at)));
        at++;
    }
    return at == numbers->count ? 0
                                : megatron_refuse_optimizer(taking->folder, "it has more parameters than the model");
}

// `which`: one of two optimizers; -1 if there is one.
static int take_optimizer(struct megatron_folder *folder, const struct megatron_order *order,
                          const struct torch_value *optimizer, int which) {
    if (optimizer->type != TORCH_DICT)
        return megatron_refuse_optimizer(folder, "it is made of several optimizers");
    const struct torch_value *inner = megatron_inner_optimizer(optimizer);
    struct taking taking = {.folder = folder, .order = order, .states = torch_get(inner, "state")};
    taking.masters = torch_get(optimizer, "fp32_from_fp16_params");
    taking.masters = taking.masters ? taking.masters : torch_get(optimizer, "fp32_from_fp16");
    if (inner && !taking.states)
        return megatron_take_buffers(folder, order, which);
    if (!inner || !taking.states || taking.states->type != TORCH_DICT || taking.states->count / 2 > order->count)
        return megatron_refuse_optimizer(folder, "it has no states, or those of other parameters");
    const struct torch_value *groups = torch_get(inner, "param_groups");
    bool had_vectors = false, had_matrices = false;
    for (size_t i = 0; i < groups->count; i++)
        TRY(take_group(&taking, groups->items[i], list_at(taking.masters, i), &had_vectors, &had_matrices));
    return 0;
}

// The parameters of one of two optimizers, in their order; their keys stay the list's.
static struct megatron_order part_of(const struct megatron_order *order, int which) {
    struct megatron_order part = {.file = order->file, .expert_rank = order->expert_rank};
    part.entries = memory_alloc((order->count + 1) * sizeof part.entries[0]);
    for (size_t i = 0; i < order->count; i++)
        if (order->entries[i].is_expert == (which == MEGATRON_EXPERTS))
            part.entries[part.count++] = order->entries[i];
    return part;
}

static int take_file(struct megatron_folder *folder, const struct megatron_order *order,
                     const struct torch_value *optimizer) {
    if (folder->expert_ranks == 1)
        return take_optimizer(folder, order, optimizer, -1);
    bool are_two = optimizer->type == TORCH_LIST && optimizer->count == MEGATRON_OPTIMIZERS;
    int result = are_two ? 0
                         : megatron_refuse_optimizer(folder, "experts are on several ranks, and it is not made of two "
                                                             "optimizers, the experts' and the others'");
    for (int which = order->expert_rank > 0 ? MEGATRON_EXPERTS : MEGATRON_SHARED;
         result == 0 && which < MEGATRON_OPTIMIZERS; which++) {
        struct megatron_order part = part_of(order, which);
        if (part.count > 0)
            result = take_optimizer(folder, &part, optimizer->items[which], which);
        free(part.entries);
    }
    return result;
}

const struct torch_value *megatron_first_optimizer(const struct torch_value *root) {
    const struct torch_value *optimizer = torch_get(root, "optimizer");
    if (optimizer && optimizer->type == TORCH_LIST && optimizer->count > 0)
        return optimizer->items[0];
    // In distributed checkpoints the keys of the two are numbers.
    bool is_numbered = optimizer && optimizer->type == TORCH_DICT && optimizer->count > 1 &&
                       optimizer->items[0]->type == TORCH_INT && optimizer->items[0]->integer == 0;
    return is_numbered ? optimizer->items[1] : optimizer;
}

int megatron_open_optimizer(struct megatron_folder *folder, bool *is_there) {
    *is_there = false;
    if (folder->iteration == 0)  // a release: Megatron starts over with its weights
        return 0;
    if (folder->order_count == 0)
        return megatron_open_model_space(folder, is_there);
    for (size_t i = 0; i < folder->order_count; i++) {
        const struct megatron_order *order = &folder->orders[i];
        const struct torch_value *optimizer = torch_get(order->file->pickle.root, "optimizer");
        if (!optimizer && i == 0)
            return 0;
        if (!optimizer)
            return megatron_refuse_optimizer(folder, "the files of some ranks lack it");
        TRY(take_file(folder, order, optimizer));
    }
    *is_there = true;
    return weights_sort(&folder->states);
}

// ---- the progress of the run ----

// Counters, loss scale, schedules, and the training flags that a resumed run is compared with. States of random
// generators are not used: ours has only its seed.

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
