// Where a run stands, as JSON. Integers are written in full and doubles in the shortest text that reads back the
// same, so a resumed run continues with the same bits.
#include "checkpoint/state.h"

#include "base/error.h"
#include "base/file.h"
#include "base/hash.h"
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
    bool is_optional;  // 0 in the checkpoints of older programs, which lack it
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
    char *path = file_join(folder, small->name);
    int result = file_write_all(path, small->text, small->length);
    free(path);
    TRY(result);
    struct manifest_file file = {
        .name = memory_string(small->name), .holds = memory_string(small->holds), .bytes = small->length};
    struct sha256 hash;
    unsigned char digest[32];
    sha256_init(&hash);
    sha256_update(&hash, small->text, small->length);
    sha256_final(&hash, digest);
    sha256_hex(digest, file.sha256);
    manifest_add(manifest, file);
    return 0;
}

int state_write(const struct checkpoint_state *state, const char *folder, struct manifest *manifest) {
    struct buffer text = {0};
    struct json_writer json = {.out = &text, .indent = 2};
    json_begin_object(&json);
    json_key(&json, "program_version");
    json_cstring(&json, BEVATRON_VERSION);
    for (size_t i = 0; i < INTEGER_COUNT; i++) {
        int64_t value = 0;
        memcpy(&value, (const char *)state + integers[i].offset, sizeof value);
        json_key(&json, integers[i].name);
        json_int(&json, value);
    }
    for (size_t i = 0; i < DOUBLE_COUNT; i++) {
        double value = 0;
        memcpy(&value, (const char *)state + doubles[i].offset, sizeof value);
        CHECK(isfinite(value));
        json_key(&json, doubles[i].name);
        json_double(&json, value);
    }
    json_end_object(&json);
    buffer_append_byte(&text, '\n');
    struct small_file small = {.name = state_name, .holds = "state", .text = text.data, .length = text.length};
    int result = write_small(&small, folder, manifest);
    buffer_free(&text);
    if (result == 0 && state->config_json) {
        small = (struct small_file){
            .name = config_name, .holds = "config", .text = state->config_json, .length = strlen(state->config_json)};
        result = write_small(&small, folder, manifest);
    }
    return result;
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
        state->adam_step < 0 || state->schedule_samples < 0 || state->fp8_steps < 0 || !isfinite(state->loss_scale))
        return error_set("a count in it is negative or the loss scale is not finite");
    state->program_version = memory_string(version);
    return 0;
}

static int read_config(struct checkpoint_state *state, const char *path) {
    struct buffer text = {0};
    struct json *root = NULL;
    int result = file_read_all(path, MAX_CONFIG_BYTES, &text);
    if (result == 0)
        result = json_parse(&root, buffer_string(&text), text.length, path);
    if (result == 0 && root->type != JSON_OBJECT)
        result = error_set("%s holds no JSON object", path);
    if (result == 0)
        state->config_json = memory_string(text.data);
    json_free(root);
    buffer_free(&text);
    return result;
}

int checkpoint_load_state(const char *path, struct checkpoint_state *state) {
    *state = (struct checkpoint_state){0};
    char *state_path = file_join(path, state_name), *config_path = file_join(path, config_name);
    struct json *root = NULL;
    int result = json_parse_file(&root, state_path, MAX_STATE_BYTES);
    if (result == 0) {
        result = read_members(state, root);
        if (result < 0)
            error_context("cannot use %s", state_path);
    }
    if (result == 0 && file_exists(config_path))
        result = read_config(state, config_path);
    json_free(root);
    free(state_path);
    free(config_path);
    if (result < 0)
        checkpoint_state_free(state);
    return result;
}
