// Protocol buffers, read by hand. See event_file.h and, for writing, report/event.c.
//
//   Event    1 wall_time double · 2 step int64 · 5 summary Summary
//   Summary  1 value Value, repeated
//   Value    1 tag string · 2 simple_value float · 8 tensor TensorProto · 9 metadata SummaryMetadata
//   SummaryMetadata  1 plugin_data { 1 plugin_name string }
//   TensorProto      1 dtype enum · 2 tensor_shape { 2 dim, repeated } · 4 tensor_content bytes · 5 float_val ·
//                    6 double_val · 7 int_val · 8 string_val · 10 int64_val · 11 bool_val · 13 half_val (the bits of
//                    float16 and bfloat16) · 16 uint32_val · 17 uint64_val; numbers are repeated, packed or not
#include "report/board/event_file.h"

#include "base/error.h"
#include "base/hash.h"
#include <math.h>
#include <stdbool.h>
#include <string.h>

enum { WIRE_VARINT = 0, WIRE_64 = 1, WIRE_BYTES = 2, WIRE_32 = 5 };

struct proto {
    const unsigned char *at, *end;
};

// A field: `bits` of a number as encoded, or the bytes of a string or message.
struct proto_field {
    uint64_t number, bits;
    int wire;
    struct proto bytes;
};

static bool read_varint(struct proto *proto, uint64_t *value) {
    *value = 0;
    for (unsigned shift = 0; shift < 70 && proto->at < proto->end; shift += 7) {
        unsigned char byte = *proto->at++;
        if (shift < 64)
            *value |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80)
            return true;
    }
    return false;
}

static bool read_fixed(struct proto *proto, size_t size, uint64_t *value) {
    if ((size_t)(proto->end - proto->at) < size)
        return false;
    *value = 0;
    memcpy(value, proto->at, size);
    proto->at += size;
    return true;
}

// The next field. False at the end, and for malformed data: then proto->at is not proto->end.
static bool next_field(struct proto *proto, struct proto_field *field) {
    const unsigned char *start = proto->at;
    uint64_t key = 0;
    bool is_good = false;
    if (start == proto->end)
        return false;
    if (read_varint(proto, &key) && key >> 3 > 0) {
        *field = (struct proto_field){.number = key >> 3, .wire = (int)(key & 7)};
        if (field->wire == WIRE_VARINT)
            is_good = read_varint(proto, &field->bits);
        else if (field->wire == WIRE_64)
            is_good = read_fixed(proto, 8, &field->bits);
        else if (field->wire == WIRE_32)
            is_good = read_fixed(proto, 4, &field->bits);
        else if (field->wire == WIRE_BYTES && read_varint(proto, &field->bits))
            is_good = field->bits <= (uint64_t)(proto->end - proto->at);
    }
    if (!is_good) {
        proto->at = start;
        return false;
    }
    if (field->wire == WIRE_BYTES) {
        field->bytes = (struct proto){proto->at, proto->at + field->bits};
        proto->at += field->bits;
    }
    return true;
}

static double as_float(uint64_t bits) {
    uint32_t low = (uint32_t)bits;
    float value;
    memcpy(&value, &low, 4);
    return (double)value;
}

static double as_double(uint64_t bits) {
    double value;
    memcpy(&value, &bits, 8);
    return value;
}

static double as_half(uint64_t bits) {
    int exponent = (int)(bits >> 10 & 31);
    double fraction = (double)(bits & 1023), sign = bits & 0x8000 ? -1 : 1;
    if (exponent == 31)
        return fraction != 0 ? (double)NAN : sign * (double)INFINITY;
    return sign * (exponent == 0 ? ldexp(fraction, -24) : ldexp(fraction + 1024, exponent - 25));
}

static double as_bfloat(uint64_t bits) {
    return as_float((bits & 0xFFFF) << 16);
}

static double as_int(uint64_t bits) {
    return (double)(int64_t)bits;
}

static double as_uint(uint64_t bits) {
    return (double)bits;
}

static double as_int32(uint64_t bits) {
    return (double)(int32_t)(uint32_t)bits;
}

static double as_int16(uint64_t bits) {
    return (double)(int16_t)(uint16_t)bits;
}

static double as_int8(uint64_t bits) {
    return (double)(int8_t)(uint8_t)bits;
}

// Element types of TensorFlow: their size in tensor_content, the field of their values and the decoding of their bits.
static const struct element {
    uint64_t type;
    size_t bytes;
    uint64_t field;
    int wire;
    double (*number)(uint64_t bits);
} elements[] = {
    {1, 4, 5, WIRE_32, as_float},      {2, 8, 6, WIRE_64, as_double},     {3, 4, 7, WIRE_VARINT, as_int32},
    {4, 1, 7, WIRE_VARINT, as_uint},   {5, 2, 7, WIRE_VARINT, as_int16},  {6, 1, 7, WIRE_VARINT, as_int8},
    {9, 8, 10, WIRE_VARINT, as_int},   {10, 1, 11, WIRE_VARINT, as_uint}, {14, 2, 13, WIRE_VARINT, as_bfloat},
    {17, 2, 7, WIRE_VARINT, as_uint},  {19, 2, 13, WIRE_VARINT, as_half}, {22, 4, 16, WIRE_VARINT, as_uint},
    {23, 8, 17, WIRE_VARINT, as_uint},
};
enum { TYPE_STRING = 7, FIELD_CONTENT = 4, FIELD_STRING = 8 };

static const struct element *element_of(uint64_t type) {
    for (size_t i = 0; i < sizeof elements / sizeof elements[0]; i++) {
        if (elements[i].type == type)
            return &elements[i];
    }
    return NULL;
}

// Takes the numbers of a field, one or packed; returns their count, with the first in *bits.
static int field_numbers(const struct proto_field *field, int wire, uint64_t *bits) {
    if (field->wire != WIRE_BYTES) {
        *bits = field->bits;
        return field->wire == wire;
    }
    struct proto packed = field->bytes;
    uint64_t value = 0;
    int count = 0;
    while (packed.at < packed.end && count < 2) {
        bool is_good =
            wire == WIRE_VARINT ? read_varint(&packed, &value) : read_fixed(&packed, wire == WIRE_64 ? 8 : 4, &value);
        if (!is_good)
            return 0;
        if (count++ == 0)
            *bits = value;
    }
    return count;
}

// The first field of this number that holds bytes.
static struct proto find_bytes(struct proto message, uint64_t number) {
    struct proto_field field;
    while (next_field(&message, &field)) {
        if (field.number == number && field.wire == WIRE_BYTES)
            return field.bytes;
    }
    return (struct proto){message.end, message.end};
}

static int read_tensor(struct proto tensor, struct event_value *value) {
    struct proto_field field;
    struct proto all = tensor, dimension = find_bytes(find_bytes(tensor, 2), 2);
    uint64_t type = 0, bits = 0;
    int count = 0;
    while (next_field(&all, &field)) {
        if (field.number == 1 && field.wire == WIRE_VARINT)
            type = field.bits;
    }
    if (all.at != all.end)
        return -1;
    const struct element *element = element_of(type);
    value->kind = EVENT_OTHER;
    for (all = tensor; next_field(&all, &field);) {
        if (type == TYPE_STRING && field.number == FIELD_STRING && field.wire == WIRE_BYTES && count++ == 0) {
            value->text = (const char *)field.bytes.at;
            value->text_bytes = (size_t)(field.bytes.end - field.bytes.at);
        } else if (element && field.number == element->field) {
            count += field_numbers(&field, element->wire, &bits);
        } else if (element && field.number == FIELD_CONTENT && field.wire == WIRE_BYTES &&
                   (size_t)(field.bytes.end - field.bytes.at) == element->bytes) {
            memcpy(&bits, field.bytes.at, element->bytes);
            count++;
        }
    }
    if (type == TYPE_STRING && count > 0)
        value->kind = EVENT_TEXT;
    // A zero may be left out.
    bool is_zero = count == 0 && dimension.at == dimension.end && find_bytes(tensor, FIELD_CONTENT).at == all.end;
    if (element && (count == 1 || is_zero)) {
        value->kind = EVENT_SCALAR;
        value->number = element->number(bits);
    }
    return 0;
}

static int read_value(struct proto message, struct event_value *value) {
    struct proto_field field;
    while (next_field(&message, &field)) {
        if (field.number == 1 && field.wire == WIRE_BYTES) {
            value->tag = (const char *)field.bytes.at;
            value->tag_bytes = (size_t)(field.bytes.end - field.bytes.at);
        } else if (field.number == 2 && field.wire == WIRE_32) {
            value->kind = EVENT_SCALAR;
            value->number = as_float(field.bits);
        } else if (field.number == 8 && field.wire == WIRE_BYTES) {
            TRY(read_tensor(field.bytes, value));
        } else if (field.number == 9 && field.wire == WIRE_BYTES) {
            struct proto plugin = find_bytes(find_bytes(field.bytes, 1), 1);
            value->plugin = (const char *)plugin.at;
            value->plugin_bytes = (size_t)(plugin.end - plugin.at);
        }
    }
    return message.at == message.end ? 0 : -1;
}

static int read_summary(struct proto summary, const struct event_value *place,
                        void (*use)(void *owner, const struct event_value *value), void *owner) {
    struct proto_field field;
    while (next_field(&summary, &field)) {
        if (field.number != 1 || field.wire != WIRE_BYTES)
            continue;
        struct event_value value = *place;
        TRY(read_value(field.bytes, &value));
        use(owner, &value);
    }
    return summary.at == summary.end ? 0 : -1;
}

int event_read(const unsigned char *bytes, size_t size, void (*use)(void *owner, const struct event_value *value),
               void *owner) {
    struct event_value place = {0};
    struct proto event = {bytes, bytes + size}, all = event;
    struct proto_field field;
    // The step may follow the summary.
    while (next_field(&all, &field)) {
        if (field.number == 1 && field.wire == WIRE_64)
            place.time = as_double(field.bits);
        else if (field.number == 2 && field.wire == WIRE_VARINT)
            place.step = (int64_t)field.bits;
    }
    if (all.at != all.end)
        return -1;
    for (all = event; next_field(&all, &field);) {
        if (field.number == 5 && field.wire == WIRE_BYTES)
            TRY(read_summary(field.bytes, &place, use, owner));
    }
    return 0;
}

enum event_frame event_frame_check(const unsigned char *bytes, size_t size, uint64_t *length) {
    uint32_t check;
    *length = 0;
    if (size < EVENT_FRAME_HEAD)
        return EVENT_FRAME_PART;
    memcpy(length, bytes, 8);
    memcpy(&check, bytes + 8, 4);
    if (check != crc32c_masked(bytes, 8))
        return EVENT_FRAME_LOST;
    if (*length > size || size - (size_t)*length < EVENT_FRAME_BYTES)
        return EVENT_FRAME_PART;
    memcpy(&check, bytes + EVENT_FRAME_HEAD + *length, 4);
    return check == crc32c_masked(bytes + EVENT_FRAME_HEAD, (size_t)*length) ? EVENT_FRAME_WHOLE : EVENT_FRAME_BAD;
}
