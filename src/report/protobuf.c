// Fields of protocol-buffer messages. Wire type 0 is a varint, 1 eight bytes, 2 a length and as many bytes, 5 four
// bytes.
#include "report/protobuf.h"

#include <string.h>

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
