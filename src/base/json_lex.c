// Tokens of JSON. Strings are passed in runs of plain bytes found by scan.c; only runs with non-ASCII bytes are checked
// again, for well-formed UTF-8.
#include "base/json_lex.h"

#include "base/json.h"
#include "base/memory.h"
#include "base/utf8.h"
#include <stdint.h>
#include <string.h>

bool json_lex_fail(struct json_lexer *lexer, size_t at, const char *problem) {
    if (!lexer->problem) {
        lexer->problem = problem;
        lexer->problem_at = at;
    }
    return false;
}

void json_lex_space(struct json_lexer *lexer) {
    while (lexer->at < lexer->length) {
        char c = lexer->text[lexer->at];
        if (c != ' ' && c != '\n' && c != '\t' && c != '\r')
            return;
        lexer->at++;
    }
}

int json_lex_peek(struct json_lexer *lexer) {
    json_lex_space(lexer);
    return lexer->at < lexer->length ? (unsigned char)lexer->text[lexer->at] : -1;
}

bool json_lex_expect(struct json_lexer *lexer, char mark, const char *problem) {
    if (json_lex_peek(lexer) != mark)
        return json_lex_fail(lexer, lexer->at, problem);
    lexer->at++;
    return true;
}

// The value of each hexadecimal digit with bit 4 set, so that 0 is "no digit".
static const unsigned char hex_digit[256] = {
    ['0'] = 0x10, ['1'] = 0x11, ['2'] = 0x12, ['3'] = 0x13, ['4'] = 0x14, ['5'] = 0x15, ['6'] = 0x16, ['7'] = 0x17,
    ['8'] = 0x18, ['9'] = 0x19, ['a'] = 0x1A, ['b'] = 0x1B, ['c'] = 0x1C, ['d'] = 0x1D, ['e'] = 0x1E, ['f'] = 0x1F,
    ['A'] = 0x1A, ['B'] = 0x1B, ['C'] = 0x1C, ['D'] = 0x1D, ['E'] = 0x1E, ['F'] = 0x1F,
};

// The character that an escape letter stands for; 0 if JSON has no such escape.
static const char escaped[256] = {
    ['"'] = '"', ['\\'] = '\\', ['/'] = '/', ['b'] = '\b', ['f'] = '\f', ['n'] = '\n', ['r'] = '\r', ['t'] = '\t',
};

// Four hexadecimal digits at byte `at`; -1 if they are not there.
static int32_t hex_four(const struct json_lexer *lexer, size_t at) {
    if (lexer->length - at < 4)
        return -1;
    const unsigned char *text = (const unsigned char *)lexer->text + at;
    int32_t a = hex_digit[text[0]], b = hex_digit[text[1]], c = hex_digit[text[2]], d = hex_digit[text[3]];
    if (!(a & b & c & d & 0x10))
        return -1;
    return (a & 15) << 12 | (b & 15) << 8 | (c & 15) << 4 | (d & 15);
}

// \uXXXX at `at` (the backslash), joined with a second one if both make a surrogate pair. A surrogate that stands
// alone has no UTF-8; the encoder writes U+FFFD for it.
static bool unicode_escape(struct json_lexer *lexer, char out[4], size_t *bytes) {
    int32_t value = hex_four(lexer, lexer->at + 2);
    if (value < 0)
        return json_lex_fail(lexer, lexer->at, "\\u needs four hexadecimal digits");
    lexer->at += 6;
    bool is_pair = value >= 0xD800 && value < 0xDC00 && lexer->length - lexer->at >= 6 &&
                   lexer->text[lexer->at] == '\\' && lexer->text[lexer->at + 1] == 'u';
    if (is_pair) {
        int32_t low = hex_four(lexer, lexer->at + 2);
        if (low >= 0xDC00 && low < 0xE000) {
            value = 0x10000 + ((value - 0xD800) << 10) + (low - 0xDC00);
            lexer->at += 6;
        }
    }
    lexer->lone_surrogates += value >= 0xD800 && value < 0xE000;
    *bytes = utf8_encode((uint32_t)value, out);
    return true;
}

// The escape at `at` (the backslash).
static bool escape(struct json_lexer *lexer, char out[4], size_t *bytes) {
    if (lexer->length - lexer->at < 2)
        return json_lex_fail(lexer, lexer->at, "a string without its closing quote");
    char kind = lexer->text[lexer->at + 1];
    if (kind == 'u')
        return unicode_escape(lexer, out, bytes);
    out[0] = escaped[(unsigned char)kind];
    if (out[0] == '\0')
        return json_lex_fail(lexer, lexer->at, "an escape that JSON does not have");
    *bytes = 1;
    lexer->at += 2;
    return true;
}

// Passes a run of plain bytes; adds their number to *written.
static bool plain_run(struct json_lexer *lexer, char *out, size_t *written) {
    const char *run = lexer->text + lexer->at;
    size_t left = lexer->length - lexer->at;
    bool has_high = false;
    size_t count = out ? scan_copy_plain(out + *written, run, left, &has_high) : scan_plain(run, left, &has_high);
    if (has_high) {
        size_t well_formed = utf8_check(run, count);
        if (well_formed < count)
            return json_lex_fail(lexer, lexer->at + well_formed, "bytes that are not UTF-8");
    }
    lexer->at += count;
    *written += count;
    return true;
}

bool json_lex_string(struct json_lexer *lexer, char *out, size_t *decoded) {
    size_t opening = lexer->at, written = 0;
    lexer->at++;
    for (;;) {
        if (!plain_run(lexer, out, &written))
            return false;
        if (lexer->at == lexer->length)
            return json_lex_fail(lexer, opening, "a string without its closing quote");
        char stop = lexer->text[lexer->at];
        if (stop == '"')
            break;
        if (stop != '\\')
            return json_lex_fail(lexer, lexer->at, "a control character in a string; it must be escaped");
        // Strings made of escapes alone, as some programs write non-ASCII text, stay in this loop.
        while (lexer->at < lexer->length && lexer->text[lexer->at] == '\\') {
            char character[4];
            size_t bytes;
            if (!escape(lexer, character, &bytes))
                return false;
            if (out)
                memcpy(out + written, character, sizeof character);
            written += bytes;
        }
    }
    lexer->at++;
    *decoded = written;
    return true;
}

static size_t digits(struct json_lexer *lexer) {
    size_t start = lexer->at;
    while (lexer->at < lexer->length && lexer->text[lexer->at] >= '0' && lexer->text[lexer->at] <= '9')
        lexer->at++;
    return lexer->at - start;
}

static bool next_is(const struct json_lexer *lexer, char a, char b) {
    return lexer->at < lexer->length && (lexer->text[lexer->at] == a || lexer->text[lexer->at] == b);
}

bool json_lex_number(struct json_lexer *lexer) {
    size_t start = lexer->at;
    if (next_is(lexer, '-', '-'))
        lexer->at++;
    size_t first = lexer->at;
    size_t whole = digits(lexer);
    if (whole == 0)
        return json_lex_fail(lexer, start, "a minus sign without a number");
    if (whole > 1 && lexer->text[first] == '0')
        return json_lex_fail(lexer, start, "a number with a leading zero");
    if (next_is(lexer, '.', '.')) {
        lexer->at++;
        if (digits(lexer) == 0)
            return json_lex_fail(lexer, start, "a number without digits after its point");
    }
    if (next_is(lexer, 'e', 'E')) {
        lexer->at++;
        if (next_is(lexer, '+', '-'))
            lexer->at++;
        if (digits(lexer) == 0)
            return json_lex_fail(lexer, start, "a number without digits in its exponent");
    }
    return true;
}

bool json_lex_literal(struct json_lexer *lexer, const char *word) {
    size_t length = strlen(word);
    if (lexer->length - lexer->at < length || memcmp(lexer->text + lexer->at, word, length) != 0)
        return json_lex_fail(lexer, lexer->at, "a word that is not true, false or null");
    lexer->at += length;
    return true;
}

bool json_lex_start(struct json_lexer *lexer) {
    if (lexer->length >= 3 && memcmp(lexer->text, "\xEF\xBB\xBF", 3) == 0)
        return json_lex_fail(lexer, 0, "a byte order mark");
    return true;
}

bool json_lex_end(struct json_lexer *lexer) {
    if (json_lex_peek(lexer) >= 0)
        return json_lex_fail(lexer, lexer->at, "more text after the end of the value");
    return true;
}

// One walk over a JSON value: the grammar of values, arrays and objects. Recursion is bounded by JSON_MAX_DEPTH,
// or JSON_MAX_PASSED_DEPTH.

static void measure_text(struct json_measure *measure, size_t bytes) {
    if (measure)
        measure->text_bytes += bytes + 1;
}

// Reserves the place of a container's count; returns it.
static size_t open_container(struct json_measure *measure) {
    if (!measure)
        return 0;
    MEMORY_GROW(measure->members, measure->containers, measure->capacity);
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
