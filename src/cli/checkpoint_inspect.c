// bevatron checkpoint inspect: the contents of a checkpoint. Reads headers and JSON only, never the tensors.
#include "base/buffer.h"
#include "base/error.h"
#include "base/file.h"
#include "net/hub.h"
#include "base/json.h"
#include "base/memory.h"
#include "base/utf8.h"
#include "cli/commands.h"
#include "config/flag_rows.h"
#include "formats/contents.h"
#include "model/census.h"
#include "formats/gguf.h"
#include "formats/model_source.h"
#include "store/checkpoint.h"
#include "store/folder.h"
#include "store/manifest.h"
#include "store/safetensors.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// ---- GGUF files ----

// A GGUF file for checkpoint inspect.

enum { MOST_TEXT = 100 };

static void append_text(struct buffer *out, const void *text, size_t length) {
    OWNED char *start = memory_printf("%.*s", (int)(length < MOST_TEXT ? length : MOST_TEXT), (const char *)text);
    OWNED char *shown = checkpoint_printable(start);
    buffer_append_string(out, shown);
    if (length > MOST_TEXT)
        buffer_append_string(out, "…");
}

static int64_t signed_of(const struct gguf_value *value) {
    int8_t one;
    int16_t two;
    int32_t four;
    int64_t eight;
    memcpy(&one, value->data, sizeof one);
    if (value->type == GGUF_I8)
        return one;
    memcpy(&two, value->data, sizeof two);
    if (value->type == GGUF_I16)
        return two;
    memcpy(&four, value->data, sizeof four);
    if (value->type == GGUF_I32)
        return four;
    memcpy(&eight, value->data, sizeof eight);
    return eight;
}

static void append_value(struct buffer *out, const struct gguf *file, const struct gguf_value *value, const char *key) {
    uint64_t number = 0;
    float single = 0;
    double twice = 0;
    if (value->type == GGUF_STRING) {
        append_text(out, value->data, (size_t)value->count);
    } else if (value->type == GGUF_ARRAY) {
        buffer_printf(out, "%" PRIu64 " %s", value->count, value->element == GGUF_STRING ? "strings" : "numbers");
    } else if (value->type == GGUF_BOOL) {
        buffer_append_string(out, value->data[0] ? "true" : "false");
    } else if (value->type == GGUF_F32) {
        memcpy(&single, value->data, sizeof single);
        buffer_printf(out, "%.9g", (double)single);
    } else if (value->type == GGUF_F64) {
        memcpy(&twice, value->data, sizeof twice);
        buffer_printf(out, "%.17g", twice);
    } else if (gguf_get_number(file, key, &number)) {
        buffer_printf(out, "%" PRIu64, number);
    } else {
        buffer_printf(out, "%" PRId64, signed_of(value));
    }
}

static void show_keys(const struct gguf *file, struct buffer *text, struct json_writer *json) {
    json_key(json, "keys");
    json_begin_object(json);
    for (size_t i = 0; i < file->value_count; i++) {
        const struct gguf_value *value = &file->values[i];
        OWNED char *key = memory_printf("%.*s", (int)value->key_length, value->key);
        OWNED_BY(buffer_free) struct buffer shown = {0};
        append_value(&shown, file, value, key);
        buffer_append_string(text, "  ");
        append_text(text, value->key, value->key_length);
        buffer_printf(text, ": %s\n", buffer_string(&shown));
        json_key(json, key);
        json_string(json, buffer_string(&shown), shown.length);
    }
    json_end_object(json);
}

static void show_tensors(const struct gguf *file, struct buffer *text, struct json_writer *json) {
    json_key(json, "tensors");
    json_begin_array(json);
    for (size_t i = 0; i < file->tensor_count; i++) {
        const struct gguf_tensor *tensor = &file->tensors[i];
        const char *format = gguf_block_of(tensor->format).name;
        buffer_append_string(text, "    ");
        append_text(text, tensor->name, tensor->name_length);
        buffer_printf(text, " %s (", format);
        json_begin_object(json);
        json_key(json, "name");
        json_string(json, tensor->name, tensor->name_length);
        json_put_string(json, "dtype", format);
        json_key(json, "shape");
        json_begin_array(json);
        for (int k = 0; k < tensor->rank; k++) {
            buffer_printf(text, "%s%" PRId64, k > 0 ? ", " : "", tensor->shape[k]);
            json_int(json, tensor->shape[k]);
        }
        buffer_append_string(text, ")\n");
        json_end_array(json);
        json_end_object(json);
    }
    json_end_array(json);
}

static int64_t count_elements(const struct gguf *file) {
    int64_t count = 0;
    for (size_t i = 0; i < file->tensor_count; i++) {
        struct gguf_block block = gguf_block_of(file->tensors[i].format);
        count += (int64_t)(file->tensors[i].bytes / block.bytes) * block.elements;
    }
    return count;
}

// Appends lines to `text` and members to the open JSON object.
static int inspect_gguf(const char *path, bool lists_tensors, struct buffer *text, struct json_writer *json) {
    OWNED_BY(gguf_close) struct gguf file = {0};
    TRY(gguf_open(&file, path));
    json_put_string(json, "path", path);
    json_put_string(json, "kind", "gguf");
    json_put_int(json, "version", file.version);
    json_put_int(json, "tensor_count", (int64_t)file.tensor_count);
    json_put_int(json, "elements", count_elements(&file));
    buffer_printf(text, "%s\n  GGUF version %" PRIu32 ", %zu tensors, %" PRId64 " elements\n", path, file.version,
                  file.tensor_count, count_elements(&file));
    show_keys(&file, text, json);
    if (lists_tensors)
        show_tensors(&file, text, json);
    return 0;
}

// ---- what a path holds ----

struct checkpoint_inspect_options {
    struct flag_given given;
    struct string_list paths;
    int64_t step;
    bool json;
    bool tensors;
};

#define FLAG_STRUCT struct checkpoint_inspect_options

static const struct flag rows[] = {
    SWITCH("--tensors", tensors, "list every tensor"),
    INT("--ckpt-step", step, "-1", -1, 9007199254740992.0, "iteration of a --save folder; -1 for the latest"),
    SWITCH("--json", json, "print one JSON object per path"),
};

// Every fact goes to both kinds of output: text line by line, JSON into one object.
struct inspect_view {
    const struct checkpoint_inspect_options *options;
    struct buffer text;
    struct json_writer json;
};

// Names and metadata come from untrusted files, and could rewrite the terminal or fake lines of this output. To be
// freed.
char *checkpoint_printable(const char *text) {
    char *copy = memory_string(text);
    utf8_make_printable(copy, "");
    return copy;
}

static int64_t element_count(const struct safetensors *file) {
    int64_t count = 0;
    for (size_t i = 0; i < file->count; i++) {
        int64_t elements = 1;
        for (int k = 0; k < file->tensors[i].rank; k++)
            elements *= file->tensors[i].shape[k];
        count += elements;
    }
    return count;
}

static void show_tensor_json(struct json_writer *json, const struct safetensors_tensor *tensor) {
    json_begin_object(json);
    json_put_string(json, "name", tensor->name);
    json_put_string(json, "dtype", tensor->other_dtype ? tensor->other_dtype : dtype_name(tensor->dtype));
    json_key(json, "shape");
    json_begin_array(json);
    for (int i = 0; i < tensor->rank; i++)
        json_int(json, tensor->shape[i]);
    json_end_array(json);
    json_end_object(json);
}

// Members of the current JSON object, or indented lines.
static void show_safetensors(struct inspect_view *view, const struct safetensors *file) {
    struct json_writer *json = &view->json;
    json_put_int(json, "tensor_count", (int64_t)file->count);
    json_put_int(json, "elements", element_count(file));
    buffer_printf(&view->text, "%zu tensors, %" PRId64 " elements\n", file->count, element_count(file));
    if (!view->options->tensors)
        return;
    json_key(json, "tensors");
    json_begin_array(json);
    for (size_t i = 0; i < file->count; i++) {
        char description[128], *name = checkpoint_printable(file->tensors[i].name);
        safetensors_describe(&file->tensors[i], description, sizeof description);
        buffer_printf(&view->text, "    %-56s %s\n", name, description);
        free(name);
        show_tensor_json(json, &file->tensors[i]);
    }
    json_end_array(json);
}

static int show_file(struct inspect_view *view, const struct manifest_file *entry, const char *folder) {
    struct json_writer *json = &view->json;
    json_begin_object(json);
    json_put_string(json, "name", entry->name);
    json_put_string(json, "holds", entry->holds);
    json_put_int(json, "bytes", (int64_t)entry->bytes);
    json_put_string(json, "sha256", entry->sha256);
    char *name = checkpoint_printable(entry->name);
    buffer_printf(&view->text, "  %-32s %14" PRIu64 " bytes  sha256 %.12s…", name, entry->bytes, entry->sha256);
    free(name);
    int result = 0;
    size_t length = strlen(entry->name), suffix = sizeof ".safetensors" - 1;
    if (length > suffix && strcmp(entry->name + length - suffix, ".safetensors") == 0) {
        OWNED char *path = file_join(folder, entry->name);
        struct safetensors file;
        result = safetensors_open(&file, path);
        if (result == 0) {
            buffer_append_string(&view->text, "  ");
            show_safetensors(view, &file);
            safetensors_close(&file);
        }
    } else {
        buffer_append_byte(&view->text, '\n');
    }
    json_end_object(json);
    return result;
}

static void show_state(struct inspect_view *view, const struct checkpoint_state *state) {
    const struct {
        const char *key;
        int64_t value;
    } numbers[] = {
        {"iteration", state->iteration},
        {"consumed_train_samples", state->consumed_train_samples},
        {"consumed_valid_samples", state->consumed_valid_samples},
        {"skipped_train_samples", state->skipped_train_samples},
        {"adam_step", state->adam_step},
        {"schedule_samples", state->schedule_samples},
        {"seed", state->seed},
        {"replicas_verified", state->replicas_verified},
    };
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        json_put_int(&view->json, numbers[i].key, numbers[i].value);
        buffer_printf(&view->text, "  %-32s %14" PRId64 "\n", numbers[i].key, numbers[i].value);
    }
    json_put_double(&view->json, "loss_scale", state->loss_scale);
    json_put_string(&view->json, "program_version", state->program_version);
    buffer_printf(&view->text, "  %-32s %14g\n", "loss_scale", state->loss_scale);
    OWNED char *version = checkpoint_printable(state->program_version);
    buffer_printf(&view->text, "  %-32s %14s\n", "written by bevatron", version);
}

// The size of a model, by the names of its flags; irrelevant ones are 0 and left out.
static void show_model(struct inspect_view *view, const struct config *config) {
    const struct {
        const char *key;
        int64_t value;
    } numbers[] = {
        {"num_layers", config->model.num_layers},
        {"hidden_size", config->model.hidden_size},
        {"num_attention_heads", config->model.num_attention_heads},
        {"num_query_groups", config_query_groups(&config->model)},
        {"seq_length", config->run.seq_length},
        {"padded_vocab_size", config->model.padded_vocab_size},
        {"num_experts", config->model.num_experts},
        {"parameters", census_parameters(config)},
    };
    json_key(&view->json, "model");
    json_begin_object(&view->json);
    json_put_string(&view->json, "model", CONFIG_NAME(model.form, config->model.form));
    buffer_printf(&view->text, "  %-32s %14s\n", "model", CONFIG_NAME(model.form, config->model.form));
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        if (numbers[i].value == 0)
            continue;
        json_put_int(&view->json, numbers[i].key, numbers[i].value);
        buffer_printf(&view->text, "  %-32s %14" PRId64 "\n", numbers[i].key, numbers[i].value);
    }
    json_end_object(&view->json);
}

// A checkpoint without a description of its model is shown without it.
static void show_own_model(struct inspect_view *view, const char *path) {
    OWNED_BY(model_source_close) struct model_source source = {0};
    const struct model_source_options options = {.path = path, .step = -1, .skip_checksums = true};
    if (model_source_open(&source, &options) == 0)
        show_model(view, &source.config);
    error_clear();
}

static int show_checkpoint(struct inspect_view *view, const char *path) {
    struct manifest manifest;
    struct checkpoint_state state = {0};
    TRY(manifest_read(&manifest, path));
    buffer_printf(&view->text, "%s\n", path);
    json_put_string(&view->json, "path", path);
    show_own_model(view, path);
    int result = checkpoint_load_state(path, &state);
    if (result == 0)
        show_state(view, &state);
    checkpoint_state_free(&state);
    json_key(&view->json, "files");
    json_begin_array(&view->json);
    for (size_t i = 0; i < manifest.count && result == 0; i++)
        result = show_file(view, &manifest.files[i], path);
    json_end_array(&view->json);
    manifest_free(&manifest);
    return result;
}

// The contents of a folder of --save, and the checkpoint of it that is shown: `hold` keeps a run in progress from
// removing that one until it is closed.
struct save_view {
    struct folder_list list;
    int64_t iteration, latest;
    bool has_marker;
    int hold;
};

static int open_save_view(struct save_view *save, const char *folder, int64_t step) {
    enum { MOST_TRIES = 100 };
    for (int i = 0; i < MOST_TRIES; i++) {
        *save = (struct save_view){.latest = -1, .hold = -1};
        TRY(folder_list_read(&save->list, folder));
        if (save->list.count == 0)
            return 0;
        save->has_marker = folder_marker_read(folder, &save->latest) > 0;
        save->iteration = save->has_marker ? save->latest : save->list.iterations[save->list.count - 1];
        if (step >= 0)
            save->iteration = step;
        OWNED char *path = checkpoint_path(folder, save->iteration);
        save->hold = folder_hold(path);
        bool was_removed = save->hold < 0 && step < 0 && !file_exists(path);
        int64_t now = save->latest;
        // The run has saved a newer one in the meantime.
        if (!was_removed || (save->has_marker && folder_marker_read(folder, &now) > 0 && now == save->latest))
            return 0;
        folder_list_free(&save->list);
    }
    return folder_list_read(&save->list, folder);
}

static void close_save_view(struct save_view *save) {
    folder_list_free(&save->list);
    if (save->hold >= 0)
        close(save->hold);
}

// A folder of --save: its contents, then one checkpoint of it.
static int show_save_folder(struct inspect_view *view, const char *folder, const struct save_view *save) {
    const struct folder_list *list = &save->list;
    int64_t latest = save->latest;
    bool has_marker = save->has_marker;
    json_key(&view->json, "iterations");
    json_begin_array(&view->json);
    buffer_append_string(&view->text, "iterations");
    for (size_t i = 0; i < list->count; i++) {
        bool is_latest = has_marker && list->iterations[i] == latest;
        json_int(&view->json, list->iterations[i]);
        buffer_printf(&view->text, " %" PRId64 "%s", list->iterations[i], is_latest ? " (latest)" : "");
    }
    json_end_array(&view->json);
    buffer_append_byte(&view->text, '\n');
    json_key(&view->json, "latest");
    if (has_marker)
        json_int(&view->json, latest);
    else
        json_null(&view->json);
    OWNED char *path = checkpoint_path(folder, save->iteration);
    return show_checkpoint(view, path);
}

static int show_single_file(struct inspect_view *view, const char *path) {
    struct safetensors file;
    if (safetensors_open(&file, path) < 0)
        return hub_suggest(path, HUB_MODEL);
    json_put_string(&view->json, "path", path);
    buffer_printf(&view->text, "%s\n  ", path);
    show_safetensors(view, &file);
    for (size_t i = 0; i < file.metadata_count; i++) {
        OWNED char *key = checkpoint_printable(file.metadata[i].key),
                   *value = checkpoint_printable(file.metadata[i].value);
        buffer_printf(&view->text, "  %s: %s\n", key, value);
    }
    safetensors_close(&file);
    return 0;
}

// A model of Hugging Face, Megatron-LM or llm.c, in our names and shapes.
static int show_foreign(struct inspect_view *view, const char *path) {
    OWNED_BY(model_source_close) struct model_source source = {0};
    TRY(model_source_open(&source, &(struct model_source_options){.path = path, .step = view->options->step}));
    json_put_string(&view->json, "path", path);
    json_put_string(&view->json, "kind", source.kind);
    json_put_int(&view->json, "tensor_count", (int64_t)source.count);
    buffer_printf(&view->text, "%s\n  %s: %zu tensors\n", path, source.kind, source.count);
    show_model(view, &source.config);
    if (source.state.iteration > 0) {
        json_put_int(&view->json, "iteration", source.state.iteration);
        json_put_int(&view->json, "consumed_train_samples", source.state.consumed_train_samples);
        buffer_printf(&view->text, "  iteration %" PRId64 ", after %" PRId64 " samples\n", source.state.iteration,
                      source.state.consumed_train_samples);
    }
    for (size_t i = 0; i < source.count && view->options->tensors; i++) {
        const struct source_tensor *tensor = &source.tensors[i];
        struct safetensors_tensor shown = {.dtype = tensor->dtype, .rank = tensor->rank};
        memcpy(shown.shape, tensor->shape, sizeof tensor->shape);
        char description[128];
        safetensors_describe(&shown, description, sizeof description);
        buffer_printf(&view->text, "  %s %s\n", tensor->name, description);
    }
    return 0;
}

static int inspect(const void *context, const char *path) {
    const struct checkpoint_inspect_options *options = context;
    OWNED_BY(buffer_free) struct buffer object = {0};
    struct inspect_view view = {.options = options, .json = {.out = &object}};
    OWNED_BY(close_save_view) struct save_view save = {.hold = -1};
    struct contents contents;
    TRY(contents_look(&contents, path, options->step));
    int result = file_is_folder(path) ? open_save_view(&save, path, options->step) : 0;
    json_begin_object(&view.json);
    if (result == 0 && gguf_is_file(path))
        result = inspect_gguf(path, options->tensors, &view.text, &view.json);
    else if (result == 0 && contents_is_foreign(&contents))
        result = show_foreign(&view, path);
    else if (result == 0 && save.list.count > 0)
        result = show_save_folder(&view, path, &save);
    else if (result == 0)
        result = file_is_folder(path) ? show_checkpoint(&view, path) : show_single_file(&view, path);
    json_end_object(&view.json);
    if (result == 0 && options->json)
        puts(buffer_string(&object));
    else if (result == 0)
        fputs(buffer_string(&view.text), stdout);
    buffer_free(&view.text);
    return result;
}

const struct command cmd_checkpoint_inspect = {
    .flags =
        {.name = "checkpoint inspect",
         .summary = "Prints what checkpoints hold, without verifying them.",
         .positional_name = "PATH…",
         .positional_minimum = 1,
         .positional_maximum = INT32_MAX,
         .positional_offset = OFFSET(paths),
         .epilogue =
             "PATH is a --save folder, an iter_… folder, a Hugging Face or Megatron-LM folder, a fairseq RoBERTa, an "
             "llm.c\nGPT-2 file, or any .safetensors or .gguf file.\nExample:\n  bevatron checkpoint inspect run "
             "--tensors\n"},
    .tables = {{FLAG_TABLE(rows)}},
    .options_bytes = sizeof(struct checkpoint_inspect_options),
    .run_each = inspect,
};
