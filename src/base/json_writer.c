// The JSON writer. Text goes out in runs of plain, well-formed bytes; only bytes between runs are handled one by one.
#include "base/json.h"

#include "base/error.h"
#include "base/json_lex.h"
#include "base/utf8.h"
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void new_line(struct json_writer *w) {
    if (w->indent <= 0)
        return;
    buffer_append_byte(w->out, '\n');
    for (int i = 0; i < w->depth * w->indent; i++)
        buffer_append_byte(w->out, ' ');
}

// Writes the separator before a value or key: a comma, a new line, or nothing after a key.
static void separate(struct json_writer *w) {
    if (w->after_key) {
        w->after_key = false;
        return;
    }
    if (w->need_comma)
        buffer_append_byte(w->out, ',');
    if (w->depth > 0)
        new_line(w);
}

static void begin(struct json_writer *w, char bracket) {
    separate(w);
    buffer_append_byte(w->out, bracket);
    w->depth++;
    w->need_comma = false;
}

static void end(struct json_writer *w, char bracket) {
    CHECK(w->depth > 0 && !w->after_key);
    w->depth--;
    if (w->need_comma)
        new_line(w);
    buffer_append_byte(w->out, bracket);
    w->need_comma = true;
}

void json_begin_object(struct json_writer *w) {
    begin(w, '{');
}

void json_end_object(struct json_writer *w) {
    end(w, '}');
}

void json_begin_array(struct json_writer *w) {
    begin(w, '[');
}

void json_end_array(struct json_writer *w) {
    end(w, ']');
}

// The letter of the short escape of each byte that has one.
static const char short_escape[256] = {
    ['"'] = '"', ['\\'] = '\\', ['\b'] = 'b', ['\f'] = 'f', ['\n'] = 'n', ['\r'] = 'r', ['\t'] = 't',
};

// Writes the escape of a special byte at out, which has room for six; its length.
static size_t put_escape(char *out, unsigned char c) {
    static const char digits[] = "0123456789abcdef";
    char letter = short_escape[c];
    if (letter) {
        out[0] = '\\';
        out[1] = letter;
        return 2;
    }
    memcpy(out, "\\u00", 4);
    out[4] = digits[c >> 4];
    out[5] = digits[c & 15];
    return 6;
}

// Appends a run without special bytes; each maximal ill-formed subpart becomes U+FFFD.
static void append_run(struct buffer *out, const char *run, size_t length) {
    while (length > 0) {
        size_t good = utf8_check(run, length);
        buffer_append(out, run, good);
        run += good;
        length -= good;
        if (length == 0)
            return;
        uint32_t character;
        char bytes[4];
        size_t used = utf8_decode((const unsigned char *)run, length, &character, NULL);
        buffer_append(out, bytes, utf8_encode(character, bytes));
        run += used;
        length -= used;
    }
}

// Text with many short lines asks for room after each.
static inline void make_room(struct buffer *out, size_t bytes) {
    if (out->capacity - out->length <= bytes)
        buffer_reserve(out, bytes);
}

static void append_string(struct json_writer *w, const char *string, size_t length) {
    struct buffer *out = w->out;
    enum { LONGEST_ESCAPE = 6 };
    buffer_append_byte(out, '"');
    while (length > 0) {
        bool has_high = false;
        make_room(out, length + LONGEST_ESCAPE + SCAN_SLACK_BYTES);
        size_t run = scan_copy_plain(out->data + out->length, string, length, &has_high);
        if (has_high && !w->keeps_bytes && utf8_check(string, run) < run)
            append_run(out, string, run);
        else
            out->length += run;
        string += run;
        length -= run;
        if (length > 0) {
            make_room(out, LONGEST_ESCAPE);
            out->length += put_escape(out->data + out->length, (unsigned char)*string);
            string++;
            length--;
        }
    }
    buffer_append_byte(out, '"');
}

void json_key(struct json_writer *w, const char *key) {
    json_key_bytes(w, key, strlen(key));
}

void json_key_bytes(struct json_writer *w, const char *key, size_t length) {
    CHECK(w->depth > 0 && !w->after_key);
    separate(w);
    append_string(w, key, length);
    buffer_append_string(w->out, w->indent > 0 ? ": " : ":");
    w->after_key = true;
    w->need_comma = true;
}

void json_string(struct json_writer *w, const char *string, size_t length) {
    separate(w);
    append_string(w, string, length);
    w->need_comma = true;
}

void json_cstring(struct json_writer *w, const char *string) {
    if (string)
        json_string(w, string, strlen(string));
    else
        json_null(w);
}

static void word(struct json_writer *w, const char *text) {
    separate(w);
    buffer_append_string(w->out, text);
    w->need_comma = true;
}

void json_int(struct json_writer *w, int64_t value) {
    char text[32];
    snprintf(text, sizeof text, "%" PRId64, value);
    word(w, text);
}

void json_number(struct json_writer *w, const char *text) {
    word(w, text);
}

void json_double(struct json_writer *w, double value) {
    char text[40];
    if (!isfinite(value)) {
        json_null(w);
        return;
    }
    // 15 digits always survive a normal double, so a shorter text shows up as zeros that %g drops; below the normal
    // range fewer digits may do.
    int digits = fabs(value) < 0x1p-1022 ? 1 : 15;
    do {
        snprintf(text, sizeof text, "%.*g", digits, value);
    } while (strtod(text, NULL) != value && ++digits <= 17);
    word(w, text);
}

void json_bool(struct json_writer *w, bool value) {
    word(w, value ? "true" : "false");
}

void json_null(struct json_writer *w) {
    word(w, "null");
}

void json_raw(struct json_writer *w, const char *json, size_t length) {
    separate(w);
    buffer_append(w->out, json, length);
    w->need_comma = true;
}

void json_value(struct json_writer *w, const struct json *value) {
    switch (value->type) {
    case JSON_NULL:
        json_null(w);
        break;
    case JSON_FALSE:
    case JSON_TRUE:
        json_bool(w, value->type == JSON_TRUE);
        break;
    case JSON_STRING:
        json_string(w, value->string, value->length);
        break;
    case JSON_NUMBER:
        json_number(w, value->string);
        break;
    case JSON_ARRAY:
        json_begin_array(w);
        for (size_t i = 0; i < value->count; i++)
            json_value(w, &value->items[i]);
        json_end_array(w);
        break;
    case JSON_OBJECT:
        json_begin_object(w);
        for (size_t i = 0; i < value->count; i++) {
            json_key_bytes(w, value->keys[i].string, value->keys[i].length);
            json_value(w, &value->items[i]);
        }
        json_end_object(w);
        break;
    }
}

void json_put_int(struct json_writer *w, const char *key, int64_t value) {
    json_key(w, key);
    json_int(w, value);
}

void json_put_bool(struct json_writer *w, const char *key, bool value) {
    json_key(w, key);
    json_bool(w, value);
}

void json_put_double(struct json_writer *w, const char *key, double value) {
    json_key(w, key);
    json_double(w, value);
}

void json_put_string(struct json_writer *w, const char *key, const char *string) {
    json_key(w, key);
    json_cstring(w, string);
}
