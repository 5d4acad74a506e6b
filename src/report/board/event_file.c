// Protocol buffers, read by hand. See line_reader.h and, for writing, report/tensorboard.c.
//
//   Event    1 wall_time double · 2 step int64 · 5 summary Summary
//   Summary  1 value Value, repeated
//   Value    1 tag string · 2 simple_value float · 8 tensor TensorProto · 9 metadata SummaryMetadata
//   SummaryMetadata  1 plugin_data { 1 plugin_name string }
//   TensorProto      1 dtype enum · 2 tensor_shape { 2 dim, repeated } · 4 tensor_content bytes · 5 float_val ·
//                    6 double_val · 7 int_val · 8 string_val · 10 int64_val · 11 bool_val · 13 half_val (the bits of
//                    float16 and bfloat16) · 16 uint32_val · 17 uint64_val; numbers are repeated, packed or not
#include "base/error.h"
#include "base/hash.h"
#include "base/memory.h"
#include "base/utf8.h"
#include "report/board/line_reader.h"
#include "report/board/run.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
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
    for (size_t i = 0; i < sizeof elements / sizeof elements[0]; i++)
        if (elements[i].type == type)
            return &elements[i];
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
    while (next_field(&message, &field))
        if (field.number == number && field.wire == WIRE_BYTES)
            return field.bytes;
    return (struct proto){message.end, message.end};
}

static int read_tensor(struct proto tensor, struct event_value *value) {
    struct proto_field field;
    struct proto all = tensor, dimension = find_bytes(find_bytes(tensor, 2), 2);
    uint64_t type = 0, bits = 0;
    int count = 0;
    while (next_field(&all, &field))
        if (field.number == 1 && field.wire == WIRE_VARINT)
            type = field.bits;
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
    for (all = event; next_field(&all, &field);)
        if (field.number == 5 && field.wire == WIRE_BYTES)
            TRY(read_summary(field.bytes, &place, use, owner));
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

// ---- records of a run ----

// Adds records of TensorBoard event files to a run: each tag has a pyramid of its own, because tags are written at
// different steps. A step below the last one of its tag takes the curve back, as in TensorBoard itself.

enum { MOST_EVENT_BYTES = 64 << 20 };

struct event_sink {
    struct board_run *run;
    uint32_t file;
    uint64_t begin, end;  // of the record
    const struct run_again *again;
    int tag;  // the tag that is read again
};

static bool is_plugin(const struct event_value *value, const char *name) {
    return value->plugin_bytes == strlen(name) && memcmp(value->plugin, name, value->plugin_bytes) == 0;
}

// Writers name the plugin of a tag at its first value at least. Without one, numbers are scalars.
static enum run_tag_kind kind_of(const struct event_value *value) {
    if (value->kind == EVENT_SCALAR && (value->plugin_bytes == 0 || is_plugin(value, "scalars")))
        return RUN_TAG_CURVE;
    return value->kind == EVENT_TEXT && is_plugin(value, "text") ? RUN_TAG_TEXT : RUN_TAG_OTHER;
}

// A tag of a file may have zeros inside.
static bool has_tag(const struct event_value *value, const char *name) {
    return value->tag && strlen(name) == value->tag_bytes && memcmp(name, value->tag, value->tag_bytes) == 0;
}

// Most writers repeat their tags in the same order, so the search begins after the last one.
static int find_tag(struct board_run *run, const struct event_value *value) {
    for (int i = 0; i < run->tag_count; i++) {
        int at = run->last_tag + 1 + i;
        at -= at >= run->tag_count ? run->tag_count : 0;
        if (has_tag(value, run->tags[at].name)) {
            run->last_tag = at;
            return at;
        }
    }
    return -1;
}

static int add_tag(struct board_run *run, const struct event_value *value) {
    if (run->tag_count == RUN_MOST_TAGS || value->tag_bytes == 0 || value->tag_bytes > RUN_MOST_TAG_BYTES ||
        memchr(value->tag, '\0', value->tag_bytes) || utf8_check(value->tag, value->tag_bytes) < value->tag_bytes)
        return -1;
    struct run_tag tag = {.kind = kind_of(value), .name = memory_alloc(value->tag_bytes + 1)};
    memcpy(tag.name, value->tag, value->tag_bytes);
    if (tag.kind == RUN_TAG_CURVE) {
        tag.group = run_add_group(run, NULL);
        tag.column = pyramid_add_column(&run->groups[tag.group].pyramid);
    }
    run->tags[run->tag_count] = tag;
    run->last_tag = run->tag_count;
    return run->tag_count++;
}

static bool is_step(int64_t step) {
    return step >= 0 && step < LINE_MOST_ITERATION;
}

static void note_value(struct board_run *run, const struct event_value *value) {
    struct run_summary *summary = &run->summary;
    if (!isfinite(value->time) || value->time <= 0)
        return;
    double distance = value->time - summary->updated;
    // Tags of one step are adjacent; the pauses between them are the time between steps.
    if (summary->updated > 0 && distance > 0.01)
        summary->distance = summary->distance > 0 ? 0.9 * summary->distance + 0.1 * distance : distance;
    if (summary->started == 0)
        summary->started = value->time;
    if (value->time > summary->updated)
        summary->updated = value->time;
}

static struct pyramid_place place_of(const struct event_sink *sink, const struct event_value *value) {
    return (struct pyramid_place){.step = value->step,
                                  .time = isfinite(value->time) ? value->time : 0,
                                  .begin = sink->begin,
                                  .end = sink->end,
                                  .file = sink->file};
}

static void use_value(void *owner, const struct event_value *value) {
    struct event_sink *sink = owner;
    struct board_run *run = sink->run;
    int tag = is_step(value->step) && value->tag ? find_tag(run, value) : -1;
    if (tag < 0 && is_step(value->step) && value->tag)
        tag = add_tag(run, value);
    if (tag < 0)
        return;
    note_value(run, value);
    if (run->tags[tag].kind == RUN_TAG_TEXT && value->kind == EVENT_TEXT) {
        struct run_mark mark = {.begin = sink->begin,
                                .bytes = (uint32_t)(sink->end - sink->begin),
                                .file = sink->file,
                                .step = value->step,
                                .time = value->time};
        run_add_mark(run, RUN_MARK_TEXT, &mark);
    }
    if (run->tags[tag].kind != RUN_TAG_CURVE || value->kind != EVENT_SCALAR)
        return;
    int group = run->tags[tag].group;
    struct pyramid *pyramid = &run->groups[group].pyramid;
    if (value->step < pyramid_last_step(pyramid))
        run_cut(run, group, value->step - 1);
    struct pyramid_place place = place_of(sink, value);
    pyramid_add(pyramid, &place);
    pyramid_value(pyramid, run->tags[tag].column, value->number);
}

size_t run_read_events(struct board_run *run, int file, const char *bytes, size_t size) {
    const unsigned char *at = (const unsigned char *)bytes;
    struct run_file *place = &run->files[file];
    size_t done = 0;
    for (;;) {
        uint64_t length = 0;
        enum event_frame frame = event_frame_check(at + done, size - done, &length);
        if (frame == EVENT_FRAME_LOST || (frame == EVENT_FRAME_PART && length > MOST_EVENT_BYTES)) {
            place->is_lost = true;
            run->bad_lines++;
            return done;
        }
        if (frame == EVENT_FRAME_PART)
            return done;
        struct event_sink sink = {.run = run, .file = (uint32_t)file, .begin = place->offset + done};
        sink.end = sink.begin + EVENT_FRAME_BYTES + length;
        if (frame == EVENT_FRAME_BAD || event_read(at + done + EVENT_FRAME_HEAD, (size_t)length, use_value, &sink) < 0)
            run->bad_lines++;
        run->line_count++;
        done += EVENT_FRAME_BYTES + (size_t)length;
    }
}

static void use_again(void *owner, const struct event_value *value) {
    struct event_sink *sink = owner;
    const struct run_again *again = sink->again;
    if (value->kind != EVENT_SCALAR || !has_tag(value, sink->run->tags[sink->tag].name))
        return;
    if (value->step < again->bin->first_step || value->step > again->last_step)
        return;
    struct pyramid_bin torn;
    if (value->step < pyramid_last_step(again->into))
        (void)pyramid_cut(again->into, value->step - 1, &torn);
    struct pyramid_place place = place_of(sink, value);
    pyramid_add(again->into, &place);
    pyramid_value(again->into, again->column_of[sink->tag], value->number);
}

void run_events_again(struct board_run *run, const struct run_again *again, const char *bytes, size_t size) {
    const unsigned char *at = (const unsigned char *)bytes;
    struct event_sink sink = {.run = run, .file = again->bin->last.file, .again = again, .tag = -1};
    for (int i = 0; i < run->tag_count; i++)
        if (run->tags[i].kind == RUN_TAG_CURVE && run->tags[i].group == again->group && again->column_of[i] >= 0)
            sink.tag = i;
    size_t done = 0;
    while (sink.tag >= 0 && done < size) {
        uint64_t length = 0;
        enum event_frame frame = event_frame_check(at + done, size - done, &length);
        if (frame == EVENT_FRAME_LOST || frame == EVENT_FRAME_PART)
            return;
        sink.begin = again->bin->last.begin + done;
        sink.end = sink.begin + EVENT_FRAME_BYTES + length;
        if (frame == EVENT_FRAME_WHOLE)
            (void)event_read(at + done + EVENT_FRAME_HEAD, (size_t)length, use_again, &sink);
        done += EVENT_FRAME_BYTES + (size_t)length;
    }
}
