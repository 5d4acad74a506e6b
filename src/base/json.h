// JSON, strictly RFC 8259: UTF-8 without byte order mark, bounded depth, no trailing commas. Errors name line, column
// and byte. Two readers:
//
//  - json_parse builds a tree in one block of memory, for configuration files, manifests and headers; the first of
//    equal keys is found;
//  - json_find_strings walks one line of JSON Lines and hands out chosen string members without building anything,
//    for gigabytes of text. Here it follows Python, which made most of them: the last of equal keys counts, and members
//    that nobody asked for may hold NaN and Infinity.
//
// Lone surrogates in \u escapes become U+FFFD; \u0000 is legal text, so strings carry their length.
#ifndef BASE_JSON_H
#define BASE_JSON_H

#include "base/buffer.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum json_type { JSON_NULL, JSON_FALSE, JSON_TRUE, JSON_NUMBER, JSON_STRING, JSON_ARRAY, JSON_OBJECT };
// Of what is kept as a tree; and of what is only passed over in JSON Lines, where Python goes a little further.
enum { JSON_MAX_DEPTH = 64, JSON_MAX_PASSED_DEPTH = 900 };

struct json {
    enum json_type type;
    // Strings: UTF-8, NUL-terminated, may hold NULs. Numbers: their text, for those who want it exactly.
    const char *string;
    size_t length;
    double number;
    // Members of arrays and objects, in the order of the file.
    struct json *items;
    const struct json_key {
        const char *string;
        size_t length;
    } * keys;  // objects only
    size_t count;
};

// Parses text into *root. The tree lives in one allocation, freed by json_free(root). `name` is what errors call the
// text.
int json_parse(struct json **root, const char *text, size_t length, const char *name);
int json_parse_file(struct json **root, const char *path, size_t limit_bytes);
void json_free(struct json *root);

// Member of an object by name, NULL where there is none or the value is no object.
const struct json *json_member(const struct json *object, const char *key);
// Typed members: -1 with a message naming the key where absent or of another type or out of range.
int json_get_int(const struct json *object, const char *key, int64_t *value);
int json_get_double(const struct json *object, const char *key, double *value);
int json_get_string(const struct json *object, const char *key, const char **value);

// One found member of a JSON line.
struct json_text {
    bool found;
    bool is_array;       // the member is an array of strings; they stand in text one after another, see lengths
    struct buffer text;  // decoded UTF-8; kept and reused between calls
    size_t *lengths;     // one per string (one where the member is a plain string); capacity managed inside
    size_t count, capacity;
    size_t lone_surrogates;  // that became U+FFFD in text
    const char *other;       // what the member is where it is neither ("null", "a number"), else NULL
};
// Checks that line is one whole JSON object and decodes the string (or array of strings) members named by keys into
// found[0…count). Of equal names the last counts; if it is of another type, that is an error. Missing ones have found =
// false. Frees nothing.
int json_find_strings(const char *line, size_t length, const char *const *keys, struct json_text *found, size_t count);
void json_text_free(struct json_text *text);

// Writer: appends to a buffer. Commas and colons are put where they belong; nesting is the caller's.
struct json_writer {
    struct buffer *out;
    int depth;
    bool need_comma;
    bool after_key;
    int indent;  // spaces per level, 0 for one line
};
void json_begin_object(struct json_writer *w);
void json_end_object(struct json_writer *w);
void json_begin_array(struct json_writer *w);
void json_end_array(struct json_writer *w);
void json_key(struct json_writer *w, const char *key);
void json_string(struct json_writer *w, const char *string, size_t length);  // ill-formed UTF-8 becomes U+FFFD
void json_cstring(struct json_writer *w, const char *string);                // NULL writes null
void json_int(struct json_writer *w, int64_t value);
void json_double(struct json_writer *w, double value);  // shortest text that reads back the same; null where not finite
void json_bool(struct json_writer *w, bool value);
void json_null(struct json_writer *w);

#endif
