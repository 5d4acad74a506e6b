// The configuration as text: Megatron's argument dump for the log, and JSON for checkpoints; and comparisons with the
// JSON of another run. All iterate over the rows of the flag table, so a new flag appears in them without further work.
#include "base/error.h"
#include "base/file.h"
#include "base/memory.h"
#include "base/redact.h"
#include "config/config.h"
#include "config/flag_internal.h"
#include "config/flags.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static void append_field_name(const char *flag, struct buffer *out) {
    for (const char *p = flag + 2; *p; p++)
        buffer_append_byte(out, *p == '-' ? '_' : *p);
}

static void append_item(struct buffer *out, const char *before, char *text) {
    buffer_printf(out, "%s%s'", before, text);
    free(text);
}

// As Python prints it: True, None, 0.1, 1.0, ['a', 'b'].
static void append_python(const struct flag *flag, const void *base, struct buffer *out) {
    const void *slot = (const char *)base + flag->offset;
    if (flag_is_unset(flag, base)) {
        buffer_append_string(out, "None");
    } else if (flag->type == FLAG_BOOL || flag->type == FLAG_BOOL_OFF) {
        buffer_append_string(out, *(const bool *)slot ? "True" : "False");
    } else if (flag->type == FLAG_STRING_LIST) {
        const struct string_list *list = slot;
        for (int64_t i = 0; i < list->count; i++)
            append_item(out, i ? ", '" : "['", flag_redact(flag, list->items[i]));
        buffer_append_byte(out, ']');
    } else {
        size_t start = out->length;
        flag_show(flag, base, out);
        if (flag->type == FLAG_DOUBLE && !strpbrk(out->data + start, ".e"))
            buffer_append_string(out, ".0");
    }
}

struct dump_line {
    char *name;
    char *value;
};

static int compare_lines(const void *a, const void *b) {
    return strcasecmp(((const struct dump_line *)a)->name, ((const struct dump_line *)b)->name);
}

struct dump {
    struct dump_line *lines;
    size_t count;
};

static void add_line(struct dump *dump, char *name, char *value) {
    dump->lines = memory_realloc(dump->lines, (dump->count + 1) * sizeof *dump->lines);
    dump->lines[dump->count++] = (struct dump_line){name, value};
}

static void add_row(struct dump *dump, const struct flag *flag, const struct config *config) {
    struct buffer name = {0}, value = {0};
    append_field_name(flag->name, &name);
    append_python(flag, config, &value);
    add_line(dump, memory_string(buffer_string(&name)), memory_string(buffer_string(&value)));
    buffer_free(&name);
    buffer_free(&value);
}

// Whether the flag was not given, and no other flag has changed its value.
static bool is_untouched(const struct flag *flag, const struct config *config, const struct config *defaults) {
    struct buffer value = {0}, initial = {0};
    flag_format(flag, config, &value);
    flag_format(flag, defaults, &initial);
    bool is_same = strcmp(buffer_string(&value), buffer_string(&initial)) == 0;
    buffer_free(&value);
    buffer_free(&initial);
    return is_same && flag_source(&config->given, flag->name) == FLAG_FROM_DEFAULT;
}

void config_dump(const struct config *config, bool is_folded, struct buffer *out) {
    struct dump dump = {0};
    struct config defaults;
    size_t left_out = 0;
    config_defaults(&defaults);
    const struct flag *flag;
    for (size_t i = 0; (flag = flag_at(&config->given.rows, i)); i++) {
        if (flag->type == FLAG_GROUP)
            continue;
        if (is_folded && is_untouched(flag, config, &defaults))
            left_out++;
        else
            add_row(&dump, flag, config);
    }
    config_free(&defaults);
    add_line(&dump, memory_string("world_size"), memory_printf("%" PRId64, config->machine.world_size));
    add_line(&dump, memory_string("data_parallel_size"), memory_printf("%" PRId64, config->machine.data_parallel_size));
    add_line(&dump, memory_string("params_dtype"),
             memory_string(config->run.params_dtype ? config->run.params_dtype : "None"));
    qsort(dump.lines, dump.count, sizeof *dump.lines, compare_lines);

    static const char dots[] = "................................................";  // 48
    buffer_append_string(out, "------------------------ arguments ------------------------\n");
    for (size_t i = 0; i < dump.count; i++) {
        struct dump_line *line = &dump.lines[i];
        size_t length = strlen(line->name), skipped = length < sizeof dots - 1 ? length : sizeof dots - 1;
        buffer_printf(out, "  %s %s %s\n", line->name, dots + skipped, line->value);
        free(line->name);
        free(line->value);
    }
    free(dump.lines);
    if (left_out > 0)
        buffer_printf(out, "  (%zu more have their defaults; --log-arguments lists them)\n", left_out);
    buffer_append_string(out, "-------------------- end of arguments ---------------------\n");
}

static void write_text(const struct flag *flag, const char *text, struct json_writer *writer) {
    char *shown = flag_redact(flag, text);
    json_cstring(writer, shown);
    free(shown);
}

static void write_value(const struct flag *flag, const void *base, struct json_writer *writer) {
    const void *slot = (const char *)base + flag->offset;
    switch (flag->type) {
    case FLAG_GROUP:
        break;
    case FLAG_BOOL:
    case FLAG_BOOL_OFF:
        json_bool(writer, *(const bool *)slot);
        break;
    case FLAG_INT:
        json_int(writer, *(const int64_t *)slot);
        break;
    case FLAG_DOUBLE:
        json_double(writer, *(const double *)slot);
        break;
    case FLAG_STRING:
    case FLAG_CHOICE:
        write_text(flag, *(char *const *)slot, writer);
        break;
    case FLAG_ENUM:
        json_cstring(writer, flag_value_text(flag, *(const int *)slot));
        break;
    case FLAG_STRING_LIST:
        json_begin_array(writer);
        for (int64_t i = 0; i < ((const struct string_list *)slot)->count; i++)
            write_text(flag, ((const struct string_list *)slot)->items[i], writer);
        json_end_array(writer);
        break;
    }
}

void config_to_json(const struct config *config, struct json_writer *writer) {
    struct buffer name = {0};
    json_begin_object(writer);
    const struct flag *flag;
    for (size_t i = 0; (flag = flag_at(&config->given.rows, i)); i++) {
        if (flag->type == FLAG_GROUP)
            continue;
        buffer_clear(&name);
        append_field_name(flag->name, &name);
        json_key(writer, name.data);
        // A 0 that was given counts as given.
        if (flag_is_unset(flag, config) && config->given.source[i] == FLAG_FROM_DEFAULT)
            json_null(writer);
        else
            write_value(flag, config, writer);
    }
    json_put_int(writer, "world_size", config->machine.world_size);
    json_put_int(writer, "data_parallel_size", config->machine.data_parallel_size);
    json_put_string(writer, "params_dtype", config->run.params_dtype);
    json_key(writer, "schedule");
    config_schedule_to_json(config, writer);
    json_end_object(writer);
    buffer_free(&name);
}

// The command-line form of a scalar from a checkpoint; NULL if it is not a scalar.
static const char *json_text(const struct json *value) {
    if (value->type == JSON_TRUE || value->type == JSON_FALSE)
        return value->type == JSON_TRUE ? "true" : "false";
    bool is_text = value->type == JSON_NUMBER || value->type == JSON_STRING;
    return is_text && strlen(value->string) == value->length ? value->string : NULL;
}

static int take_field(struct config *config, const struct json *object, const struct flag *flag) {
    struct flag_table table = config_flag_table(0);
    struct buffer field = {0};
    append_field_name(flag->name, &field);
    const struct json *value = json_member(object, buffer_string(&field));
    int status = 0;
    if (value && value->type != JSON_NULL && !flag_is_given(&config->given, flag->name)) {
        const char *text = json_text(value);
        if (!text)
            status = error_set("the configuration's \"%s\" is neither a number nor a text", buffer_string(&field));
        else if (!redact_is_marked(text))
            status = flag_set(&table, config, flag->name, text, FLAG_FROM_PRESET);
    }
    buffer_free(&field);
    return status;
}

// Whether the user gives a tokenizer other than the object's.
static bool has_other_tokenizer(const struct config *config, const struct json *object) {
    const char *type = config->data.tokenizer_type;
    const struct {
        const char *field, *value;
    } rows[] = {{"tokenizer_type", type && strcmp(type, "PretrainedFromHF") == 0 ? "HuggingFaceTokenizer" : type},
                {"tokenizer_model", config->data.tokenizer_model},
                {"vocab_file", config->data.vocab_file},
                {"merge_file", config->data.merge_file}};
    for (size_t i = 0; i < COUNT(rows); i++) {
        const struct json *there = json_member(object, rows[i].field);
        const char *text = there && there->type == JSON_STRING ? there->string : "";
        if (rows[i].value && flag_is_given(&config->given, rows[i].field) && !file_is_same(rows[i].value, text))
            return true;
    }
    return false;
}

int config_from_json(struct config *config, const struct json *object) {
    if (object->type != JSON_OBJECT)
        return error_set("the configuration of a checkpoint is not a JSON object");
    bool has_other = has_other_tokenizer(config, object);
    const struct flag *flag;
    for (size_t i = 0; (flag = flag_at(&config->given.rows, i)); i++) {
        // These two are tokens of the object's tokenizer; another one has its own.
        bool is_token = strcmp(flag->name, "--eod-token") == 0 || strcmp(flag->name, "--decoder-start-token") == 0;
        if ((flag->uses & (USE_MODEL | USE_STORED | USE_TOKENIZER | USE_TRAINING)) && !(has_other && is_token))
            TRY(take_field(config, object, flag));
    }
    return 0;
}

bool config_json_is_centered(const struct json *object) {
    const struct json *value = object->type == JSON_OBJECT ? json_member(object, "apply_layernorm_1p") : NULL;
    const char *text = value ? json_text(value) : NULL;
    return text && strcasecmp(text, "true") == 0;
}

// ---- differences from the run that is resumed ----

// Settings in which a resumed run differs from the one that wrote its checkpoint. Flags that choose samples or affect
// the update may change, often intentionally, but an unnoticed change trains on samples twice, or on others than the
// log says. The format of stored states may not change. The model and the schedules are compared elsewhere.

// ./d/x is the same dataset as d/x.
static bool names_same_files(const struct config *config, const struct config *before, const struct flag *flag) {
    const void *own = (const char *)config + flag->offset, *other = (const char *)before + flag->offset;
    if (flag->type == FLAG_STRING) {
        const char *const *here = own, *const *there = other;
        return *here && *there && file_is_same_path(*here, *there);
    }
    if (flag->type != FLAG_STRING_LIST)
        return false;
    const struct string_list *here = own, *there = other;
    bool same = here->count == there->count;
    for (int64_t i = 0; same && i < here->count; i++)
        same = file_is_same_path(here->items[i], there->items[i]);
    return same;
}

static void compare(const struct config *config, const struct config *before, const struct flag *flag,
                    struct buffer *out) {
    struct buffer here = {0}, there = {0};
    flag_show(flag, config, &here);
    flag_show(flag, before, &there);
    if (strcmp(buffer_string(&here), buffer_string(&there)) != 0 && !names_same_files(config, before, flag))
        buffer_printf(out, "%s%s is %s there and %s here", out->length ? ", " : "", flag->name, buffer_string(&there),
                      buffer_string(&here));
    buffer_free(&here);
    buffer_free(&there);
}

void config_list_changes(const struct config *config, const char *json, struct buffer *out) {
    struct config before;
    config_defaults(&before);
    // A file of another version may have unknown members; the known ones are still compared.
    if (flags_read_text(config_command(), &before, "config.json", json, strlen(json)) < 0)
        error_clear();
    const struct flag *flag;
    for (size_t i = 0; (flag = flag_at(&before.given.rows, i)); i++)
        if (flag->uses & USE_WATCHED)
            compare(config, &before, flag, out);
    config_free(&before);
}

// Flags of one optimizer do not affect the states of another.
static bool is_storage_of(const struct config *config, const char *name) {
    bool is_adaptive = strcmp(config->run.optimizer, "adaptive_muon") == 0;
    if (strcmp(name, "--muon-scalar-optimizer") == 0)
        return is_adaptive || strcmp(config->run.optimizer, "muon") == 0;
    return is_adaptive || strcmp(name, "--adaptive-muon-moment2-method") != 0;
}

int config_check_storage(const struct config *config, const struct json *object, const char *name) {
    struct config before;
    struct buffer differences = {0};
    const struct flag *flag;
    config_defaults(&before);
    int status = config_from_json(&before, object);
    for (size_t i = 0; status == 0 && (flag = flag_at(&before.given.rows, i)); i++)
        if ((flag->uses & USE_STORED) && is_storage_of(config, flag->name))
            compare(config, &before, flag, &differences);
    if (status < 0)
        error_context("%s", name);
    else if (differences.length > 0)
        status = error_set("this run cannot resume from %s: %s; give the checkpoint's value or --use-checkpoint-args, "
                           "or start from its weights, converted, with --finetune",
                           name, buffer_string(&differences));
    buffer_free(&differences);
    config_free(&before);
    return status;
}
