// The schedules of a resumed run: those of its checkpoint and those of the flags must be the same, unless the user says
// which of the two wins. A schedule that changes unnoticed ruins a run slowly.
#include "config/config.h"
#include "base/error.h"
#include "base/log.h"
#include "base/memory.h"
#include "config/factors.h"
#include "config/flag_internal.h"
#include "config/validate.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum value_kind { KIND_INT, KIND_DOUBLE, KIND_TEXT, KIND_FACTORS };

static const struct schedule_member {
    const char *name;
    enum value_kind kind;
    size_t offset;
    const char *over, *flag;  // of steps: the thing scheduled over them, and the prefix of their flag
} members[] = {
    {"lr", KIND_DOUBLE, offsetof(struct config, run.lr), NULL, NULL},
    {"min_lr", KIND_DOUBLE, offsetof(struct config, run.min_lr), NULL, NULL},
    {"decoupled_lr", KIND_DOUBLE, offsetof(struct config, run.decoupled_lr), NULL, NULL},
    {"decoupled_min_lr", KIND_DOUBLE, offsetof(struct config, run.decoupled_min_lr), NULL, NULL},
    {"lr_mult", KIND_FACTORS, offsetof(struct config, run.lr_mult), NULL, NULL},
    {"wd_mult", KIND_FACTORS, offsetof(struct config, run.wd_mult), NULL, NULL},
    {"lr_decay_style", KIND_TEXT, offsetof(struct config, run.lr_decay_style), NULL, NULL},
    {"lr_warmup_init", KIND_DOUBLE, offsetof(struct config, run.lr_warmup_init), NULL, NULL},
    {"lr_decay_power", KIND_DOUBLE, offsetof(struct config, run.lr_decay_power), NULL, NULL},
    {"lr_wsd_decay_style", KIND_TEXT, offsetof(struct config, run.lr_wsd_decay_style), NULL, NULL},
    {"weight_decay", KIND_DOUBLE, offsetof(struct config, run.weight_decay), NULL, NULL},
    {"start_weight_decay", KIND_DOUBLE, offsetof(struct config, run.start_weight_decay), NULL, NULL},
    {"end_weight_decay", KIND_DOUBLE, offsetof(struct config, run.end_weight_decay), NULL, NULL},
    {"weight_decay_incr_style", KIND_TEXT, offsetof(struct config, run.weight_decay_incr_style), NULL, NULL},
    {"lr_decay_steps", KIND_INT, offsetof(struct config, run.lr_decay_steps), "the learning rate decays", "lr-decay"},
    {"lr_warmup_steps", KIND_DOUBLE, offsetof(struct config, run.lr_warmup_steps), "it warms up", "lr-warmup"},
    {"lr_wsd_decay_steps", KIND_INT, offsetof(struct config, run.lr_wsd_decay_steps), "it decays last", "lr-wsd-decay"},
    {"wd_incr_steps", KIND_INT, offsetof(struct config, run.wd_incr_steps), "the weight decay grows", "train"},
};
enum { MEMBER_COUNT = sizeof members / sizeof members[0] };

static void write_factors(struct json_writer *writer, const struct string_list *items) {
    json_begin_array(writer);
    for (int64_t i = 0; i < items->count; i++)
        json_cstring(writer, items->items[i]);
    json_end_array(writer);
}

void config_schedule_to_json(const struct config *config, struct json_writer *writer) {
    json_begin_object(writer);
    for (size_t i = 0; i < MEMBER_COUNT; i++) {
        const void *slot = (const char *)config + members[i].offset;
        json_key(writer, members[i].name);
        if (members[i].kind == KIND_INT)
            json_int(writer, *(const int64_t *)slot);
        else if (members[i].kind == KIND_DOUBLE)
            json_double(writer, *(const double *)slot);
        else if (members[i].kind == KIND_FACTORS)
            write_factors(writer, slot);
        else
            json_cstring(writer, *(char *const *)slot);
    }
    json_end_object(writer);
}

// A member of the file, converted to its type.
struct member_value {
    bool is_there;
    int64_t integer;
    double number;
    const char *text;
    const struct json *factors;  // an array; NULL for none
};

// One of the choices of a style's flag.
static bool is_choice(const struct schedule_member *member, const char *text) {
    struct flag_table table = config_flag_table(0);
    const struct flag *flag;
    for (size_t i = 0; (flag = flag_at(&table.rows, i)); i++) {
        if (flag->type != FLAG_CHOICE || flag->offset != member->offset)
            continue;
        for (const char *const *name = flag->choices; *name; name++)
            if (strcmp(*name, text) == 0)
                return true;
    }
    return false;
}

// Members that older files lack, in whose runs they were 0 or empty.
static bool was_zero(const struct schedule_member *member) {
    return member->kind == KIND_FACTORS || strcmp(member->name, "decoupled_lr") == 0 ||
           strcmp(member->name, "decoupled_min_lr") == 0;
}

static int read_factors(const struct json *value, const char *name) {
    struct factor factor;
    bool is_whole = value->type == JSON_ARRAY;
    for (size_t i = 0; is_whole && i < value->count; i++)
        is_whole = value->items[i].type == JSON_STRING && factor_read(value->items[i].string, &factor);
    return is_whole ? 0 : error_set("the key \"%s\" does not hold a list of PATTERN=FACTOR", name);
}

// Files of other versions may lack a member, and a value that was not given is null.
static int read_member(struct member_value *reading, const struct json *schedule,
                       const struct schedule_member *member) {
    const struct json *value = json_member(schedule, member->name);
    *reading = (struct member_value){.is_there = value && value->type != JSON_NULL};
    if (!reading->is_there) {
        reading->is_there = was_zero(member);
        return 0;
    }
    if (member->kind == KIND_INT) {
        TRY(json_get_int(schedule, member->name, &reading->integer));
        if (reading->integer < 0 || (double)reading->integer > FLAG_ENDLESS)
            return error_set("the key \"%s\" holds %s, which is out of range", member->name, value->string);
    } else if (member->kind == KIND_DOUBLE) {
        TRY(json_get_double(schedule, member->name, &reading->number));
        if (reading->number < 0)
            return error_set("the key \"%s\" holds %s, which is out of range", member->name, value->string);
    } else if (member->kind == KIND_FACTORS) {
        TRY(read_factors(value, member->name));
        reading->factors = value;
    } else {
        TRY(json_get_string(schedule, member->name, &reading->text));
        if (!is_choice(member, reading->text))
            return error_set("the key \"%s\" holds \"%s\", which is not a style", member->name, reading->text);
    }
    return 0;
}

static int64_t count_factors(const struct json *factors) {
    return factors ? (int64_t)factors->count : 0;
}

static bool is_equal(const struct config *config, const struct schedule_member *member,
                     const struct member_value *reading) {
    const void *slot = (const char *)config + member->offset;
    if (member->kind == KIND_INT)
        return *(const int64_t *)slot == reading->integer;
    if (member->kind == KIND_DOUBLE)
        return *(const double *)slot == reading->number;
    if (member->kind == KIND_FACTORS) {
        const struct string_list *items = slot;
        bool is_same = items->count == count_factors(reading->factors);
        for (int64_t i = 0; is_same && i < items->count; i++)
            is_same = strcmp(items->items[i], reading->factors->items[i].string) == 0;
        return is_same;
    }
    const char *text = *(char *const *)slot;
    return text && strcmp(text, reading->text) == 0;
}

// A number of steps over which nothing changes is not compared: a longer run has the same weight decay.
static bool is_unused(const struct config *config, const struct schedule_member *member) {
    return strcmp(member->name, "wd_incr_steps") == 0 && config->run.weight_decay_incr_style &&
           strcmp(config->run.weight_decay_incr_style, "constant") == 0;
}

static void append_items(const struct string_list *items, struct buffer *out) {
    for (int64_t i = 0; i < items->count; i++)
        buffer_printf(out, "%s%s", i > 0 ? " " : "", items->items[i]);
    if (items->count == 0)
        buffer_append_string(out, "None");
}

// The file's value, formatted like append_value.
static void append_reading(const struct schedule_member *member, const struct json *there, struct buffer *out) {
    bool is_there = there && there->type != JSON_NULL;
    if (member->kind != KIND_FACTORS) {
        buffer_append_string(out, is_there ? there->string : "0");
        return;
    }
    struct string_list items = {0};
    for (size_t i = 0; is_there && i < there->count; i++)
        string_list_add(&items, there->items[i].string);
    append_items(&items, out);
    string_list_free(&items);
}

static void append_value(const struct config *config, const struct schedule_member *member, struct buffer *out) {
    const void *slot = (const char *)config + member->offset;
    if (member->kind == KIND_INT)
        buffer_printf(out, "%" PRId64, *(const int64_t *)slot);
    else if (member->kind == KIND_DOUBLE)
        flag_format_double(*(const double *)slot, out);
    else if (member->kind == KIND_FACTORS)
        append_items(slot, out);
    else
        buffer_append_string(out, *(char *const *)slot ? *(char *const *)slot : "None");
}

// Units of schedules: iterations with the batch sizes there and here, or samples themselves, e.g. if batches grow.
struct schedule_unit {
    const char *name, *suffix;  // of flags
    double there, here;
};

static struct schedule_unit find_unit(const struct config *config, const struct json *run) {
    int64_t there = 0, here = config->run.global_batch_size;
    bool counts_samples = config->run.train_samples > 0 || config->run.lr_decay_tokens > 0 ||
                          config->run.rampup_samples > 0 || config->run.batch_step_count > 0 || here < 1;
    if (json_get_int(run, "global_batch_size", &there) < 0 || there < 1)
        there = here;
    error_clear();
    return counts_samples ? (struct schedule_unit){"samples", "samples", 1, 1}
                          : (struct schedule_unit){"iterations", "iters", (double)there, (double)here};
}

// "the learning rate decays over 10 iterations there and 20 here (--train-iters)". Nothing if only batches differ.
static void append_steps(const struct config *config, const struct schedule_member *member,
                         const struct member_value *reading, struct schedule_unit unit, struct buffer *out) {
    const void *slot = (const char *)config + member->offset;
    bool is_whole = member->kind == KIND_INT;
    double there = (is_whole ? (double)reading->integer : reading->number) / unit.there;
    double here = (is_whole ? (double)*(const int64_t *)slot : *(const double *)slot) / unit.here;
    if (there == here)
        return;
    char *flag = memory_printf("--%s-%s", member->flag, unit.suffix);
    if (!flag_is_given(&config->given, flag)) {
        free(flag);
        flag = memory_printf("--train-%s", unit.suffix);
    }
    buffer_printf(out, "%s%s over %.10g %s there and %.10g here (%s)", out->length ? ", " : "", member->over, there,
                  unit.name, here, flag);
    free(flag);
}

// "lr is 0.25 there and 0.5 here".
static void append_difference(const struct config *config, const struct schedule_member *member,
                              const struct json *there, struct buffer *out) {
    buffer_printf(out, "%s%s is ", out->length ? ", " : "", member->name);
    append_reading(member, there, out);
    buffer_append_string(out, " there and ");
    append_value(config, member, out);
    buffer_append_string(out, " here");
}

static void take(struct config *config, const struct schedule_member *member, const struct member_value *reading) {
    void *slot = (char *)config + member->offset;
    if (member->kind == KIND_INT) {
        *(int64_t *)slot = reading->integer;
    } else if (member->kind == KIND_DOUBLE) {
        *(double *)slot = reading->number;
    } else {
        free(*(char **)slot);
        *(char **)slot = memory_string(reading->text);
    }
}

int config_match_schedule(struct config *config, const struct json *run, const char *name) {
    const struct json *schedule = json_member(run, "schedule");
    if (!schedule || config->run.override_opt_param_scheduler)
        return 0;
    // Read completely first, so that a bad member changes nothing.
    struct member_value readings[MEMBER_COUNT];
    for (size_t i = 0; i < MEMBER_COUNT; i++)
        if (read_member(&readings[i], schedule, &members[i]) < 0)
            return error_context("the schedules of %s", name);
    struct buffer differences = {0};
    struct schedule_unit unit = find_unit(config, run);
    bool has_differences = false;
    for (size_t i = 0; i < MEMBER_COUNT; i++) {
        if (!readings[i].is_there || is_equal(config, &members[i], &readings[i]) || is_unused(config, &members[i]))
            continue;
        // The step has already been built with the flags' factors.
        if (config->run.use_checkpoint_opt_param_scheduler && members[i].kind != KIND_FACTORS)
            take(config, &members[i], &readings[i]);
        else if (members[i].over)
            append_steps(config, &members[i], &readings[i], unit, &differences);
        else
            append_difference(config, &members[i], json_member(schedule, members[i].name), &differences);
        has_differences = has_differences || !config->run.use_checkpoint_opt_param_scheduler || differences.length;
    }
    // Steps are stored as samples, so with another batch they are others.
    if (has_differences && unit.there != unit.here)
        buffer_printf(&differences, "%s--global-batch-size is %.0f there and %.0f here", differences.length ? ", " : "",
                      unit.there, unit.here);
    int status = 0;
    if (has_differences)
        status = error_set_code(EXIT_CODE_USAGE,
                                "the schedules of %s differ from the flags: %s. Give --override-opt_param-scheduler to "
                                "use the flags, e.g. for a longer run, or %s",
                                name, buffer_string(&differences),
                                config->run.use_checkpoint_opt_param_scheduler
                                    ? "--lr-mult and --wd-mult of the checkpoint"
                                    : "--use-checkpoint-opt_param-scheduler to use the checkpoint's");
    buffer_free(&differences);
    return status;
}

// ---- the length of a run: --tokens, --epochs, --train-iters or --train-samples ----

// Source of a length; FLAG_FROM_DEFAULT if it is not given.
static enum flag_source source_of(const struct config *config, const char *flag, bool is_set) {
    return is_set ? flag_source(&config->given, flag) : FLAG_FROM_DEFAULT;
}

int config_choose_length(struct config *config) {
    // A plan without data uses mock data, and a provisional length.
    if (config->data.mock_data && !flag_is_given(&config->given, "--mock-data"))
        config->run.epochs = 0;
    const enum flag_source tokens = source_of(config, "--tokens", config->run.tokens > 0),
                           epochs = source_of(config, "--epochs", config->run.epochs > 0),
                           iters = source_of(config, "--train-iters", config->run.train_iters > 0),
                           samples = source_of(config, "--train-samples", config->run.train_samples > 0);
    enum flag_source own = tokens > epochs ? tokens : epochs, counted = iters > samples ? iters : samples;
    if (own == FLAG_FROM_DEFAULT)
        return 0;
    if ((tokens == FLAG_FROM_COMMAND && epochs == FLAG_FROM_COMMAND) ||
        (own == FLAG_FROM_COMMAND && counted == FLAG_FROM_COMMAND))
        return error_set_code(EXIT_CODE_USAGE, "--tokens, --epochs, --train-iters and --train-samples exclude each "
                                               "other; give one");
    if (config->data.mock_data && epochs > FLAG_FROM_DEFAULT)
        return error_set_code(EXIT_CODE_USAGE, "--epochs needs data, and --mock-data has no end; give --train-iters");
    if (own == FLAG_FROM_FILE && counted == own)
        log_info("note: the file gives the length twice; its iterations or samples count, not %s",
                 epochs == own ? "epochs" : "tokens");
    // The command line takes precedence over a file. Files of this program have both: iterations win.
    if (own > counted)
        config->run.train_iters = config->run.train_samples = 0;
    else
        config->run.tokens = config->run.epochs = 0;
    if (tokens > epochs)
        config->run.epochs = 0;
    else if (epochs > tokens)
        config->run.tokens = 0;
    return 0;
}

// In samples if the other flags of the schedule are, or the batch grows; otherwise in iterations. Replaces values
// derived by earlier validations: the batch may have changed.
void derive_length_of_tokens(struct config *config) {
    static const char *const of_samples[] = {"--lr-decay-samples", "--lr-warmup-samples", "--lr-wsd-decay-samples",
                                             "--rampup-batch-size", "--step-batch-size-schedule"};
    bool by_samples = false;
    if (config->run.tokens <= 0 || config->run.seq_length == 0 || config->run.global_batch_size == 0)
        return;
    int64_t samples = (int64_t)(config->run.tokens / (double)config->run.seq_length);
    for (size_t i = 0; i < sizeof of_samples / sizeof of_samples[0]; i++)
        by_samples = by_samples || flag_is_given(&config->given, of_samples[i]);
    config->run.train_samples = by_samples ? samples : 0;
    config->run.train_iters = by_samples ? 0 : samples / config->run.global_batch_size;
    if (config->run.train_iters == 0 && !by_samples)
        config->run.train_iters = 1;
    if (!flag_is_given(&config->given, "--lr-decay-iters"))
        config->run.lr_decay_iters = 0;
    if (!flag_is_given(&config->given, "--lr-decay-samples"))
        config->run.lr_decay_samples = 0;
}
