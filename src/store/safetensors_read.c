// Reads safetensors as a hostile file. The order of the checks: length field, JSON, each entry alone (dtype, shape,
// size == end - begin), then all together (no name twice; sorted by offset they cover the data without overlap, hole or
// rest).
#include "store/safetensors.h"

#include "base/error.h"
#include "base/file_patience.h"
#include "base/json.h"
#include "base/memory.h"
#include "base/utf8.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char metadata_key[] = "__metadata__";

// Sizes in this format are plain decimal: no sign, fraction or exponent. They are parsed from the text, to avoid
// rounding.
static int parse_size(const struct json *value, size_t *size) {
    if (value->type != JSON_NUMBER)
        return -1;
    size_t result = 0;
    for (size_t i = 0; i < value->length; i++) {
        if (value->string[i] < '0' || value->string[i] > '9')
            return -1;
        if (!size_mul(result, 10, &result) || !size_add(result, (size_t)(value->string[i] - '0'), &result))
            return -1;
    }
    if (value->length == 0 || result > INT64_MAX)
        return -1;
    *size = result;
    return 0;
}

// Types of the format that this program does not compute with. A file may hold them beside others, e.g. as masks.
static const struct {
    const char *name;
    size_t bytes;
} other_dtypes[] = {{"BOOL", 1}, {"I8", 1},  {"I16", 2},     {"U16", 2},    {"U32", 4},
                    {"U64", 8},  {"F64", 8}, {"F8_E4M3", 1}, {"F8_E5M2", 1}};

// Bytes of an element; 0 if the type is not known.
static size_t parse_dtype(struct safetensors_tensor *tensor, const char *name) {
    if (dtype_from_safetensors_name(&tensor->dtype, name) == 0)
        return dtype_bytes(tensor->dtype);
    for (size_t i = 0; i < sizeof other_dtypes / sizeof other_dtypes[0]; i++) {
        if (strcmp(other_dtypes[i].name, name) == 0) {
            tensor->other_dtype = other_dtypes[i].name;
            return other_dtypes[i].bytes;
        }
    }
    return 0;
}

static int parse_shape(struct safetensors_tensor *tensor, const struct json *shape, size_t element_bytes) {
    if (!shape || shape->type != JSON_ARRAY)
        return error_set("has no \"shape\"");
    if (shape->count > TENSOR_MAX_RANK)
        return error_set("has %zu dimensions, but at most %d are supported", shape->count, TENSOR_MAX_RANK);
    tensor->rank = (int)shape->count;
    tensor->bytes = element_bytes;
    for (int i = 0; i < tensor->rank; i++) {
        size_t length = 0;
        if (parse_size(&shape->items[i], &length) < 0)
            return error_set("has a shape with an entry that is not a size");
        tensor->shape[i] = (int64_t)length;
        if (!size_mul(tensor->bytes, length, &tensor->bytes))
            return error_set("has a shape of more bytes than 64 bits can count");
    }
    return 0;
}

// With duplicate members, two readers of the same file could see different tensors.
static int check_members(const struct json *entry) {
    if (entry->type != JSON_OBJECT)
        return error_set("is not a JSON object");
    for (size_t i = 0; i < entry->count; i++) {
        for (size_t j = 0; j < i; j++) {
            if (entry->keys[i].length == entry->keys[j].length &&
                memcmp(entry->keys[i].string, entry->keys[j].string, entry->keys[i].length) == 0)
                return error_set("has the member \"%.64s\" twice", entry->keys[i].string);
        }
        // The format has three members; the bound keeps the quadratic loop above fast.
        if (i >= 8)
            return error_set("has %zu members, not the three of the format", entry->count);
    }
    return 0;
}

// Checks one entry by itself; *offset is where its data begins. Messages continue "tensor \"name\" …".
static int parse_entry(struct safetensors_tensor *tensor, const struct json *entry, size_t data_bytes, size_t *offset) {
    TRY(check_members(entry));
    const struct json *dtype = json_member(entry, "dtype");
    if (!dtype || dtype->type != JSON_STRING)
        return error_set("has no \"dtype\"");
    size_t element_bytes = strlen(dtype->string) == dtype->length ? parse_dtype(tensor, dtype->string) : 0;
    if (element_bytes == 0)
        return error_set("has the unknown element type \"%.32s\"", dtype->string);
    TRY(parse_shape(tensor, json_member(entry, "shape"), element_bytes));
    const struct json *offsets = json_member(entry, "data_offsets");
    size_t begin = 0, end = 0;
    if (!offsets || offsets->type != JSON_ARRAY || offsets->count != 2 || parse_size(&offsets->items[0], &begin) < 0 ||
        parse_size(&offsets->items[1], &end) < 0)
        return error_set("has no \"data_offsets\" of two sizes");
    if (begin > end || end > data_bytes)
        return error_set("is at bytes %zu to %zu of the data, which has %zu%s", begin, end, data_bytes,
                         end > data_bytes && begin <= end ? "; the file is truncated: copy or download it again" : "");
    if (end - begin != tensor->bytes) {
        char text[128];
        safetensors_describe(tensor, text, sizeof text);
        return error_set("is %s, %zu bytes, but has %zu bytes of data", text, tensor->bytes, end - begin);
    }
    *offset = begin;
    return 0;
}

static int parse_metadata(struct safetensors *file, const struct json *object) {
    if (file->metadata)
        return error_set("\"%s\" occurs twice", metadata_key);
    if (object->type != JSON_OBJECT)
        return error_set("\"%s\" is not a JSON object", metadata_key);
    file->metadata = memory_alloc((object->count + 1) * sizeof file->metadata[0]);
    for (size_t i = 0; i < object->count; i++) {
        if (object->items[i].type != JSON_STRING)
            return error_set("the metadata \"%.64s\" is not a string", object->keys[i].string);
        file->metadata[i] = (struct safetensors_text){.key = object->keys[i].string, .value = object->items[i].string};
    }
    file->metadata_count = object->count;
    return 0;
}

static int parse_entries(struct safetensors *file, const unsigned char *data, size_t data_bytes) {
    const struct json *header = file->header;
    file->tensors = memory_alloc((header->count + 1) * sizeof file->tensors[0]);
    for (size_t i = 0; i < header->count; i++) {
        const struct json_key *key = &header->keys[i];
        if (strlen(key->string) != key->length)
            return error_set("the name of tensor number %zu, \"%.64s…\", has a NUL character", i, key->string);
        if (strcmp(key->string, metadata_key) == 0) {
            TRY(parse_metadata(file, &header->items[i]));
            continue;
        }
        struct safetensors_tensor *tensor = &file->tensors[file->count];
        size_t offset = 0;
        tensor->name = key->string;
        if (parse_entry(tensor, &header->items[i], data_bytes, &offset) < 0) {
            OWNED char *why = memory_string(error_message());
            error_set("tensor \"%.200s\" %s", key->string, why);
            return -1;
        }
        tensor->data = data + offset;
        file->count++;
    }
    return 0;
}

// Orders tensors by the beginning of their data; empty ones come before one that begins at the same place.
static int compare_places(const void *a, const void *b) {
    const struct safetensors_tensor *x = a, *y = b;
    if (x->data != y->data)
        return x->data < y->data ? -1 : 1;
    return (x->bytes > y->bytes) - (x->bytes < y->bytes);
}

static int compare_names(const void *a, const void *b) {
    const struct safetensors_tensor *x = a, *y = b;
    return strcmp(x->name, y->name);
}

static int check_cover(struct safetensors *file, const unsigned char *data, size_t data_bytes) {
    qsort(file->tensors, file->count, sizeof file->tensors[0], compare_places);
    size_t end = 0;
    for (size_t i = 0; i < file->count; i++) {
        const struct safetensors_tensor *tensor = &file->tensors[i];
        size_t begin = (size_t)(tensor->data - data);
        if (begin != end)
            return error_set("tensor \"%.200s\" starts at byte %zu of the data and the previous one ends at %zu; "
                             "tensors must not overlap or leave gaps",
                             tensor->name, begin, end);
        end = begin + tensor->bytes;
    }
    if (end != data_bytes)
        return error_set(
            "the tensors end at byte %zu of the data, which has %zu; the file is truncated, or something was added",
            end, data_bytes);
    return 0;
}

static int check_names(struct safetensors *file) {
    qsort(file->tensors, file->count, sizeof file->tensors[0], compare_names);
    for (size_t i = 1; i < file->count; i++) {
        if (strcmp(file->tensors[i - 1].name, file->tensors[i].name) == 0)
            return error_set("tensor \"%.200s\" occurs twice", file->tensors[i].name);
    }
    return 0;
}

// Whether the number of a header's bytes is no number but text, which has no zeros and rarely control characters. The
// eighth byte may cut a character.
static bool begins_as_text(const unsigned char *bytes) {
    for (int i = 0; i < 8; i++)
        if (bytes[i] < '\t')
            return false;
    return utf8_check((const char *)bytes, 8) > 4;
}

static int parse(struct safetensors *file, const unsigned char *bytes, size_t size) {
    uint64_t header_bytes = 0;
    if (size < 8)
        return error_set("it has %zu bytes, too few for a safetensors file; copy or download it again", size);
    memcpy(&header_bytes, bytes, 8);
    const char *look = file_looks_like(bytes, size);
    if (!*look && begins_as_text(bytes))
        return error_set("it is text, not a safetensors file; give a checkpoint's folder, or a file of weights");
    if (header_bytes > SAFETENSORS_MAX_HEADER_BYTES)
        return error_set("its header claims %" PRIu64 " bytes, but %d are allowed%s", header_bytes,
                         SAFETENSORS_MAX_HEADER_BYTES, *look ? look : "; is it a safetensors file?");
    if (header_bytes > size - 8)
        return error_set("its header claims %" PRIu64
                         " bytes, but %zu follow; the file is truncated: copy or download it again",
                         header_bytes, size - 8);
    if (header_bytes == 0 || bytes[8] != '{')
        return error_set("its header does not start with {; is it a safetensors file?");
    TRY(json_parse(&file->header, (const char *)bytes + 8, (size_t)header_bytes, "header"));
    if (file->header->type != JSON_OBJECT)
        return error_set("its header is not a JSON object");
    const unsigned char *data = bytes + 8 + header_bytes;
    size_t data_bytes = size - 8 - (size_t)header_bytes;
    TRY(parse_entries(file, data, data_bytes));
    TRY(check_cover(file, data, data_bytes));
    return check_names(file);
}

int safetensors_parse(struct safetensors *file, const void *bytes, size_t size, const char *name) {
    *file = (struct safetensors){.path = memory_string(name)};
    if (parse(file, bytes, size) == 0)
        return 0;
    error_context("cannot read %s", name);
    safetensors_close(file);
    return -1;
}

int safetensors_open(struct safetensors *file, const char *path) {
    *file = (struct safetensors){0};
    struct file_map map;
    TRY(file_map_open(&map, path));
    if (safetensors_parse(file, map.data, map.size, path) < 0) {
        file_map_close(&map);
        return -1;
    }
    file->map = map;
    return 0;
}

void safetensors_close(struct safetensors *file) {
    file_map_close(&file->map);
    json_free(file->header);
    free(file->tensors);
    free(file->metadata);
    free(file->path);
    *file = (struct safetensors){0};
}

const struct safetensors_tensor *safetensors_find(const struct safetensors *file, const char *name) {
    struct safetensors_tensor wanted = {.name = name};
    if (file->count == 0)
        return NULL;
    return bsearch(&wanted, file->tensors, file->count, sizeof file->tensors[0], compare_names);
}

const char *safetensors_metadata(const struct safetensors *file, const char *key) {
    for (size_t i = 0; i < file->metadata_count; i++) {
        if (strcmp(file->metadata[i].key, key) == 0)
            return file->metadata[i].value;
    }
    return NULL;
}

void safetensors_describe(const struct safetensors_tensor *tensor, char *text, size_t size) {
    OWNED_BY(buffer_free) struct buffer out = {0};
    buffer_printf(&out, "%s (", tensor->other_dtype ? tensor->other_dtype : dtype_name(tensor->dtype));
    for (int i = 0; i < tensor->rank; i++)
        buffer_printf(&out, "%s%" PRId64, i > 0 ? ", " : "", tensor->shape[i]);
    buffer_append_byte(&out, ')');
    (void)snprintf(text, size, "%s", buffer_string(&out));
}

static int compare_pointed_places(const void *a, const void *b) {
    return compare_places(*(const struct safetensors_tensor *const *)a, *(const struct safetensors_tensor *const *)b);
}

const struct safetensors_tensor **safetensors_order(const struct safetensors *file) {
    const struct safetensors_tensor **order = memory_alloc((file->count + 1) * sizeof order[0]);
    for (size_t i = 0; i < file->count; i++)
        order[i] = &file->tensors[i];
    qsort(order, file->count, sizeof order[0], compare_pointed_places);
    return order;
}
