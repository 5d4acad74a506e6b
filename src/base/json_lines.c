// Reads selected string members from one line of JSON Lines, without a tree. The whole line is checked; members that
// were not asked for are skipped.
#include "base/json.h"

#include "base/error.h"
#include "base/json_lex.h"
#include "base/memory.h"
#include <stdlib.h>
#include <string.h>

struct member_search {
    struct json_lexer lexer;
    const char *const *keys;
    struct json_text *found;
    size_t count;
};

// Index of the requested key with this name, `count` if there is none.
static size_t asked_for(const struct member_search *s, const char *name, size_t length) {
    for (size_t i = 0; i < s->count; i++) {
        if (strlen(s->keys[i]) == length && memcmp(s->keys[i], name, length) == 0)
            return i;
    }
    return s->count;
}

// Passes a key and its colon.
static bool read_key(struct member_search *s, size_t *which) {
    struct json_lexer *lexer = &s->lexer;
    size_t decoded;
    if (json_lex_peek(lexer) != '"')
        return json_lex_fail(lexer, lexer->at, "no key; keys are strings in double quotes");
    size_t opening = lexer->at;
    if (!json_lex_string(lexer, NULL, &decoded))
        return false;
    if (lexer->at - opening - 2 == decoded) {
        *which = asked_for(s, lexer->text + opening + 1, decoded);
    } else {
        // Keys with escapes are rare enough for a buffer of their own.
        struct json_lexer again = {.text = lexer->text, .length = lexer->length, .at = opening};
        char *name = memory_alloc(decoded + JSON_SLACK_BYTES);
        json_lex_string(&again, name, &decoded);
        *which = asked_for(s, name, decoded);
        free(name);
    }
    return json_lex_expect(lexer, ':', "no colon after a key");
}

static bool read_string(struct json_lexer *lexer, struct json_text *into) {
    size_t decoded;
    MEMORY_GROW(into->lengths, into->count, into->capacity);
    buffer_reserve(&into->text, lexer->length - lexer->at + JSON_SLACK_BYTES);
    if (!json_lex_string(lexer, into->text.data + into->text.length, &decoded))
        return false;
    into->text.length += decoded;
    into->text.data[into->text.length] = '\0';
    into->lengths[into->count++] = decoded;
    return true;
}

static bool read_strings(struct json_lexer *lexer, struct json_text *into) {
    size_t opening = lexer->at++;
    into->is_array = true;
    if (json_lex_peek(lexer) == ']') {
        lexer->at++;
        return true;
    }
    for (;;) {
        if (json_lex_peek(lexer) != '"') {
            into->other = "an array of something else than strings";
            lexer->at = opening;
            return json_walk_value(lexer, NULL, 1);
        }
        if (!read_string(lexer, into))
            return false;
        int mark = json_lex_peek(lexer);
        if (mark != ',' && mark != ']')
            return json_lex_fail(lexer, lexer->at, "neither comma nor ] after a value");
        lexer->at++;
        if (mark == ']')
            return true;
    }
}

static const char *name_type(int first) {
    switch (first) {
    case 'n':
        return "null";
    case 't':
    case 'f':
        return "a truth value";
    case '{':
        return "an object";
    default:
        return "a number";
    }
}

static void clear(struct json_text *text) {
    text->other = NULL;
    text->found = text->is_array = false;
    text->count = text->lone_surrogates = 0;
    buffer_clear(&text->text);
}

static bool read_member(struct member_search *s) {
    struct json_lexer *lexer = &s->lexer;
    size_t which = s->count;
    if (!read_key(s, &which))
        return false;
    if (which == s->count)
        return json_walk_value(lexer, NULL, 1);
    struct json_text *into = &s->found[which];
    // The last of equal names in a line wins, as in Python.
    clear(into);
    into->found = true;
    size_t before = lexer->lone_surrogates;
    bool is_read = false;
    int first = json_lex_peek(lexer);
    if (first == '"') {
        is_read = read_string(lexer, into);
    } else if (first == '[') {
        is_read = read_strings(lexer, into);
    } else {
        into->other = name_type(first);
        is_read = json_walk_value(lexer, NULL, 1);
    }
    into->lone_surrogates = lexer->lone_surrogates - before;
    return is_read;
}

static bool read_object(struct member_search *s) {
    struct json_lexer *lexer = &s->lexer;
    if (!json_lex_start(lexer) || !json_lex_expect(lexer, '{', "not an object; every line is one JSON object"))
        return false;
    if (json_lex_peek(lexer) == '}') {
        lexer->at++;
        return json_lex_end(lexer);
    }
    for (;;) {
        if (!read_member(s))
            return false;
        int mark = json_lex_peek(lexer);
        if (mark != ',' && mark != '}')
            return json_lex_fail(lexer, lexer->at, "neither comma nor } after a member");
        lexer->at++;
        if (mark == '}')
            return json_lex_end(lexer);
    }
}

int json_find_strings(const char *line, size_t length, const char *const *keys, struct json_text *found, size_t count) {
    struct member_search search = {
        .lexer = {.text = line, .length = length, .has_python_numbers = true},
        .keys = keys,
        .found = found,
        .count = count,
    };
    for (size_t i = 0; i < count; i++)
        clear(&found[i]);
    if (read_object(&search)) {
        for (size_t i = 0; i < count; i++)
            if (found[i].other)
                return error_set_code(EXIT_CODE_BAD_DATA, "valid JSON, but \"%s\" is %s, not a string%s", keys[i],
                                      found[i].other,
                                      strcmp(found[i].other, "null") == 0 ? "; drop such lines: jq -c 'select(.text)', "
                                                                            "with the name of the member"
                                                                          : "");
        return 0;
    }
    return error_set_code(EXIT_CODE_BAD_DATA, "not a valid JSON line: byte %zu of %zu: %s", search.lexer.problem_at,
                          length, search.lexer.problem);
}

void json_text_set_whole(struct json_text *text) {
    if (text->capacity == 0) {
        text->capacity = 1;
        text->lengths = memory_realloc(text->lengths, sizeof *text->lengths);
    }
    text->lengths[0] = text->text.length;
    text->count = 1;
    text->found = true;
}

void json_text_free(struct json_text *text) {
    buffer_free(&text->text);
    free(text->lengths);
    *text = (struct json_text){0};
}
