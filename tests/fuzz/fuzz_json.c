// layer: base
// Both JSON readers on the same bytes. A text that parses must be written as a text that parses to an equal tree, with
// and without indentation. The line reader must accept exactly the objects that the tree reader accepts, except for
// requested members of the wrong type, and find the same strings.
#include "fuzz.h"

#include "base/json.h"
#include <math.h>
#include <string.h>

static void write_tree(struct json_writer *w, const struct json *node) {
    switch (node->type) {
    case JSON_NULL:
        json_null(w);
        break;
    case JSON_FALSE:
    case JSON_TRUE:
        json_bool(w, node->type == JSON_TRUE);
        break;
    case JSON_NUMBER:
        json_double(w, node->number);
        break;
    case JSON_STRING:
        json_string(w, node->string, node->length);
        break;
    case JSON_ARRAY:
        json_begin_array(w);
        for (size_t i = 0; i < node->count; i++)
            write_tree(w, &node->items[i]);
        json_end_array(w);
        break;
    case JSON_OBJECT:
        json_begin_object(w);
        for (size_t i = 0; i < node->count; i++) {
            // json_key takes C strings; a key with a NUL in it is written up to there on both sides.
            json_key(w, node->keys[i].string);
            write_tree(w, &node->items[i]);
        }
        json_end_object(w);
        break;
    }
}

static bool is_equal(const struct json *a, const struct json *b) {
    // Numbers beyond the range of a double are written as null.
    if (a->type == JSON_NUMBER && !isfinite(a->number))
        return b->type == JSON_NULL;
    if (a->type != b->type || a->count != b->count)
        return false;
    if (a->type == JSON_NUMBER)
        return a->number == b->number;
    if (a->type == JSON_STRING)
        return a->length == b->length && memcmp(a->string, b->string, a->length) == 0;
    for (size_t i = 0; i < a->count; i++) {
        if (a->type == JSON_OBJECT && strcmp(a->keys[i].string, b->keys[i].string) != 0)
            return false;
        if (!is_equal(&a->items[i], &b->items[i]))
            return false;
    }
    return true;
}

static void check_round_trip(const struct json *root, int indent) {
    struct buffer out = {0};
    struct json_writer writer = {.out = &out, .indent = indent};
    struct json *again;
    write_tree(&writer, root);
    if (json_parse(&again, out.data, out.length, "written") < 0)
        die("what was written does not parse: %s", error_message());
    CHECK(is_equal(root, again));
    json_free(again);
    buffer_free(&out);
}

// Compares the text found with the member of that name in the tree.
static void check_found(const struct json *root, const char *key, const struct json_text *found) {
    const struct json *member = json_member(root, key);
    CHECK(found->found == (member != NULL));
    if (!member)
        return;
    size_t count = found->is_array ? member->count : 1, at = 0;
    CHECK(found->is_array == (member->type == JSON_ARRAY) && found->count == count);
    for (size_t i = 0; i < count; i++) {
        const struct json *item = found->is_array ? &member->items[i] : member;
        CHECK(item->type == JSON_STRING && item->length == found->lengths[i]);
        CHECK(memcmp(item->string, found->text.data + at, item->length) == 0);
        at += item->length;
    }
    CHECK(at == found->text.length);
}

static bool is_wanted_type(const struct json *member) {
    if (!member || member->type == JSON_STRING)
        return true;
    for (size_t i = 0; i < member->count; i++) {
        if (member->items[i].type != JSON_STRING)
            return false;
    }
    return member->type == JSON_ARRAY;
}

// Lines are read as in Python: of equal keys the last counts, and NaN, Infinity and lone surrogates, which the strict
// reader refuses, are allowed. If a line has any of these, the two may differ.
static bool has_text(const char *text, size_t size, const char *part) {
    return size > 0 && memmem(text, size, part, strlen(part)) != NULL;
}

static bool is_plain(const char *text, size_t size) {
    return !has_text(text, size, "NaN") && !has_text(text, size, "Infinity") && !has_text(text, size, "\\u");
}

static bool has_twins(const struct json *root, const char *key) {
    int count = 0;
    for (size_t i = 0; root->type == JSON_OBJECT && i < root->count; i++)
        count += strcmp(root->keys[i].string, key) == 0;
    return count > 1;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const char *const keys[] = {"text", "t"};
    struct json_text found[2] = {0};
    struct json *root;
    // A copy of the exact size, so that a read past the end is detected.
    char *text = malloc(size ? size : 1);
    if (size > 0)
        memcpy(text, data, size);
    bool parses = json_parse(&root, text, size, "input") == 0;
    bool is_line = json_find_strings(text, size, keys, found, 2) == 0;
    if (parses) {
        check_round_trip(root, 0);
        check_round_trip(root, 3);
    }
    bool should_be_line = parses && root->type == JSON_OBJECT && is_wanted_type(json_member(root, "text")) &&
                          is_wanted_type(json_member(root, "t"));
    bool is_comparable = parses ? !has_twins(root, "text") && !has_twins(root, "t") : is_plain(text, size);
    if (is_comparable)
        CHECK(is_line == should_be_line);
    for (int i = 0; is_comparable && is_line && i < 2; i++)
        check_found(root, keys[i], &found[i]);
    json_text_free(&found[0]);
    json_text_free(&found[1]);
    json_free(root);
    free(text);
    return 0;
}
