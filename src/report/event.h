// One TensorBoard event as bytes: a protocol-buffer Event in a TFRecord frame. Internal to this folder, and separate
// from the file so that the bytes can be tested.
#ifndef REPORT_EVENT_H
#define REPORT_EVENT_H

#include "base/buffer.h"
#include <stdint.h>

struct event_place {
    double wall_seconds;
    int64_t step;
};

// Each appends one framed record. The version record must be the first of a file.
void event_version(struct buffer *out, double wall_seconds);
void event_scalar(struct buffer *out, struct event_place place, const char *tag, double value);
void event_text(struct buffer *out, struct event_place place, const char *tag, const char *text);

// Protocol buffers by hand: a message is a run of fields, each a varint (number << 3 | wire type) and its value.
// Internal to this folder.
void protobuf_int(struct buffer *out, uint32_t field, int64_t value);
void protobuf_double(struct buffer *out, uint32_t field, double value);
void protobuf_float(struct buffer *out, uint32_t field, float value);
void protobuf_bytes(struct buffer *out, uint32_t field, const void *bytes, size_t length);
void protobuf_string(struct buffer *out, uint32_t field, const char *string);
// Puts a finished message into a field of another and frees it.
void protobuf_message(struct buffer *out, uint32_t field, struct buffer *message);

#endif
