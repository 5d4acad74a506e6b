// JSON, strictly by RFC 8259: UTF-8 without byte order mark, bounded depth, no trailing commas. Errors name line,
// column and byte. There are two readers:
//
//  - json_parse builds a tree in one block of memory, for configuration files, manifests and headers. Of equal keys,
//    the first is found.
//  - json_find_strings walks over one line of JSON Lines and returns selected string members without building anything,
//    for gigabytes of text. It follows Python, which wrote most such files: of equal keys the last counts, and members
//    that were not asked for may contain NaN and Infinity.
//
// Lone surrogates in \u escapes become U+FFFD; \u0000 is legal text, so strings carry their length.
#ifndef BASE_JSON_H
#define BASE_JSON_H

#include "base/buffer.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum json_type { JSON_NULL, JSON_FALSE, JSON_TRUE, JSON_NUMBER, JSON_STRING, JSON_ARRAY, JSON_OBJECT };
// Maximum depth of a tree; and of skipped values in JSON Lines, where Python goes a little further.
enum { JSON_MAX_DEPTH = 64, JSON_MAX_PASSED_DEPTH = 900 };

struct json {
    enum json_type type;
    // Strings: UTF-8, NUL-terminated, may contain NULs. Numbers: their text, for callers that need it exactly.
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

// Parses text into *root. The tree is one allocation, freed by json_free(root) or OWNED. Errors call the text `name`.
int json_parse(struct json **root, const char *text, size_t length, const char *name);
int json_parse_file(struct json **root, const char *path, size_t limit_bytes);
// Parses a file in a folder: a pipe or a device of that name is an error (file_read_own).
int json_parse_own(struct json **root, const char *path, size_t limit_bytes);
void json_free(struct json *root);

// A member of an object by name; NULL if there is none or the value is not an object.
const struct json *json_member(const struct json *object, const char *key);
// A duplicate key of an object in the tree, which programs read differently; NULL if there is none.
const char *json_repeated(const struct json *value);
// Typed members: -1, with a message that names the key, if it is absent, of another type or out of range.
int json_get_int(const struct json *object, const char *key, int64_t *value);
int json_get_double(const struct json *object, const char *key, double *value);
int json_get_string(const struct json *object, const char *key, const char **value);

// One member found in a JSON line.
struct json_text {
    bool found;
    bool is_array;       // the member is an array of strings, which follow each other in text, see lengths
    struct buffer text;  // decoded UTF-8; kept and reused between calls
    size_t *lengths;     // one per string (a single one if the member is a plain string); capacity managed inside
    size_t count, capacity;
    size_t lone_surrogates;  // number of lone surrogates that became U+FFFD in text
    const char *other;       // for any other value, its kind ("null", "a number"), else NULL
};
// Checks that the line is one whole JSON object and decodes the members named by `keys`, strings or arrays of strings,
// into found[0…count). Of equal names the last counts; it is an error if that one has another type. Missing members
// have found
//  false. Frees nothing.
int json_find_strings(const char *line, size_t length, const char *const *keys, struct json_text *found, size_t count);
void json_text_free(struct json_text *text);
// Makes one string of text->text, as if a member had held it.
void json_text_set_whole(struct json_text *text);

// Writer: appends to a buffer. Puts commas and colons where they belong; correct nesting is up to the caller.
struct json_writer {
    struct buffer *out;
    int depth;
    bool need_comma;
    bool after_key;
    int indent;        // spaces per level, 0 for one line
    bool keeps_bytes;  // ill-formed UTF-8 stays as it is
};
void json_begin_object(struct json_writer *w);
void json_end_object(struct json_writer *w);
void json_begin_array(struct json_writer *w);
void json_end_array(struct json_writer *w);
void json_key(struct json_writer *w, const char *key);
void json_key_bytes(struct json_writer *w, const char *key, size_t length);  // may hold a NUL
void json_string(struct json_writer *w, const char *string,
                 size_t length);                               // ill-formed UTF-8 becomes U+FFFD, or see keeps_bytes
void json_cstring(struct json_writer *w, const char *string);  // NULL writes null
void json_int(struct json_writer *w, int64_t value);
void json_number(struct json_writer *w, const char *text);  // verbatim from a parsed file: 1e-05, 2.0
void json_double(struct json_writer *w, double value);      // shortest text that reads back equal; null if not finite
void json_bool(struct json_writer *w, bool value);
void json_null(struct json_writer *w);
void json_raw(struct json_writer *w, const char *json, size_t length);  // a value that is already JSON
void json_value(struct json_writer *w, const struct json *value);       // a parsed value, numbers as they stood
// A key and its value.
void json_put_int(struct json_writer *w, const char *key, int64_t value);
void json_put_bool(struct json_writer *w, const char *key, bool value);
void json_put_double(struct json_writer *w, const char *key, double value);
void json_put_string(struct json_writer *w, const char *key, const char *string);

#endif
