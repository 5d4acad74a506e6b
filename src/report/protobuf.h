// Protocol buffers by hand: a message is a run of fields, each a varint (number << 3 | wire type) and its value.
// Internal to this folder.
#ifndef REPORT_PROTOBUF_H
#define REPORT_PROTOBUF_H

#include "base/buffer.h"
#include <stdint.h>

void protobuf_int(struct buffer *out, uint32_t field, int64_t value);
void protobuf_double(struct buffer *out, uint32_t field, double value);
void protobuf_float(struct buffer *out, uint32_t field, float value);
void protobuf_bytes(struct buffer *out, uint32_t field, const void *bytes, size_t length);
void protobuf_string(struct buffer *out, uint32_t field, const char *string);
// Puts a finished message into a field of another and frees it.
void protobuf_message(struct buffer *out, uint32_t field, struct buffer *message);

#endif
