// A GGUF file in checkpoint inspect: its keys, with long arrays counted, and its tensors.
#include "cli/inspect_gguf.h"

#include "base/error.h"
#include "base/memory.h"
#include "cli/checkpoint.h"
#include "formats/gguf.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_TEXT = 100 };

static void append_text(struct buffer *out, const void *text, size_t length) {
    char *start = memory_printf("%.*s", (int)(length < MOST_TEXT ? length : MOST_TEXT), (const char *)text);
    char *shown = checkpoint_printable(start);
    buffer_append_string(out, shown);
    if (length > MOST_TEXT)
        buffer_append_string(out, "…");
    free(start);
    free(shown);
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
        char *key = memory_printf("%.*s", (int)value->key_length, value->key);
        struct buffer shown = {0};
        append_value(&shown, file, value, key);
        buffer_append_string(text, "  ");
        append_text(text, value->key, value->key_length);
        buffer_printf(text, ": %s\n", buffer_string(&shown));
        json_key(json, key);
        json_string(json, buffer_string(&shown), shown.length);
        buffer_free(&shown);
        free(key);
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
        json_key(json, "dtype");
        json_cstring(json, format);
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

int inspect_gguf(const char *path, bool lists_tensors, struct buffer *text, struct json_writer *json) {
    struct gguf file;
    TRY(gguf_open(&file, path));
    json_key(json, "path");
    json_cstring(json, path);
    json_key(json, "kind");
    json_cstring(json, "gguf");
    json_key(json, "version");
    json_int(json, file.version);
    json_key(json, "tensor_count");
    json_int(json, (int64_t)file.tensor_count);
    json_key(json, "elements");
    json_int(json, count_elements(&file));
    buffer_printf(text, "%s\n  GGUF version %" PRIu32 ", %zu tensors, %" PRId64 " elements\n", path, file.version,
                  file.tensor_count, count_elements(&file));
    show_keys(&file, text, json);
    if (lists_tensors)
        show_tensors(&file, text, json);
    gguf_close(&file);
    return 0;
}
