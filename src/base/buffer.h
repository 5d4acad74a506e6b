// A growing array of bytes, always followed by a NUL so that it can be used as a string. A zeroed buffer is empty and
// valid. If it cannot grow, it calls die(): buffers hold text and small things; bulk data is allocated elsewhere, with
// checks.
#ifndef BASE_BUFFER_H
#define BASE_BUFFER_H

#include <stddef.h>

struct buffer {
    char *data;
    size_t length;
    size_t capacity;
};

void buffer_free(struct buffer *buffer);
void buffer_clear(struct buffer *buffer);
void buffer_reserve(struct buffer *buffer, size_t extra_bytes);
void buffer_append(struct buffer *buffer, const void *bytes, size_t length);
void buffer_append_string(struct buffer *buffer, const char *string);
void buffer_append_byte(struct buffer *buffer, char byte);
void buffer_printf(struct buffer *buffer, const char *format, ...) __attribute__((format(printf, 2, 3)));
// Appends UTF-8 text, each maximal ill-formed part of which becomes one U+FFFD.
void buffer_append_repaired(struct buffer *buffer, const char *text, size_t length);
const char *buffer_string(const struct buffer *buffer);  // never NULL

#endif
