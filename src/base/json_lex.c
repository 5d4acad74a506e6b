// The words of JSON. Strings are passed in runs of plain bytes found by scan.c; only runs that hold non-ASCII bytes are
// looked at again, for well-formed UTF-8.
#include "base/json_lex.h"

#include "base/scan.h"
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

static int hex_digit(char c) {
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    if (c >= 'A' && c <= 'F')
        return c - 'A' + 10;
    return -1;
}

// Four hexadecimal digits at byte `at`; -1 where they are not there.
static int32_t hex_four(const struct json_lexer *lexer, size_t at) {
    if (lexer->length - at < 4)
        return -1;
    int32_t value = 0;
    for (size_t i = 0; i < 4; i++) {
        int digit = hex_digit(lexer->text[at + i]);
        if (digit < 0)
            return -1;
        value = value * 16 + digit;
    }
    return value;
}

// \uXXXX at `at` (the backslash), joined with a second one where both make a surrogate pair. A surrogate that stands
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
    static const char names[] = "\"\\/bfnrt";
    static const char values[] = "\"\\/\b\f\n\r\t";
    const char *found = kind ? strchr(names, kind) : NULL;
    if (!found)
        return json_lex_fail(lexer, lexer->at, "an escape that JSON does not have");
    out[0] = values[found - names];
    *bytes = 1;
    lexer->at += 2;
    return true;
}

bool json_lex_string(struct json_lexer *lexer, char *out, size_t *decoded) {
    size_t opening = lexer->at, written = 0;
    lexer->at++;
    for (;;) {
        const char *run = lexer->text + lexer->at;
        size_t left = lexer->length - lexer->at;
        bool has_high = false;
        size_t count = out ? scan_copy_plain(out + written, run, left, &has_high) : scan_plain(run, left, &has_high);
        if (has_high) {
            size_t well_formed = utf8_check(run, count);
            if (well_formed < count)
                return json_lex_fail(lexer, lexer->at + well_formed, "bytes that are not UTF-8");
        }
        lexer->at += count;
        written += count;
        if (count == left)
            return json_lex_fail(lexer, opening, "a string without its closing quote");
        char stop = lexer->text[lexer->at];
        if (stop == '"')
            break;
        if (stop != '\\')
            return json_lex_fail(lexer, lexer->at, "a control character in a string; it must be escaped");
        char character[4];
        size_t bytes;
        if (!escape(lexer, character, &bytes))
            return false;
        if (out)
            memcpy(out + written, character, bytes);
        written += bytes;
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
        return json_lex_fail(lexer, 0, "a byte order mark; save the text as UTF-8 without one");
    return true;
}

bool json_lex_end(struct json_lexer *lexer) {
    if (json_lex_peek(lexer) >= 0)
        return json_lex_fail(lexer, lexer->at, "more text after the end of the value");
    return true;
}
