// Sets of characters in a pattern: escapes (\s), properties (\p{L}) and brackets ([a-z]). All become categories and
// ranges of a struct pattern_set; the case of letters is unfolded here, so that matching knows none.
#include "data/tokenizer/pattern_parse.h"
#include "base/error.h"
#include "base/memory.h"
#include "base/utf8.h"
#include <string.h>

int32_t pattern_add_set(struct pattern *pattern) {
    if (pattern->set_count == pattern->set_capacity) {
        pattern->set_capacity = pattern->set_capacity * 2 + 8;
        pattern->sets = memory_realloc(pattern->sets, (size_t)pattern->set_capacity * sizeof *pattern->sets);
    }
    pattern->sets[pattern->set_count] = (struct pattern_set){0};
    return pattern->set_count++;
}

void pattern_set_add_range(struct pattern_set *set, uint32_t first, uint32_t last) {
    set->ranges = memory_realloc(set->ranges, (set->range_count + 1) * sizeof *set->ranges);
    set->ranges[set->range_count++] = (struct pattern_range){first, last};
}

// Letters, marks, decimal digits, letter numbers, connectors, and the circled and squared letters, which are symbols.
void pattern_set_add_word(struct pattern_set *set) {
    set->categories |=
        UNICODE_SET_L | UNICODE_SET_M | UNICODE_SET(UNICODE_ND) | UNICODE_SET(UNICODE_NL) | UNICODE_SET(UNICODE_PC);
    pattern_set_add_range(set, 0x24B6, 0x24E9);
    pattern_set_add_range(set, 0x1F130, 0x1F149);
    pattern_set_add_range(set, 0x1F150, 0x1F169);
    pattern_set_add_range(set, 0x1F170, 0x1F189);
}

int pattern_set_add_character(const struct pattern_parser *parser, struct pattern_set *set, uint32_t character) {
    pattern_set_add_range(set, character, character);
    if (!parser->any_case)
        return 0;
    if (character >= 0x80)
        return pattern_parse_error(parser, "a character outside ASCII without regard to case");
    uint32_t small = character | 0x20;
    if (small < 'a' || small > 'z')
        return 0;
    pattern_set_add_range(set, small, small);
    pattern_set_add_range(set, small - 32, small - 32);
    if (small == 's')
        pattern_set_add_range(set, 0x17F, 0x17F);
    if (small == 'k')
        pattern_set_add_range(set, 0x212A, 0x212A);
    return 0;
}

// ---- single characters ----

static int hexadecimal(struct pattern_parser *parser, size_t most, uint32_t *value) {
    *value = 0;
    size_t digits = 0;
    for (; digits < most && parser->at < parser->end; digits++, parser->at++) {
        char c = *parser->at;
        int digit = c >= '0' && c <= '9' ? c - '0' : (c | 32) >= 'a' && (c | 32) <= 'f' ? (c | 32) - 'a' + 10 : -1;
        if (digit < 0)
            break;
        *value = *value << 4 | (uint32_t)digit;
    }
    if (digits == 0 || *value >= UNICODE_LIMIT)
        return pattern_parse_error(parser, "a number of a character that is none");
    return 0;
}

static int parse_escape(struct pattern_parser *parser, uint32_t *character) {
    static const char names[] = "rntfvae0", values[] = "\r\n\t\f\v\a\x1B";
    char c = *parser->at++;
    const char *name = memchr(names, c, sizeof names - 1);
    if (c == 'x' && parser->at < parser->end && *parser->at == '{') {
        parser->at++;
        TRY(hexadecimal(parser, 6, character));
        if (parser->at == parser->end || *parser->at++ != '}')
            return pattern_parse_error(parser, "\\x{ without }");
        return 0;
    }
    if (c == 'x' || c == 'u')
        return hexadecimal(parser, c == 'x' ? 2 : 4, character);
    if (name) {
        *character = (unsigned char)values[name - names];
        return 0;
    }
    if ((unsigned char)c >= 0x80 || (c >= '0' && c <= '9') || ((c | 32) >= 'a' && (c | 32) <= 'z')) {
        parser->at--;
        return pattern_parse_error(parser, "this escape");
    }
    *character = (unsigned char)c;
    return 0;
}

int pattern_parse_character(struct pattern_parser *parser, uint32_t *character) {
    if (parser->at == parser->end)
        return pattern_parse_error(parser, "an end in the middle");
    if (*parser->at == '\\') {
        if (++parser->at == parser->end)
            return pattern_parse_error(parser, "a \\ at the end");
        return parse_escape(parser, character);
    }
    bool valid;
    size_t left = (size_t)(parser->end - parser->at);
    parser->at += utf8_decode((const unsigned char *)parser->at, left, character, &valid);
    return valid ? 0 : pattern_parse_error(parser, "text that is not UTF-8");
}

// ---- classes ----

// The set of a general category or of a group of them, 0 if the name is neither.
static uint32_t category_by_name(const char *name, size_t length) {
    static const char categories[] = "CnLuLlLtLmLoMnMcMeNdNlNoPcPdPsPePiPfPoSmScSkSoZsZlZpCcCfCo";
    static const struct {
        char name;
        uint32_t set;
    } groups[] = {{'L', UNICODE_SET_L}, {'M', UNICODE_SET_M}, {'N', UNICODE_SET_N}, {'P', UNICODE_SET_P},
                  {'S', UNICODE_SET_S}, {'Z', UNICODE_SET_Z}, {'C', UNICODE_SET_C}};
    for (size_t i = 0; length == 1 && i < sizeof groups / sizeof groups[0]; i++)
        if (name[0] == groups[i].name)
            return groups[i].set;
    for (size_t i = 0; length == 2 && i < UNICODE_CATEGORIES; i++)
        if (memcmp(name, categories + 2 * i, 2) == 0)
            return UNICODE_SET(i);
    return 0;
}

static int parse_property(struct pattern_parser *parser, bool negated, struct pattern_set *set) {
    const char *begin = parser->at, *close = NULL;
    if (begin < parser->end && *begin == '{')
        close = memchr(begin, '}', (size_t)(parser->end - begin));
    if (!close)
        return pattern_parse_error(parser, "\\p without {name}");
    const char *name = begin + 1;
    if (name < close && *name == '^') {
        negated = !negated;
        name++;
    }
    uint32_t categories = category_by_name(name, (size_t)(close - name));
    // The table has all blanks in Z, so that Z and Cc by their names are not to be had exactly.
    if (categories == 0 || (categories & (UNICODE_SET_Z | UNICODE_SET(UNICODE_CC))))
        return pattern_parse_error(parser, "this property");
    set->categories |= negated ? ~categories : categories;
    parser->at = close + 1;
    return 1;
}

int pattern_parse_class(struct pattern_parser *parser, struct pattern_set *set) {
    if (parser->end - parser->at < 2 || parser->at[0] != '\\')
        return 0;
    char c = parser->at[1];
    const uint32_t digits = UNICODE_SET(UNICODE_ND);
    switch (c) {
    case 's':
    case 'S':
        set->categories |= c == 's' ? UNICODE_SET_Z : ~UNICODE_SET_Z;
        break;
    case 'd':
    case 'D':
        set->categories |= c == 'd' ? digits : ~digits;
        break;
    case 'w':
        pattern_set_add_word(set);
        break;
    case 'p':
    case 'P':
        parser->at += 2;
        return parse_property(parser, c == 'P', set);
    default:
        return 0;
    }
    parser->at += 2;
    return 1;
}

static bool stands_there(const struct pattern_parser *parser, const char *text) {
    size_t length = strlen(text);
    return (size_t)(parser->end - parser->at) >= length && memcmp(parser->at, text, length) == 0;
}

// One member of brackets: a class, a character, or a range.
static int parse_member(struct pattern_parser *parser, struct pattern_set *set) {
    int found = pattern_parse_class(parser, set);
    if (found != 0)
        return found < 0 ? -1 : 0;
    if (*parser->at == '[' || stands_there(parser, "&&"))
        return pattern_parse_error(parser, "such a set inside a set");
    uint32_t first, last;
    TRY(pattern_parse_character(parser, &first));
    if (parser->end - parser->at < 2 || parser->at[0] != '-' || parser->at[1] == ']')
        return pattern_set_add_character(parser, set, first);
    parser->at++;
    TRY(pattern_parse_character(parser, &last));
    if (last < first)
        return pattern_parse_error(parser, "a range from a higher to a lower character");
    if (parser->any_case)
        return pattern_parse_error(parser, "a range without regard to case");
    pattern_set_add_range(set, first, last);
    return 0;
}

// Brackets in brackets, whose members are those of the outer ones too. Not so where they leave out what they name, or
// name a class: these are refused.
static int parse_inner(struct pattern_parser *parser, struct pattern_set *set) {
    if (stands_there(parser, "[^") || stands_there(parser, "[:") || stands_there(parser, "[]"))
        return pattern_parse_error(parser, "such a set inside a set");
    parser->at++;
    while (parser->at < parser->end && *parser->at != ']')
        TRY(parse_member(parser, set));
    if (parser->at == parser->end)
        return pattern_parse_error(parser, "[ without ]");
    parser->at++;
    return 0;
}

int pattern_parse_brackets(struct pattern_parser *parser, int32_t *set) {
    *set = pattern_add_set(parser->pattern);
    struct pattern_set built = {0};
    if (parser->at < parser->end && *parser->at == '^') {
        built.negated = true;
        parser->at++;
    }
    int status = parser->at < parser->end && *parser->at == ']' ? pattern_parse_error(parser, "empty brackets") : 0;
    while (status == 0 && parser->at < parser->end && *parser->at != ']')
        status = *parser->at == '[' ? parse_inner(parser, &built) : parse_member(parser, &built);
    if (status == 0 && parser->at == parser->end)
        status = pattern_parse_error(parser, "[ without ]");
    parser->at++;
    parser->pattern->sets[*set] = built;
    return status;
}
