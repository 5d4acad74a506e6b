// Reads structs by their rows.
#include "data/table/thrift.h"
#include "base/memory.h"
#include <stdlib.h>

enum { MOST_DEPTH = 32 };

enum wire {
    WIRE_STOP,
    WIRE_TRUE,
    WIRE_FALSE,
    WIRE_BYTE,
    WIRE_I16,
    WIRE_I32,
    WIRE_I64,
    WIRE_DOUBLE,
    WIRE_TEXT,
    WIRE_LIST,
    WIRE_SET,
    WIRE_MAP,
    WIRE_STRUCT,
    WIRE_UUID,
};

static bool fail(struct thrift_input *input, const char *problem) {
    input->problem = problem;
    return false;
}

static bool cut(struct thrift_input *input) {
    input->is_cut = true;
    return fail(input, "its metadata ends early");
}

bool thrift_varint(const unsigned char **at, const unsigned char *end, uint64_t *value) {
    *value = 0;
    for (int shift = 0; shift < 64 && *at < end; shift += 7) {
        unsigned char byte = *(*at)++;
        *value |= (uint64_t)(byte & 0x7F) << shift;
        if (byte < 0x80)
            return true;
    }
    return false;
}

int64_t thrift_signed(uint64_t zigzag) {
    return (int64_t)(zigzag >> 1 ^ (0 - (zigzag & 1)));
}

static bool read_varint(struct thrift_input *input, uint64_t *value) {
    if (thrift_varint(&input->at, input->end, value))
        return true;
    return input->at == input->end ? cut(input) : fail(input, "a number of its metadata has too many bytes");
}

static bool read_bytes(struct thrift_input *input, uint64_t count, struct thrift_text *text) {
    if (count > (uint64_t)(input->end - input->at))
        return cut(input);
    *text = (struct thrift_text){(const char *)input->at, (size_t)count};
    input->at += count;
    return true;
}

static bool read_text(struct thrift_input *input, struct thrift_text *text) {
    uint64_t length;
    return read_varint(input, &length) && read_bytes(input, length, text);
}

// The type of a list's items and their number: each takes at least a byte.
static bool read_list_header(struct thrift_input *input, enum wire *type, uint64_t *count) {
    struct thrift_text byte;
    if (!read_bytes(input, 1, &byte))
        return false;
    *type = byte.bytes[0] & 15;
    *count = (unsigned char)byte.bytes[0] >> 4;
    if (*count == 15 && !read_varint(input, count))
        return false;
    return *count <= (uint64_t)(input->end - input->at) || cut(input);
}

static bool skip(struct thrift_input *input, enum wire type, int depth);

// An item of a list or map: there a truth value is a byte.
static bool skip_item(struct thrift_input *input, enum wire type, int depth) {
    struct thrift_text byte;
    return type == WIRE_TRUE || type == WIRE_FALSE ? read_bytes(input, 1, &byte) : skip(input, type, depth);
}

static bool skip_list(struct thrift_input *input, int depth) {
    enum wire type;
    uint64_t count;
    if (!read_list_header(input, &type, &count))
        return false;
    while (count > 0 && skip_item(input, type, depth))
        count--;
    return count == 0;
}

static bool skip_map(struct thrift_input *input, int depth) {
    uint64_t count;
    struct thrift_text byte;
    if (!read_varint(input, &count))
        return false;
    if (count == 0)
        return true;
    if (count > (uint64_t)(input->end - input->at))
        return cut(input);
    if (!read_bytes(input, 1, &byte))
        return false;
    enum wire key = (unsigned char)byte.bytes[0] >> 4, value = byte.bytes[0] & 15;
    while (count > 0 && skip_item(input, key, depth) && skip_item(input, value, depth))
        count--;
    return count == 0;
}

// The type and number of the next field; WIRE_STOP after the last.
static bool read_field_header(struct thrift_input *input, enum wire *type, int64_t *id) {
    struct thrift_text byte;
    uint64_t number;
    if (!read_bytes(input, 1, &byte))
        return false;
    *type = byte.bytes[0] & 15;
    int step = (unsigned char)byte.bytes[0] >> 4;
    if (*type == WIRE_STOP || step > 0) {
        *id = (int64_t)((uint64_t)*id + (uint64_t)step);
        return true;
    }
    if (!read_varint(input, &number))
        return false;
    *id = thrift_signed(number);
    return true;
}

static bool skip_struct(struct thrift_input *input, int depth) {
    enum wire type;
    int64_t id = 0;
    for (;;) {
        if (!read_field_header(input, &type, &id))
            return false;
        if (type == WIRE_STOP)
            return true;
        if (!skip(input, type, depth))
            return false;
    }
}

static bool skip(struct thrift_input *input, enum wire type, int depth) {
    struct thrift_text text;
    uint64_t count;
    if (depth > MOST_DEPTH)
        return fail(input, "its metadata is nested too deeply");
    switch (type) {
    case WIRE_TRUE:
    case WIRE_FALSE:
        return true;
    case WIRE_BYTE:
        return read_bytes(input, 1, &text);
    case WIRE_I16:
    case WIRE_I32:
    case WIRE_I64:
        return read_varint(input, &count);
    case WIRE_DOUBLE:
        return read_bytes(input, 8, &text);
    case WIRE_UUID:
        return read_bytes(input, 16, &text);
    case WIRE_TEXT:
        return read_text(input, &text);
    case WIRE_LIST:
    case WIRE_SET:
        return skip_list(input, depth + 1);
    case WIRE_MAP:
        return skip_map(input, depth + 1);
    case WIRE_STRUCT:
        return skip_struct(input, depth + 1);
    default:
        return fail(input, "its metadata has a value of an unknown type");
    }
}

static bool read_struct(struct thrift_input *input, const struct thrift_record *record, void *value, int depth);

static bool read_list(struct thrift_input *input, const struct thrift_record *record, struct thrift_list *list,
                      int depth) {
    enum wire type;
    uint64_t count;
    if (!read_list_header(input, &type, &count))
        return false;
    if ((type != WIRE_STRUCT && count > 0) || list->items)
        return fail(input, "a list of its metadata has items of another type");
    list->items = memory_alloc((size_t)count * record->bytes + 1);
    list->count = (int64_t)count;
    for (uint64_t i = 0; i < count; i++)
        if (!read_struct(input, record, (char *)list->items + i * record->bytes, depth))
            return false;
    return true;
}

// Fields of another type than expected are skipped.
static bool read_field(struct thrift_input *input, const struct thrift_field *field, enum wire type, void *place,
                       int depth) {
    uint64_t number = 0;
    struct thrift_int *integer = place;
    if (field->kind == THRIFT_TEXT && type == WIRE_TEXT)
        return read_text(input, place);
    if (field->kind == THRIFT_STRUCT && type == WIRE_STRUCT)
        return read_struct(input, field->record, place, depth + 1);
    if (field->kind == THRIFT_LIST && type == WIRE_LIST)
        return read_list(input, field->record, place, depth + 1);
    if (field->kind == THRIFT_IS_SET)
        *(bool *)place = true;
    if (field->kind != THRIFT_INT || type < WIRE_TRUE || type > WIRE_I64 || type == WIRE_BYTE)
        return skip(input, type, depth);
    if (type >= WIRE_I16 && !read_varint(input, &number))
        return false;
    *integer = (struct thrift_int){type >= WIRE_I16 ? thrift_signed(number) : type == WIRE_TRUE, true};
    return true;
}

static bool read_struct(struct thrift_input *input, const struct thrift_record *record, void *value, int depth) {
    enum wire type;
    int64_t id = 0;
    if (depth > MOST_DEPTH)
        return fail(input, "its metadata is nested too deeply");
    for (;;) {
        int k = 0;
        if (!read_field_header(input, &type, &id))
            return false;
        if (type == WIRE_STOP)
            return true;
        while (k < record->count && record->fields[k].id != id)
            k++;
        const struct thrift_field *field = k < record->count ? &record->fields[k] : NULL;
        if (field ? !read_field(input, field, type, (char *)value + field->offset, depth) : !skip(input, type, depth))
            return false;
    }
}

bool thrift_read(struct thrift_input *input, const struct thrift_record *record, void *value) {
    return read_struct(input, record, value, 0);
}

void thrift_free(const struct thrift_record *record, void *value) {
    for (int k = 0; k < record->count; k++) {
        const struct thrift_field *field = &record->fields[k];
        void *place = (char *)value + field->offset;
        struct thrift_list *list = place;
        if (field->kind == THRIFT_STRUCT)
            thrift_free(field->record, place);
        if (field->kind != THRIFT_LIST)
            continue;
        for (int64_t i = 0; i < list->count; i++)
            thrift_free(field->record, (char *)list->items + (size_t)i * field->record->bytes);
        free(list->items);
        *list = (struct thrift_list){0};
    }
}
