// One walk over a JSON value: the grammar of values, arrays and objects. Recursion is bounded by JSON_MAX_DEPTH,
// or JSON_MAX_PASSED_DEPTH.
#include "base/json_walk.h"

#include "base/json.h"
#include "base/memory.h"
#include <string.h>

static void measure_text(struct json_measure *measure, size_t bytes) {
    if (measure)
        measure->text_bytes += bytes + 1;
}

// Reserves the place of a container's count; returns it.
static size_t open_container(struct json_measure *measure) {
    if (!measure)
        return 0;
    if (measure->containers == measure->capacity) {
        measure->capacity = measure->capacity ? 2 * measure->capacity : 64;
        measure->members = memory_realloc(measure->members, measure->capacity * sizeof *measure->members);
    }
    return measure->containers++;
}

static bool walk_key(struct json_lexer *lexer, struct json_measure *measure) {
    size_t bytes;
    if (json_lex_peek(lexer) != '"')
        return json_lex_fail(lexer, lexer->at, "no key; keys are strings in double quotes");
    if (!json_lex_string(lexer, NULL, &bytes))
        return false;
    if (measure)
        measure->keys++;
    measure_text(measure, bytes);
    return json_lex_expect(lexer, ':', "no colon after a key");
}

// An array or an object, from its opening bracket to its closing one.
static bool walk_container(struct json_lexer *lexer, struct json_measure *measure, int depth) {
    bool is_object = lexer->text[lexer->at] == '{';
    char closing = is_object ? '}' : ']';
    if (depth >= (measure ? JSON_MAX_DEPTH : JSON_MAX_PASSED_DEPTH))
        return json_lex_fail(lexer, lexer->at,
                             measure ? "arrays and objects nested more than 64 levels deep"
                                     : "arrays and objects nested more than 900 levels deep");
    size_t place = open_container(measure), members = 0;
    lexer->at++;
    if (json_lex_peek(lexer) == closing) {
        lexer->at++;
    } else {
        for (;;) {
            if (is_object && !walk_key(lexer, measure))
                return false;
            if (!json_walk_value(lexer, measure, depth + 1))
                return false;
            members++;
            int mark = json_lex_peek(lexer);
            if (mark != ',' && mark != closing)
                return json_lex_fail(lexer, lexer->at,
                                     is_object ? "neither comma nor } after a member"
                                               : "neither comma nor ] after a value");
            lexer->at++;
            if (mark == closing)
                break;
        }
    }
    if (measure)
        measure->members[place] = members;
    return true;
}

// Number literals that Python's json module writes and JSON does not have.
static bool walk_python_number(struct json_lexer *lexer) {
    static const char *const words[] = {"NaN", "Infinity", "-Infinity"};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        size_t length = strlen(words[i]);
        if (lexer->length - lexer->at >= length && memcmp(lexer->text + lexer->at, words[i], length) == 0) {
            lexer->at += length;
            return true;
        }
    }
    return false;
}

bool json_walk_value(struct json_lexer *lexer, struct json_measure *measure, int depth) {
    size_t bytes, start;
    int first = json_lex_peek(lexer);
    if (measure)
        measure->nodes++;
    switch (first) {
    case '{':
    case '[':
        return walk_container(lexer, measure, depth);
    case '"':
        if (!json_lex_string(lexer, NULL, &bytes))
            return false;
        measure_text(measure, bytes);
        return true;
    case 't':
        return json_lex_literal(lexer, "true");
    case 'f':
        return json_lex_literal(lexer, "false");
    case 'n':
        return json_lex_literal(lexer, "null");
    case -1:
        return json_lex_fail(lexer, lexer->at, "the end of the text where a value should be");
    default:
        if (lexer->has_python_numbers && walk_python_number(lexer))
            return true;
        if (first != '-' && (first < '0' || first > '9'))
            return json_lex_fail(lexer, lexer->at, "expected a value");
        start = lexer->at;
        if (!json_lex_number(lexer))
            return false;
        measure_text(measure, lexer->at - start);
        return true;
    }
}
