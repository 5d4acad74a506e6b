// A slice of text owned by someone else, and small helpers of the wiki passes for it.
#ifndef DATA_EXTRACT_WIKI_SLICE_H
#define DATA_EXTRACT_WIKI_SLICE_H

#include "base/buffer.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <strings.h>

struct wiki_slice {
    const char *data;
    size_t length;
};

static inline struct wiki_slice wiki_slice_of(const char *string) {
    return (struct wiki_slice){string, strlen(string)};
}

static inline bool wiki_is_blank(char byte) {
    return byte == ' ' || byte == '\n' || byte == '\t' || byte == '\r';
}

// ASCII letters in another case.
static inline char wiki_lower(char byte) {
    return byte >= 'A' && byte <= 'Z' ? (char)(byte - 'A' + 'a') : byte;
}

static inline char wiki_upper(char byte) {
    return byte >= 'a' && byte <= 'z' ? (char)(byte - 'a' + 'A') : byte;
}

static inline struct wiki_slice wiki_trim(struct wiki_slice text) {
    while (text.length && wiki_is_blank(text.data[0]))
        text = (struct wiki_slice){text.data + 1, text.length - 1};
    while (text.length && wiki_is_blank(text.data[text.length - 1]))
        text.length--;
    return text;
}

static inline bool wiki_equal(struct wiki_slice text, const char *string) {
    return text.length == strlen(string) && memcmp(text.data, string, text.length) == 0;
}

// Ignores the case of ASCII letters.
static inline bool wiki_equal_case(struct wiki_slice text, const char *string) {
    return text.length == strlen(string) && strncasecmp(text.data, string, text.length) == 0;
}

static inline bool wiki_begins(struct wiki_slice text, const char *string) {
    size_t length = strlen(string);
    return text.length >= length && memcmp(text.data, string, length) == 0;
}

// The value of up to nine digits; -1 if the text is anything else.
static inline int64_t wiki_small_number(struct wiki_slice text) {
    int64_t value = text.length > 0 && text.length <= 9 ? 0 : -1;
    for (size_t i = 0; i < text.length && value >= 0; i++)
        value = text.data[i] >= '0' && text.data[i] <= '9' ? 10 * value + (text.data[i] - '0') : -1;
    return value;
}

static inline void wiki_append(struct buffer *out, struct wiki_slice text) {
    buffer_append(out, text.data, text.length);
}

#endif
