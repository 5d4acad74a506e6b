// The files of a checkpoint beside its tensors: the tokenizer's, without which a model is useless (see struct
// checkpoint_file), and the run's state.
#include "store/extra.h"

#include "base/error.h"
#include "base/file.h"
#include "base/file_patience.h"
#include "base/hash.h"
#include "base/json.h"
#include "base/memory.h"
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

void checkpoint_file_list_add(struct checkpoint_file_list *list, const char *role, const char *path) {
    list->items = memory_realloc(list->items, (list->count + 1) * sizeof list->items[0]);
    list->items[list->count++] = (struct checkpoint_file){memory_string(role), memory_string(path), NULL};
}

void checkpoint_file_list_free(struct checkpoint_file_list *list) {
    for (size_t i = 0; i < list->count; i++) {
        free(list->items[i].role);
        free(list->items[i].path);
    }
    free(list->items);
    *list = (struct checkpoint_file_list){0};
}

const char *checkpoint_file_find(const struct checkpoint_file_list *list, const char *role) {
    for (size_t i = 0; i < list->count; i++)
        if (strcmp(list->items[i].role, role) == 0)
            return list->items[i].path;
    return NULL;
}

int checkpoint_file_list_read(struct checkpoint_file_list *list, const char *path) {
    *list = (struct checkpoint_file_list){0};
    OWNED_BY(manifest_free) struct manifest manifest = {0};
    TRY(manifest_read(&manifest, path));
    FILE_PATIENCE();
    int result = 0;
    for (size_t i = 0; i < manifest.count && result == 0; i++) {
        const char *name = manifest.files[i].name, *end = strchr(name, '_');
        if (strcmp(manifest.files[i].holds, "file") != 0 || !end)
            continue;
        OWNED char *role = memory_printf("%.*s", (int)(end - name), name), *full = file_join(path, name);
        checkpoint_file_list_add(list, role, full);
        if (file_exists(full) && !extra_is_inside(path, full))
            result = error_set("%s is a link that leads out of the checkpoint; copy the file there", full);
    }
    // A file that could not be examined may not be a link at all.
    if (file_doubt() < 0)
        result = -1;
    if (result < 0)
        checkpoint_file_list_free(list);
    return result;
}

void checkpoint_file_list_drop(struct checkpoint_file_list *list, const char *role) {
    size_t kept = 0;
    for (size_t i = 0; i < list->count; i++) {
        struct checkpoint_file *file = &list->items[i];
        if (strcmp(file->role, role) != 0) {
            list->items[kept++] = *file;
            continue;
        }
        free(file->role);
        free(file->path);
    }
    list->count = kept;
}

int extra_write_bytes(const char *to, const void *data, size_t size, char sha256[65]) {
    TRY(file_write_all(to, data, size));
    if (sha256) {
        struct sha256 hash;
        unsigned char digest[32];
        sha256_init(&hash);
        sha256_update(&hash, data, size);
        sha256_final(&hash, digest);
        sha256_hex(digest, sha256);
    }
    return 0;
}

int extra_copy(const char *from, const char *to, uint64_t *bytes, char sha256[65]) {
    OWNED_BY(file_map_close) struct file_map map = {0};
    TRY(file_map_open(&map, from));
    *bytes = map.size;
    return extra_write_bytes(to, map.data, map.size, sha256);
}

int extra_check(const struct checkpoint_file_list *files) {
    struct file_map map;
    for (size_t i = 0; i < files->count; i++) {
        if (files->items[i].held)
            continue;
        if (file_map_open(&map, files->items[i].path) < 0)
            return error_context("cannot save a checkpoint");
        file_map_close(&map);
    }
    return 0;
}

static bool begins_in(const char *path, const char *folder) {
    size_t length = strlen(folder);
    return strncmp(path, folder, length) == 0 && (path[length] == '/' || strcmp(folder, "/") == 0);
}

// MODEL/blobs if the folder is MODEL/snapshots/REVISION; else NULL.
static char *blobs_of(const char *folder) {
    static const char snapshots[] = "/snapshots";
    OWNED char *parent = file_parent(folder);
    size_t length = strlen(parent), tail = sizeof snapshots - 1;
    bool is_snapshot = length > tail && strcmp(parent + length - tail, snapshots) == 0;
    char *blobs = is_snapshot ? memory_printf("%.*s/blobs", (int)(length - tail), parent) : NULL;
    return blobs;
}

// NULL if it cannot be resolved.
static char *resolve(const char *path) {
    char *full;
    do
        full = realpath(path, NULL);
    while (!full && file_try_again(errno, path));
    return full;
}

bool extra_is_inside(const char *folder, const char *path) {
    OWNED char *root = resolve(folder), *file = resolve(path), *blobs = root ? blobs_of(root) : NULL;
    return root && file && (begins_in(file, root) || (blobs && begins_in(file, blobs)));
}

int extra_check_inside(const char *folder, const char *path) {
    struct stat status;
    if (stat(path, &status) < 0)
        return error_set("cannot read %s: %s", path, strerror(errno));
    if (!S_ISREG(status.st_mode))
        return error_set("%s is %s, not a regular file; replace it by one", path, file_describe_kind(status.st_mode));
    if (!extra_is_inside(folder, path))
        return error_set("%s is a link that leads out of the folder, and would be copied; if it is to be, put the file "
                         "itself there",
                         path);
    return 0;
}

const char *extra_name(const struct checkpoint_file *file) {
    const char *slash = strrchr(file->path, '/'), *name = slash ? slash + 1 : file->path;
    size_t length = strlen(file->role);
    return strncmp(name, file->role, length) == 0 && name[length] == '_' ? name + length + 1 : name;
}

int extra_write(const struct checkpoint_file_list *files, const char *folder, struct manifest *manifest) {
    int result = 0;
    for (size_t i = 0; i < files->count && result == 0; i++) {
        struct manifest_file file = {.holds = memory_string("file")};
        file.name = memory_printf("%s_%s", files->items[i].role, extra_name(&files->items[i]));
        OWNED char *to = file_join(folder, file.name);
        const struct buffer *held = files->items[i].held;
        file.bytes = held ? held->length : 0;
        result = held ? extra_write_bytes(to, buffer_string(held), held->length, file.sha256)
                      : extra_copy(files->items[i].path, to, &file.bytes, file.sha256);
        manifest_add(manifest, file);
    }
    return result;
}

// ---- state.json and config.json ----

// Integers are written in full and doubles in the shortest text that reads back the same, so a resumed run continues
// with the same bits.

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
    FILE_PATIENCE();
    return file_answer(load_state(path, state));
}
