// Shapes of text. See text_shape.h. Prose must never be taken for one of them: a wrong guess would refuse it.
#include "data/extract/text_shape.h"
#include "base/utf8.h"
#include <ctype.h>
#include <stdint.h>
#include <string.h>
#include <strings.h>

// The first byte that is neither white space nor a byte order mark.
static size_t skip_blanks(const char *text, size_t length, size_t at) {
    if (at == 0 && length >= 3 && memcmp(text, "\xEF\xBB\xBF", 3) == 0)
        at = 3;
    while (at < length && memchr(" \t\r\n", text[at], 4))
        at++;
    return at;
}

bool text_shape_has_zeros(const char *text, size_t length) {
    return length > 0 && memchr(text, 0, length);
}

bool text_shape_is_html(const char *text, size_t length) {
    static const char *const tags[] = {"<!doctype html", "<html", "<head>", "<body"};
    size_t at = skip_blanks(text, length, 0);
    for (size_t i = 0; i < sizeof tags / sizeof tags[0]; i++)
        if (length - at > strlen(tags[i]) && strncasecmp(text + at, tags[i], strlen(tags[i])) == 0)
            return true;
    return false;
}

bool text_shape_is_object(const char *text, size_t length) {
    size_t at = skip_blanks(text, length, 0);
    if (at == length || text[at] != '{')
        return false;
    at = skip_blanks(text, length, at + 1);
    return at < length && (text[at] == '"' || text[at] == '}');
}

bool text_shape_is_array(const char *text, size_t length) {
    size_t at = skip_blanks(text, length, 0);
    if (at == length || text[at] != '[')
        return false;
    at = skip_blanks(text, length, at + 1);
    return text_shape_is_object(text + at, length - at);
}

// ---- tables ----

// The end of the record that begins at `at`, which is cut into fields as in RFC 4180: quotes hide separators and line
// ends. SIZE_MAX if its end is not within the text.
static size_t end_of_record(const char *text, size_t length, size_t at, char separator, int *fields) {
    bool is_quoted = false;
    *fields = 1;
    for (; at < length; at++) {
        is_quoted = is_quoted != (text[at] == '"');
        *fields += !is_quoted && text[at] == separator;
        if (!is_quoted && text[at] == '\n')
            return at;
    }
    return SIZE_MAX;
}

// A name of a column has letters or digits at both ends and at most 40 bytes, so no space follows a comma as in prose.
static bool is_header(const char *text, size_t length, char separator) {
    enum { MOST_BYTES = 40 };
    while (length > 0 && text[length - 1] == '\r')
        length--;
    for (size_t at = 0, end; at <= length; at = end + 1) {
        const char *next = memchr(text + at, separator, length - at);
        end = next ? (size_t)(next - text) : length;
        if (end == at || end - at > MOST_BYTES)
            return false;
        const unsigned char first = (unsigned char)text[at], last = (unsigned char)text[end - 1];
        if (!(isalnum(first) || strchr("_\"#", first)) || !(isalnum(last) || strchr("_\")?", last)))
            return false;
    }
    return true;
}

static bool is_table(const char *text, size_t length, char separator) {
    enum { LEAST_RECORDS = 3 };
    size_t begin = skip_blanks(text, length, 0), at = begin, end;
    int records = 0, columns = 0, fields;
    for (; at < length && (end = end_of_record(text, length, at, separator, &fields)) != SIZE_MAX; at = end + 1) {
        if (records++ == 0)
            columns = fields;
        if (fields != columns || columns < 2 || (records == 1 && !is_header(text + at, end - at, separator)))
            return false;
    }
    return records >= LEAST_RECORDS;
}

bool text_shape_is_csv(const char *text, size_t length) {
    return is_table(text, length, ',');
}

bool text_shape_is_tsv(const char *text, size_t length) {
    return is_table(text, length, '\t');
}

// ---- bytes ----

bool text_shape_is_garbled(const char *text, size_t length) {
    enum { LEAST_BYTES = 64 };
    size_t bad = 0;
    for (size_t at = 0; at < length; at++) {
        uint32_t character;
        bool is_valid;
        size_t bytes = utf8_decode((const unsigned char *)text + at, length - at, &character, &is_valid);
        bad += !is_valid || (character < ' ' && !isspace((int)character) && character != '\b' && character != 0x1B);
        at += bytes - 1;
    }
    return length >= LEAST_BYTES && bad > length / 4;
}
