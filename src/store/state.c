// A run's state as JSON. Integers are written in full and doubles in the shortest text that reads back the same, so a
// resumed run continues with the same bits.
#include "store/extra.h"

#include "base/error.h"
#include "base/file.h"
#include "base/file_patience.h"
#include "base/json.h"
#include "base/memory.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_STATE_BYTES = 1 << 20, MAX_CONFIG_BYTES = 16 << 20 };

static const char state_name[] = "state.json";
static const char config_name[] = "config.json";

#define MEMBER(name_)                                                                                                  \
    { .name = #name_, .offset = offsetof(struct checkpoint_state, name_) }

// The members and where they are kept; reading and writing walk the same tables.
static const struct integer_member {
    const char *name;
    size_t offset;
    bool is_optional;  // 0 if absent, as in older programs' checkpoints
} integers[] = {
    MEMBER(iteration),
    MEMBER(consumed_train_samples),
    MEMBER(consumed_valid_samples),
    MEMBER(skipped_train_samples),
    MEMBER(adam_step),
    MEMBER(schedule_samples),
    MEMBER(seed),
    MEMBER(loss_scale_growth),
    MEMBER(loss_scale_hysteresis),
    {.name = "fp8_steps", .offset = offsetof(struct checkpoint_state, fp8_steps), .is_optional = true},
    {.name = "replicas_verified", .offset = offsetof(struct checkpoint_state, replicas_verified), .is_optional = true},
};
static const struct integer_member doubles[] = {
    MEMBER(loss_scale),
    MEMBER(flops_so_far),
};
enum { INTEGER_COUNT = sizeof integers / sizeof integers[0], DOUBLE_COUNT = sizeof doubles / sizeof doubles[0] };

void checkpoint_state_free(struct checkpoint_state *state) {
    free(state->config_json);
    free(state->program_version);
    state->config_json = NULL;
    state->program_version = NULL;
}

struct small_file {
    const char *name, *holds;
    const char *text;
    size_t length;
};

static int write_small(const struct small_file *small, const char *folder, struct manifest *manifest) {
    struct manifest_file file = {
        .name = memory_string(small->name), .holds = memory_string(small->holds), .bytes = small->length};
    OWNED char *path = file_join(folder, small->name);
    int result = extra_write_bytes(path, small->text, small->length, file.sha256);
    manifest_add(manifest, file);
    return result;
}

static void write_doubles(struct json_writer *json, const char *key, const double *values, int64_t count) {
    json_key(json, key);
    json_begin_array(json);
    for (int64_t i = 0; i < count; i++) {
        CHECK(isfinite(values[i]));
        json_double(json, values[i]);
    }
    json_end_array(json);
}

static void write_past(struct json_writer *json, const struct checkpoint_past *past) {
    if (past->skipped_count > 0) {
        json_key(json, "skipped_iterations");
        json_begin_array(json);
        for (int64_t i = 0; i < past->skipped_count; i++) {
            json_begin_array(json);
            json_int(json, past->skipped[i].first);
            json_int(json, past->skipped[i].last);
            json_end_array(json);
        }
        json_end_array(json);
    }
    if (past->window_count == 0)
        return;
    write_doubles(json, "latest_losses", past->losses, past->window_count);
    write_doubles(json, "latest_grad_norms", past->norms, past->window_count);
    json_put_int(json, "spike_streak", past->streak);
}

int state_write(const struct checkpoint_state *state, const char *folder, struct manifest *manifest) {
    OWNED_BY(buffer_free) struct buffer text = {0};
    struct json_writer json = {.out = &text, .indent = 2};
    json_begin_object(&json);
    json_put_string(&json, "program_version", BEVATRON_VERSION);
    for (size_t i = 0; i < INTEGER_COUNT; i++) {
        int64_t value = 0;
        memcpy(&value, (const char *)state + integers[i].offset, sizeof value);
        json_put_int(&json, integers[i].name, value);
    }
    for (size_t i = 0; i < DOUBLE_COUNT; i++) {
        double value = 0;
        memcpy(&value, (const char *)state + doubles[i].offset, sizeof value);
        CHECK(isfinite(value));
        json_put_double(&json, doubles[i].name, value);
    }
    write_past(&json, &state->past);
    json_end_object(&json);
    buffer_append_byte(&text, '\n');
    struct small_file small = {.name = state_name, .holds = "state", .text = text.data, .length = text.length};
    int result = write_small(&small, folder, manifest);
    if (result == 0 && state->config_json) {
        small = (struct small_file){
            .name = config_name, .holds = "config", .text = state->config_json, .length = strlen(state->config_json)};
        result = write_small(&small, folder, manifest);
    }
    return result;
}

// A whole number from 1 on that a double holds exactly; -1 for anything else.
static int64_t iteration_of(const struct json *value) {
    const double most = 9007199254740992.0;
    bool is_number = value->type == JSON_NUMBER && value->number >= 1 && value->number <= most;
    return is_number && value->number == floor(value->number) ? (int64_t)value->number : -1;
}

static int read_spans(struct checkpoint_past *past, const struct json *list) {
    if (!list)
        return 0;
    if (list->type != JSON_ARRAY || list->count > CHECKPOINT_MOST_SPANS)
        return error_set("skipped_iterations is not an array of up to %d pairs", CHECKPOINT_MOST_SPANS);
    for (size_t i = 0; i < list->count; i++) {
        const struct json *pair = &list->items[i];
        bool is_pair = pair->type == JSON_ARRAY && pair->count == 2;
        struct checkpoint_span span = {is_pair ? iteration_of(&pair->items[0]) : -1,
                                       is_pair ? iteration_of(&pair->items[1]) : -1};
        if (span.first < 1 || span.last < span.first || (i > 0 && span.first <= past->skipped[i - 1].last))
            return error_set("pair %zu of skipped_iterations is not a first and a last iteration after the pair before",
                             i + 1);
        past->skipped[past->skipped_count++] = span;
    }
    return 0;
}

static int read_doubles(const struct json *root, const char *key, double *values, int64_t *count) {
    const struct json *list = json_member(root, key);
    *count = 0;
    if (!list)
        return 0;
    if (list->type != JSON_ARRAY || list->count > CHECKPOINT_WINDOW)
        return error_set("%s is not an array of up to %d numbers", key, CHECKPOINT_WINDOW);
    for (size_t i = 0; i < list->count; i++) {
        if (list->items[i].type != JSON_NUMBER || !isfinite(list->items[i].number))
            return error_set("entry %zu of %s is not a finite number", i + 1, key);
        values[(*count)++] = list->items[i].number;
    }
    return 0;
}

static int read_past(struct checkpoint_past *past, const struct json *root) {
    int64_t norms = 0;
    TRY(read_spans(past, json_member(root, "skipped_iterations")));
    TRY(read_doubles(root, "latest_losses", past->losses, &past->window_count));
    TRY(read_doubles(root, "latest_grad_norms", past->norms, &norms));
    if (norms != past->window_count)
        return error_set("latest_losses and latest_grad_norms differ in length");
    if (json_member(root, "spike_streak"))
        TRY(json_get_int(root, "spike_streak", &past->streak));
    return past->streak >= 0 ? 0 : error_set("spike_streak is negative");
}

static int read_members(struct checkpoint_state *state, const struct json *root) {
    const char *version = NULL;
    TRY(json_get_string(root, "program_version", &version));
    for (size_t i = 0; i < INTEGER_COUNT; i++) {
        int64_t value = 0;
        if (integers[i].is_optional && !json_member(root, integers[i].name))
            continue;
        TRY(json_get_int(root, integers[i].name, &value));
        memcpy((char *)state + integers[i].offset, &value, sizeof value);
    }
    for (size_t i = 0; i < DOUBLE_COUNT; i++) {
        double value = 0;
        TRY(json_get_double(root, doubles[i].name, &value));
        memcpy((char *)state + doubles[i].offset, &value, sizeof value);
    }
    if (state->iteration < 0 || state->consumed_train_samples < 0 || state->consumed_valid_samples < 0 ||
        state->adam_step < 0 || state->schedule_samples < 0 || state->fp8_steps < 0 || state->replicas_verified < 0 ||
        !isfinite(state->loss_scale))
        return error_set("a count in it is negative or the loss scale is not finite");
    TRY(read_past(&state->past, root));
    state->program_version = memory_string(version);
    return 0;
}

static int read_config(struct checkpoint_state *state, const char *path) {
    OWNED_BY(buffer_free) struct buffer text = {0};
    OWNED struct json *root = NULL;
    TRY(file_read_own(path, MAX_CONFIG_BYTES, &text));
    TRY(json_parse(&root, buffer_string(&text), text.length, path));
    if (root->type != JSON_OBJECT)
        return error_set("%s is not a JSON object", path);
    state->config_json = memory_string(text.data);
    return 0;
}

static int load_state(const char *path, struct checkpoint_state *state) {
    *state = (struct checkpoint_state){0};
    OWNED char *state_path = file_join(path, state_name), *config_path = file_join(path, config_name);
    OWNED struct json *root = NULL;
    int result = json_parse_own(&root, state_path, MAX_STATE_BYTES);
    if (result == 0) {
        result = read_members(state, root);
        if (result < 0)
            error_context("cannot use %s", state_path);
    }
    if (result == 0 && file_exists(config_path))
        result = read_config(state, config_path);
    // If that cannot be determined, it may have a config.json.
    if (result == 0)
        result = file_doubt();
    if (result < 0)
        checkpoint_state_free(state);
    return result;
}

int checkpoint_load_state(const char *path, struct checkpoint_state *state) {
    struct file_patience patience = {0};
    file_patience_begin(&patience);
    int result = load_state(path, state);
    if (result < 0)
        (void)file_doubt();
    file_patience_end(&patience);
    return result;
}
