// A growing run of bytes. Invariant: data is NULL, or data[length] is NUL and length < capacity.
#include "base/buffer.h"

#include "base/error.h"
#include "base/memory.h"
#include "base/utf8.h"
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SMALLEST_CAPACITY = 64 };

void buffer_free(struct buffer *buffer) {
    free(buffer->data);
    *buffer = (struct buffer){0};
}

void buffer_clear(struct buffer *buffer) {
    buffer->length = 0;
    if (buffer->data)
        buffer->data[0] = '\0';
}

void buffer_reserve(struct buffer *buffer, size_t extra_bytes) {
    size_t needed;
    if (!size_add(buffer->length, extra_bytes, &needed) || !size_add(needed, 1, &needed))
        die("a buffer of %zu bytes cannot grow by %zu", buffer->length, extra_bytes);
    if (needed <= buffer->capacity)
        return;
    size_t capacity = buffer->capacity < SMALLEST_CAPACITY ? SMALLEST_CAPACITY : buffer->capacity;
    if (!size_add(capacity, capacity / 2, &capacity) || capacity < needed)
        capacity = needed;
    buffer->data = memory_realloc(buffer->data, capacity);
    buffer->capacity = capacity;
    buffer->data[buffer->length] = '\0';
}

void buffer_append(struct buffer *buffer, const void *bytes, size_t length) {
    buffer_reserve(buffer, length);
    if (length > 0)
        memcpy(buffer->data + buffer->length, bytes, length);
    buffer->length += length;
    buffer->data[buffer->length] = '\0';
}

void buffer_append_string(struct buffer *buffer, const char *string) {
    buffer_append(buffer, string, strlen(string));
}

void buffer_append_byte(struct buffer *buffer, char byte) {
    buffer_append(buffer, &byte, 1);
}

void buffer_printf(struct buffer *buffer, const char *format, ...) {
    va_list arguments, again;
    va_start(arguments, format);
    va_copy(again, arguments);
    buffer_reserve(buffer, SMALLEST_CAPACITY);
    size_t room = buffer->capacity - buffer->length;
    int length = vsnprintf(buffer->data + buffer->length, room, format, arguments);
    va_end(arguments);
    CHECK(length >= 0);
    if ((size_t)length >= room) {
        buffer_reserve(buffer, (size_t)length);
        vsnprintf(buffer->data + buffer->length, (size_t)length + 1, format, again);
    }
    va_end(again);
    buffer->length += (size_t)length;
}

const char *buffer_string(const struct buffer *buffer) {
    return buffer->data ? buffer->data : "";
}

void buffer_append_repaired(struct buffer *buffer, const char *text, size_t length) {
    for (size_t at = 0; at < length;) {
        size_t good = utf8_check(text + at, length - at);
        buffer_append(buffer, text + at, good);
        at += good;
        if (at < length) {
            uint32_t character;
            at += utf8_decode((const unsigned char *)text + at, length - at, &character, NULL);
            buffer_append_string(buffer, "\xEF\xBF\xBD");
        }
    }
}
