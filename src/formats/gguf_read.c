// Reads GGUF as a hostile file. A cursor never leaves the bytes; no allocation exceeds what the file has bytes for.
#include "formats/gguf.h"

#include "base/error.h"
#include "base/memory.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct gguf_cursor {
    const unsigned char *bytes;
    size_t size, at;
    const char *path;
};

static int fail(const struct gguf_cursor *cursor, const char *what) {
    return error_set("%s, byte %zu: %s; the file is damaged or incomplete", cursor->path, cursor->at, what);
}

static int take(struct gguf_cursor *cursor, uint64_t count, const unsigned char **bytes) {
    if (count > cursor->size - cursor->at)
        return fail(cursor, "the file ends inside its header");
    *bytes = cursor->bytes + cursor->at;
    cursor->at += (size_t)count;
    return 0;
}

static int take_u32(struct gguf_cursor *cursor, uint32_t *value) {
    const unsigned char *bytes = NULL;
    TRY(take(cursor, sizeof *value, &bytes));
    memcpy(value, bytes, sizeof *value);
    return 0;
}

static int take_u64(struct gguf_cursor *cursor, uint64_t *value) {
    const unsigned char *bytes = NULL;
    TRY(take(cursor, sizeof *value, &bytes));
    memcpy(value, bytes, sizeof *value);
    return 0;
}

static int take_string(struct gguf_cursor *cursor, const char **text, uint64_t *length) {
    const unsigned char *bytes = NULL;
    TRY(take_u64(cursor, length));
    TRY(take(cursor, *length, &bytes));
    *text = (const char *)bytes;
    return 0;
}

// Bytes of a number; 0 for strings and arrays.
static size_t number_bytes(enum gguf_type type) {
    static const size_t bytes[GGUF_TYPE_COUNT] = {
        [GGUF_U8] = 1,  [GGUF_I8] = 1,   [GGUF_U16] = 2, [GGUF_I16] = 2, [GGUF_U32] = 4, [GGUF_I32] = 4,
        [GGUF_F32] = 4, [GGUF_BOOL] = 1, [GGUF_U64] = 8, [GGUF_I64] = 8, [GGUF_F64] = 8};
    return bytes[type];
}

static int take_type(struct gguf_cursor *cursor, enum gguf_type *type) {
    uint32_t number = 0;
    TRY(take_u32(cursor, &number));
    if (number >= GGUF_TYPE_COUNT)
        return fail(cursor, "a value has a type that GGUF does not define");
    *type = (enum gguf_type)number;
    return 0;
}

static int take_array(struct gguf_cursor *cursor, struct gguf_value *value) {
    TRY(take_type(cursor, &value->element));
    TRY(take_u64(cursor, &value->count));
    if (value->element == GGUF_ARRAY)
        return fail(cursor, "an array holds arrays, which llama.cpp does not read");
    value->data = cursor->bytes + cursor->at;
    const unsigned char *bytes = NULL;
    size_t each = number_bytes(value->element), total = 0;
    if (each > 0) {
        if (!size_mul(each, (size_t)value->count, &total))
            return fail(cursor, "an array is longer than the file");
        return take(cursor, total, &bytes);
    }
    for (uint64_t i = 0; i < value->count; i++) {
        const char *text = NULL;
        uint64_t length = 0;
        TRY(take_string(cursor, &text, &length));
    }
    return 0;
}

static int take_value(struct gguf_cursor *cursor, struct gguf_value *value) {
    uint64_t length = 0;
    TRY(take_string(cursor, &value->key, &length));
    value->key_length = (size_t)length;
    if (length == 0 || length > 65535)
        return fail(cursor, "a key is empty or has more than 65,535 bytes");
    TRY(take_type(cursor, &value->type));
    if (value->type == GGUF_ARRAY)
        return take_array(cursor, value);
    if (value->type == GGUF_STRING) {
        const char *text = NULL;
        TRY(take_string(cursor, &text, &value->count));
        value->data = (const unsigned char *)text;
        return 0;
    }
    return take(cursor, number_bytes(value->type), &value->data);
}

static int compare_texts(const char *a, size_t a_length, const char *b, size_t b_length) {
    int order = memcmp(a, b, a_length < b_length ? a_length : b_length);
    return order != 0 ? order : (a_length > b_length) - (a_length < b_length);
}

static int compare_keys(const void *a, const void *b) {
    const struct gguf_value *one = *(const struct gguf_value *const *)a, *other = *(const struct gguf_value *const *)b;
    return compare_texts(one->key, one->key_length, other->key, other->key_length);
}

static int compare_names(const void *a, const void *b) {
    const struct gguf_tensor *one = *(const struct gguf_tensor *const *)a;
    const struct gguf_tensor *other = *(const struct gguf_tensor *const *)b;
    return compare_texts(one->name, one->name_length, other->name, other->name_length);
}

static int check_keys(const struct gguf *file) {
    OWNED const struct gguf_value **sorted = memory_alloc((file->value_count + 1) * sizeof sorted[0]);
    for (size_t i = 0; i < file->value_count; i++)
        sorted[i] = &file->values[i];
    qsort(sorted, file->value_count, sizeof sorted[0], compare_keys);
    int result = 0;
    for (size_t i = 1; i < file->value_count && result == 0; i++)
        if (compare_keys(&sorted[i - 1], &sorted[i]) == 0)
            result =
                error_set("%s: the key \"%.*s\" occurs twice", file->path, (int)sorted[i]->key_length, sorted[i]->key);
    return result;
}

static int check_names(const struct gguf *file) {
    OWNED const struct gguf_tensor **sorted = memory_alloc((file->tensor_count + 1) * sizeof sorted[0]);
    for (size_t i = 0; i < file->tensor_count; i++)
        sorted[i] = &file->tensors[i];
    qsort(sorted, file->tensor_count, sizeof sorted[0], compare_names);
    int result = 0;
    for (size_t i = 1; i < file->tensor_count && result == 0; i++)
        if (compare_names(&sorted[i - 1], &sorted[i]) == 0)
            result = error_set("%s: the tensor \"%.*s\" occurs twice", file->path, (int)sorted[i]->name_length,
                               sorted[i]->name);
    return result;
}

static int take_values(struct gguf_cursor *cursor, struct gguf *file, uint64_t count) {
    size_t capacity = 0;
    for (uint64_t i = 0; i < count; i++) {
        MEMORY_GROW(file->values, file->value_count, capacity);
        struct gguf_value *value = &file->values[file->value_count];
        *value = (struct gguf_value){0};
        TRY(take_value(cursor, value));
        file->value_count++;
    }
    return check_keys(file);
}

static int take_shape(struct gguf_cursor *cursor, struct gguf_tensor *tensor) {
    uint32_t rank = 0;
    TRY(take_u32(cursor, &rank));
    if (rank < 1 || rank > GGUF_MAX_RANK)
        return fail(cursor, "a tensor does not have 1 to 4 dimensions");
    tensor->rank = (int)rank;
    for (uint32_t i = rank; i-- > 0;) {
        uint64_t length = 0;
        TRY(take_u64(cursor, &length));
        if (length == 0 || length > INT64_MAX)
            return fail(cursor, "a tensor has a dimension of 0 or beyond 63 bits");
        tensor->shape[i] = (int64_t)length;
    }
    return 0;
}

static int set_bytes(struct gguf_cursor *cursor, struct gguf_tensor *tensor) {
    struct gguf_block block = gguf_block_of(tensor->format);
    if (!block.name)
        return fail(cursor, "a tensor has an unknown type");
    int64_t columns = tensor->shape[tensor->rank - 1];
    if (columns % block.elements != 0)
        return fail(cursor, "the rows of a tensor are not whole blocks of its type");
    tensor->bytes = block.bytes;
    bool fits = size_mul(tensor->bytes, (size_t)(columns / block.elements), &tensor->bytes);
    for (int i = 0; i + 1 < tensor->rank && fits; i++)
        fits = size_mul(tensor->bytes, (size_t)tensor->shape[i], &tensor->bytes);
    return fits ? 0 : fail(cursor, "a tensor has more bytes than 64 bits can count");
}

static uint64_t round_up(uint64_t size, uint64_t alignment) {
    return (size + alignment - 1) / alignment * alignment;
}

// Reads one entry of the table. The tensors are in the order of their bytes, each at the next multiple of the
// alignment; *offset is the required beginning of this tensor, then of the next.
static int take_tensor(struct gguf_cursor *cursor, struct gguf_tensor *tensor, uint64_t alignment, uint64_t *offset) {
    uint64_t length = 0, begin = 0;
    TRY(take_string(cursor, &tensor->name, &length));
    tensor->name_length = (size_t)length;
    if (length == 0 || length > GGUF_MAX_NAME)
        return fail(cursor, "the name of a tensor is empty or has more than 63 bytes");
    TRY(take_shape(cursor, tensor));
    TRY(take_u32(cursor, &tensor->format));
    TRY(take_u64(cursor, &begin));
    TRY(set_bytes(cursor, tensor));
    if (begin != *offset)
        return fail(cursor, "a tensor does not start where the previous one ends");
    if (begin > cursor->size || tensor->bytes > cursor->size - begin)
        return fail(cursor, "a tensor is longer than the file");
    *offset = round_up(begin + tensor->bytes, alignment);
    return 0;
}

static int take_tensors(struct gguf_cursor *cursor, struct gguf *file, uint64_t count, uint64_t alignment) {
    size_t capacity = 0;
    uint64_t offset = 0, end = 0;
    for (uint64_t i = 0; i < count; i++) {
        MEMORY_GROW(file->tensors, file->tensor_count, capacity);
        struct gguf_tensor *tensor = &file->tensors[file->tensor_count];
        *tensor = (struct gguf_tensor){0};
        end = offset;
        TRY(take_tensor(cursor, tensor, alignment, &offset));
        end += tensor->bytes;
        file->tensor_count++;
    }
    uint64_t begin = count > 0 ? round_up(cursor->at, alignment) : cursor->at;
    uint64_t rest = begin <= cursor->size ? cursor->size - begin : 0;
    if (begin > cursor->size || rest < end || (count > 0 && rest > offset))
        return error_set("%s: its tensors need %" PRIu64 " bytes, but it has %" PRIu64 "; the file is %s", file->path,
                         end, rest, rest < end ? "truncated" : "longer than its table says");
    for (size_t i = 0; i < file->tensor_count; i++) {
        file->tensors[i].data = cursor->bytes + begin;
        begin = round_up(begin + file->tensors[i].bytes, alignment);
    }
    return check_names(file);
}

static int get_alignment(const struct gguf *file, uint64_t *alignment) {
    *alignment = GGUF_ALIGNMENT;
    if (!gguf_find_value(file, "general.alignment"))
        return 0;
    if (!gguf_get_number(file, "general.alignment", alignment) || *alignment == 0 || *alignment > 1 << 20 ||
        (*alignment & (*alignment - 1)) != 0)
        return error_set("%s: general.alignment is not a power of two up to 2^20", file->path);
    return 0;
}

static int parse(struct gguf_cursor *cursor, struct gguf *file) {
    const unsigned char *magic = NULL;
    uint64_t tensors = 0, values = 0, alignment = 0;
    if (cursor->size < 4 || memcmp(cursor->bytes, "GGUF", 4) != 0)
        return error_set("%s is not a GGUF file: it does not start with GGUF", cursor->path);
    TRY(take(cursor, 4, &magic));
    TRY(take_u32(cursor, &file->version));
    if (file->version > 0xffff)
        return error_set("%s is a big-endian GGUF file, which is not supported", cursor->path);
    if (file->version != 2 && file->version != 3)
        return error_set("%s is GGUF version %" PRIu32 "; versions 2 and 3 are supported", cursor->path, file->version);
    TRY(take_u64(cursor, &tensors));
    TRY(take_u64(cursor, &values));
    TRY(take_values(cursor, file, values));
    TRY(get_alignment(file, &alignment));
    return take_tensors(cursor, file, tensors, alignment);
}

int gguf_parse(struct gguf *file, const void *bytes, size_t size, const char *name) {
    *file = (struct gguf){.path = memory_string(name)};
    struct gguf_cursor cursor = {.bytes = bytes, .size = size, .path = file->path};
    int result = parse(&cursor, file);
    if (result < 0)
        gguf_close(file);
    return result;
}

int gguf_open(struct gguf *file, const char *path) {
    struct file_map map;
    *file = (struct gguf){0};
    TRY(file_map_open(&map, path));
    int result = gguf_parse(file, map.data, map.size, path);
    if (result < 0)
        file_map_close(&map);
    else
        file->map = map;
    return result;
}

void gguf_close(struct gguf *file) {
    free(file->values);
    free(file->tensors);
    free(file->path);
    if (file->map.data)
        file_map_close(&file->map);
    *file = (struct gguf){0};
}

bool gguf_is_file(const char *path) {
    char magic[4];
    FILE *stream = file_is_regular(path) ? fopen(path, "rb") : NULL;
    bool is_gguf = stream && fread(magic, 1, sizeof magic, stream) == sizeof magic && memcmp(magic, "GGUF", 4) == 0;
    if (stream)
        fclose(stream);
    return is_gguf;
}

const struct gguf_value *gguf_find_value(const struct gguf *file, const char *key) {
    for (size_t i = 0; i < file->value_count; i++)
        if (compare_texts(file->values[i].key, file->values[i].key_length, key, strlen(key)) == 0)
            return &file->values[i];
    return NULL;
}

const struct gguf_tensor *gguf_find_tensor(const struct gguf *file, const char *name) {
    for (size_t i = 0; i < file->tensor_count; i++)
        if (compare_texts(file->tensors[i].name, file->tensors[i].name_length, name, strlen(name)) == 0)
            return &file->tensors[i];
    return NULL;
}

bool gguf_get_number(const struct gguf *file, const char *key, uint64_t *number) {
    const struct gguf_value *value = gguf_find_value(file, key);
    if (!value || (value->type != GGUF_U8 && value->type != GGUF_U16 && value->type != GGUF_U32 &&
                   value->type != GGUF_U64 && value->type != GGUF_BOOL))
        return false;
    *number = 0;
    memcpy(number, value->data, number_bytes(value->type));
    return true;
}

const char *gguf_next_string(const struct gguf_value *array, size_t *cursor, uint64_t *length) {
    memcpy(length, array->data + *cursor, sizeof *length);
    const char *text = (const char *)array->data + *cursor + sizeof *length;
    *cursor += sizeof *length + (size_t)*length;
    return text;
}
