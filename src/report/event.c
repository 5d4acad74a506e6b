// TensorBoard's events. Only fields that TensorBoard reads are written:
//
//   Event    1 wall_time double · 2 step int64 · 3 file_version string · 5 summary Summary
//   Summary  1 value Value, repeated
//   Value    1 tag string · 2 simple_value float · 8 tensor TensorProto · 9 metadata SummaryMetadata
//   SummaryMetadata  1 plugin_data { 1 plugin_name string }
//   TensorProto      1 dtype enum (7 string) · 2 tensor_shape { 2 dim { 1 size int64 } } · 8 string_val bytes, repeated
//
// The frame: u64 length, masked CRC-32C of those 8 bytes, the event, masked CRC-32C of the event; little-endian.
#include "report/event.h"

#include "base/hash.h"
#include <string.h>

// ---- fields of messages ----

// Wire type 0 is a varint, 1 eight bytes, 2 a length and as many bytes, 5 four
// bytes.

enum { WIRE_VARINT = 0, WIRE_64 = 1, WIRE_BYTES = 2, WIRE_32 = 5 };

static void put_varint(struct buffer *out, uint64_t value) {
    for (; value >= 0x80; value >>= 7)
        buffer_append_byte(out, (char)(0x80 | (value & 0x7f)));
    buffer_append_byte(out, (char)value);
}

static void put_key(struct buffer *out, uint32_t field, uint32_t wire) {
    put_varint(out, field << 3 | wire);
}

void protobuf_int(struct buffer *out, uint32_t field, int64_t value) {
    put_key(out, field, WIRE_VARINT);
    put_varint(out, (uint64_t)value);
}

void protobuf_double(struct buffer *out, uint32_t field, double value) {
    put_key(out, field, WIRE_64);
    buffer_append(out, &value, 8);
}

void protobuf_float(struct buffer *out, uint32_t field, float value) {
    put_key(out, field, WIRE_32);
    buffer_append(out, &value, 4);
}

void protobuf_bytes(struct buffer *out, uint32_t field, const void *bytes, size_t length) {
    put_key(out, field, WIRE_BYTES);
    put_varint(out, length);
    buffer_append(out, bytes, length);
}

void protobuf_string(struct buffer *out, uint32_t field, const char *string) {
    protobuf_bytes(out, field, string, strlen(string));
}

void protobuf_message(struct buffer *out, uint32_t field, struct buffer *message) {
    protobuf_bytes(out, field, buffer_string(message), message->length);
    buffer_free(message);
}

// ---- events ----

// Frames a finished event and frees it.
static void put_record(struct buffer *out, struct buffer *event) {
    uint64_t length = event->length;
    uint32_t length_check = crc32c_masked(&length, sizeof length);
    uint32_t event_check = crc32c_masked(event->data, event->length);
    buffer_append(out, &length, sizeof length);
    buffer_append(out, &length_check, sizeof length_check);
    buffer_append(out, event->data, event->length);
    buffer_append(out, &event_check, sizeof event_check);
    buffer_free(event);
}

void event_version(struct buffer *out, double wall_seconds) {
    struct buffer event = {0};
    protobuf_double(&event, 1, wall_seconds);
    protobuf_string(&event, 3, "brain.Event:2");
    put_record(out, &event);
}

// Wraps a Value into a Summary into an Event into a frame.
static void put_value(struct buffer *out, struct event_place place, struct buffer *value) {
    struct buffer summary = {0}, event = {0};
    protobuf_message(&summary, 1, value);
    protobuf_double(&event, 1, place.wall_seconds);
    // Readers assume zero for a missing number; leaving it out is the canonical form.
    if (place.step != 0)
        protobuf_int(&event, 2, place.step);
    protobuf_message(&event, 5, &summary);
    put_record(out, &event);
}

void event_scalar(struct buffer *out, struct event_place place, const char *tag, double value) {
    struct buffer message = {0};
    protobuf_string(&message, 1, tag);
    protobuf_float(&message, 2, (float)value);
    put_value(out, place, &message);
}

void event_text(struct buffer *out, struct event_place place, const char *tag, const char *text) {
    struct buffer dimension = {0}, shape = {0}, tensor = {0}, plugin = {0}, metadata = {0}, message = {0};
    protobuf_int(&dimension, 1, 1);
    protobuf_message(&shape, 2, &dimension);
    protobuf_int(&tensor, 1, 7);
    protobuf_message(&tensor, 2, &shape);
    protobuf_string(&tensor, 8, text);
    protobuf_string(&plugin, 1, "text");
    protobuf_message(&metadata, 1, &plugin);
    protobuf_string(&message, 1, tag);
    protobuf_message(&message, 8, &tensor);
    protobuf_message(&message, 9, &metadata);
    put_value(out, place, &message);
}
