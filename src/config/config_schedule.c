// The schedules of a run that goes on: those of its checkpoint and those of the flags must be the same, unless the user
// says which of the two counts. A schedule that changes unnoticed ruins a run slowly.
#include "config/config.h"
#include "base/error.h"
#include "base/memory.h"

#include <stdlib.h>
#include <string.h>

enum kind { KIND_INT, KIND_DOUBLE, KIND_TEXT };

static const struct member {
    const char *name;
    enum kind kind;
    size_t offset;
} members[] = {
    {"lr", KIND_DOUBLE, offsetof(struct config, lr)},
    {"min_lr", KIND_DOUBLE, offsetof(struct config, min_lr)},
    {"lr_decay_style", KIND_TEXT, offsetof(struct config, lr_decay_style)},
    {"lr_warmup_init", KIND_DOUBLE, offsetof(struct config, lr_warmup_init)},
    {"lr_wsd_decay_style", KIND_TEXT, offsetof(struct config, lr_wsd_decay_style)},
    {"weight_decay", KIND_DOUBLE, offsetof(struct config, weight_decay)},
    {"start_weight_decay", KIND_DOUBLE, offsetof(struct config, start_weight_decay)},
    {"end_weight_decay", KIND_DOUBLE, offsetof(struct config, end_weight_decay)},
    {"weight_decay_incr_style", KIND_TEXT, offsetof(struct config, weight_decay_incr_style)},
    {"lr_decay_steps", KIND_INT, offsetof(struct config, lr_decay_steps)},
    {"lr_warmup_steps", KIND_DOUBLE, offsetof(struct config, lr_warmup_steps)},
    {"lr_wsd_decay_steps", KIND_INT, offsetof(struct config, lr_wsd_decay_steps)},
    {"wd_incr_steps", KIND_INT, offsetof(struct config, wd_incr_steps)},
};
enum { MEMBER_COUNT = sizeof members / sizeof members[0] };

void config_schedule_to_json(const struct config *config, struct json_writer *writer) {
    json_begin_object(writer);
    for (size_t i = 0; i < MEMBER_COUNT; i++) {
        const void *slot = (const char *)config + members[i].offset;
        json_key(writer, members[i].name);
        if (members[i].kind == KIND_INT)
            json_int(writer, *(const int64_t *)slot);
        else if (members[i].kind == KIND_DOUBLE)
            json_double(writer, *(const double *)slot);
        else
            json_cstring(writer, *(char *const *)slot);
    }
    json_end_object(writer);
}

static bool is_of_kind(const struct json *value, enum kind kind) {
    return value && value->type == (kind == KIND_TEXT ? JSON_STRING : JSON_NUMBER);
}

static bool is_equal(const struct config *config, const struct member *member, const struct json *value) {
    const void *slot = (const char *)config + member->offset;
    if (member->kind == KIND_INT)
        return *(const int64_t *)slot == (int64_t)value->number;
    if (member->kind == KIND_DOUBLE)
        return *(const double *)slot == value->number;
    const char *text = *(char *const *)slot;
    return text && strcmp(text, value->string) == 0;
}

static void take(struct config *config, const struct member *member, const struct json *value) {
    void *slot = (char *)config + member->offset;
    if (member->kind == KIND_INT) {
        *(int64_t *)slot = (int64_t)value->number;
    } else if (member->kind == KIND_DOUBLE) {
        *(double *)slot = value->number;
    } else {
        free(*(char **)slot);
        *(char **)slot = memory_string(value->string);
    }
}

int config_match_schedule(struct config *config, const struct json *run, const char *name) {
    const struct json *schedule = json_member(run, "schedule");
    if (!schedule || config->override_opt_param_scheduler)
        return 0;
    struct buffer differences = {0};
    for (size_t i = 0; i < MEMBER_COUNT; i++) {
        const struct json *value = json_member(schedule, members[i].name);
        if (!is_of_kind(value, members[i].kind) || is_equal(config, &members[i], value))
            continue;
        if (config->use_checkpoint_opt_param_scheduler)
            take(config, &members[i], value);
        else
            buffer_printf(&differences, "%s%s is %s there", differences.length ? ", " : "", members[i].name,
                          value->string);
    }
    int status = 0;
    if (differences.length)
        status = error_set_code(
            EXIT_CODE_USAGE,
            "the schedules of %s are not those of the flags: %s. Give --override-opt_param-scheduler to go on "
            "with the flags, --use-checkpoint-opt_param-scheduler to go on with the checkpoint's",
            name, differences.data);
    buffer_free(&differences);
    return status;
}
