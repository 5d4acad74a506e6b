// Sets of characters in a pattern: escapes (\s), properties (\p{L}) and brackets ([a-z&&[^x]]). All become ranges; case
// folding is expanded here, so that matching does not deal with it.
#include "data/tokenizer/pattern_program.h"
#include "data/tokenizer/character_set.h"
#include "base/error.h"
#include "base/utf8.h"
#include <string.h>

enum { MOST_DEPTH = 50 };

// Oniguruma takes the classes of characters below 256 from a separate table, in which superscripts and fractions belong
// to \w; brackets use Unicode's ranges, in which they do not.
void pattern_add_word(const struct pattern *pattern, struct character_set *set) {
    unicode_add_word(set);
    if (pattern->syntax == PATTERN_RUST) {
        character_set_add(set, 0x200C, 0x200D);
        return;
    }
    character_set_add(set, 0xB2, 0xB3);
    character_set_add(set, 0xB9, 0xB9);
    character_set_add(set, 0xBC, 0xBE);
}

// ---- single characters ----

static int hexadecimal(struct pattern_parser *parser, size_t least, size_t most, uint32_t *value) {
    *value = 0;
    size_t digits = 0;
    for (; digits < most && parser->at < parser->end; digits++, parser->at++) {
        char c = *parser->at;
        int digit = c >= '0' && c <= '9' ? c - '0' : (c | 32) >= 'a' && (c | 32) <= 'f' ? (c | 32) - 'a' + 10 : -1;
        if (digit < 0)
            break;
        *value = *value << 4 | (uint32_t)digit;
    }
    if (digits < least || *value >= UNICODE_LIMIT)
        return pattern_parse_error(parser, "a number that is not a character");
    return 0;
}

static int parse_escape(struct pattern_parser *parser, uint32_t *character) {
    static const char names[] = "rntfvae", values[] = "\r\n\t\f\v\a\x1B";
    char c = *parser->at++;
    const char *name = memchr(names, c, sizeof names - 1);
    if ((c == 'x' || (c == 'u' && parser->pattern->syntax == PATTERN_RUST)) && parser->at < parser->end &&
        *parser->at == '{') {
        parser->at++;
        TRY(hexadecimal(parser, 1, 8, character));
        if (parser->at == parser->end || *parser->at++ != '}')
            return pattern_parse_error(parser, "\\%c{ without }", c);
        return 0;
    }
    if (c == 'x' || c == 'u') {
        TRY(hexadecimal(parser, c == 'x' ? 1 : 4, c == 'x' ? 2 : 4, character));
        if (c == 'x' && *character >= 0x80)  // bytes of UTF-8, one by one
            return pattern_parse_error(parser, "the byte \\x%X", *character);
        return 0;
    }
    if (c == '0') {
        *character = 0;
        for (int i = 0; i < 2 && parser->at < parser->end && *parser->at >= '0' && *parser->at <= '7'; i++)
            *character = *character * 8 + (uint32_t)(*parser->at++ - '0');
        return 0;
    }
    if (name) {
        *character = (unsigned char)values[name - names];
        return 0;
    }
    if ((c >= '0' && c <= '9') || memchr("cCMogkXyY", c, 9)) {
        parser->at -= 2;
        return pattern_parse_error(parser, "the escape \\%c", c);
    }
    parser->at--;
    bool valid;
    parser->at += utf8_decode((const unsigned char *)parser->at, (size_t)(parser->end - parser->at), character, &valid);
    return valid ? 0 : pattern_parse_error(parser, "text that is not UTF-8");
}

int pattern_parse_character(struct pattern_parser *parser, uint32_t *character) {
    if (parser->at == parser->end)
        return pattern_parse_error(parser, "an unexpected end");
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

static void add_class(struct character_set *set, struct character_set *class, bool negated) {
    if (negated)
        character_set_invert(class);
    character_set_add_set(set, class);
    character_set_free(class);
}

static bool is_word(const char *name, size_t length) {
    return length == 4 && (name[0] | 32) == 'w' && (name[1] | 32) == 'o' && (name[2] | 32) == 'r' &&
           (name[3] | 32) == 'd';
}

static int parse_property(struct pattern_parser *parser, bool negated, bool in_brackets, struct character_set *set) {
    const char *begin = parser->at, *close = memchr(begin, '}', (size_t)(parser->end - begin));
    const char *name = begin + 3, *end = close;
    struct character_set class = {0};
    if (parser->pattern->syntax == PATTERN_RUST && begin[2] != '{') {  // \pL
        name = begin + 2;
        end = begin + 3;
        close = begin + 2;
    } else if (!close) {
        return pattern_parse_error(parser, "\\%c{ without }", begin[1]);
    }
    if (name < end && *name == '^') {
        negated = !negated;
        name++;
    }
    if (!in_brackets && is_word(name, (size_t)(end - name))) {
        pattern_add_word(parser->pattern, &class);
    } else if (!unicode_property_add(&class, name, (size_t)(end - name))) {
        int length = end - name > 60 ? 60 : (int)(end - name);
        return pattern_parse_error(parser, "the property \\%c{%.*s}", begin[1], length, name);
    }
    add_class(set, &class, negated);
    parser->at = close + 1;
    return 1;
}

int pattern_parse_class(struct pattern_parser *parser, bool in_brackets, struct character_set *set) {
    if (parser->end - parser->at < 2 || parser->at[0] != '\\')
        return 0;
    struct character_set class = {0};
    char c = parser->at[1];
    bool is_rust = parser->pattern->syntax == PATTERN_RUST;
    switch (c) {
    case 's':
    case 'S':
        unicode_property_add(&class, "space", 5);
        break;
    case 'd':
    case 'D':
        character_set_add_categories(&class, UNICODE_SET(UNICODE_ND));
        break;
    case 'h':
    case 'H':
        unicode_property_add(&class, "xdigit", 6);
        break;
    case 'w':
    case 'W':
        if (in_brackets && !is_rust)
            unicode_add_word(&class);
        else
            pattern_add_word(parser->pattern, &class);
        break;
    case 'N':
    case 'O':
        if (in_brackets || is_rust)
            return 0;
        if (c == 'N')
            character_set_add(&class, '\n', '\n');
        break;
    case 'p':
    case 'P':
        if (parser->end - parser->at < 3 || (parser->at[2] != '{' && !is_rust))
            return 0;  // Oniguruma's \p by itself is a p
        return parse_property(parser, c == 'P', in_brackets, set);
    default:
        return 0;
    }
    add_class(set, &class, c >= 'A' && c <= 'Z');
    parser->at += 2;
    return 1;
}

// ---- brackets ----

static int parse_members(struct pattern_parser *parser, int depth, struct character_set *set);

// [:alpha:] or [:^alpha:]: 1 if there is one.
static int parse_posix(struct pattern_parser *parser, struct character_set *set) {
    const char *begin = parser->at + 2;
    if (!pattern_next_is(parser, "[:"))
        return 0;
    const char *end = begin;
    while (end < parser->end && ((*end >= 'a' && *end <= 'z') || *end == '^'))
        end++;
    if (parser->end - end < 2 || end[0] != ':' || end[1] != ']')
        return 0;
    bool negated = begin < end && *begin == '^';
    struct character_set class = {0};
    if (!unicode_posix_add(&class, begin + negated, (size_t)(end - begin) - negated))
        return pattern_parse_error(parser, "the class [:%.*s:]", end - begin > 60 ? 60 : (int)(end - begin), begin);
    add_class(set, &class, negated);
    parser->at = end + 2;
    return 1;
}

// One member of brackets: a class, other brackets, a character, or a range.
static int parse_member(struct pattern_parser *parser, int depth, struct character_set *set) {
    int found = pattern_parse_class(parser, true, set);
    if (found == 0)
        found = parse_posix(parser, set);
    if (found != 0) {
        if (found > 0 && pattern_next_is(parser, "-") && parser->end - parser->at > 1 && parser->at[1] != ']')
            return pattern_parse_error(parser, "a range that starts with a class");
        return found < 0 ? -1 : 0;
    }
    if (*parser->at == '[') {
        struct character_set inner = {0};
        parser->at++;
        int status = parse_members(parser, depth + 1, &inner);
        if (status == 0)
            character_set_add_set(set, &inner);
        character_set_free(&inner);
        return status;
    }
    uint32_t first, last;
    if (pattern_accept(parser, "\\b"))
        first = '\b';
    else
        TRY(pattern_parse_character(parser, &first));
    if (parser->end - parser->at < 2 || parser->at[0] != '-' || parser->at[1] == ']') {
        character_set_add(set, first, first);
        return 0;
    }
    parser->at++;
    struct character_set class = {0};
    found = pattern_parse_class(parser, true, &class);
    character_set_free(&class);
    if (found != 0 || pattern_next_is(parser, "[") || pattern_next_is(parser, "&&"))
        return found < 0 ? -1 : pattern_parse_error(parser, "a range that does not end with a character");
    TRY(pattern_parse_character(parser, &last));
    if (last < first)
        return pattern_parse_error(parser, "a range from a higher to a lower character");
    character_set_add(set, first, last);
    return 0;
}

// Characters that equal several when case is ignored let a set match several, with backtracking.
static int check_cases(const struct pattern_parser *parser, const struct character_set *set) {
    struct unicode_several several;
    for (size_t i = 0; unicode_several(i, &several); i++)
        if (character_set_has(set, several.character))
            return pattern_parse_error(parser, "U+%04X, which equals several characters when case is ignored, in a set",
                                       several.character);
    return 0;
}

// An operand of && in brackets: up to the next &&, or to ].
static int parse_operand(struct pattern_parser *parser, int depth, struct character_set *set) {
    while (parser->at < parser->end && *parser->at != ']' && !pattern_next_is(parser, "&&"))
        TRY(parse_member(parser, depth, set));
    return parser->at == parser->end ? pattern_parse_error(parser, "[ without ]") : 0;
}

static int parse_members(struct pattern_parser *parser, int depth, struct character_set *set) {
    if (depth > MOST_DEPTH)
        return pattern_parse_error(parser, "too many brackets inside each other");
    bool negated = pattern_accept(parser, "^");
    if (pattern_next_is(parser, "]")) {  // the very first ] is a character, if another one closes the brackets
        if (!memchr(parser->at + 1, ']', (size_t)(parser->end - parser->at - 1)))
            return pattern_parse_error(parser, "empty brackets");
        character_set_add(set, ']', ']');
        parser->at++;
    }
    TRY(parse_operand(parser, depth, set));
    while (pattern_accept(parser, "&&")) {
        struct character_set other = {0};
        int status = parse_operand(parser, depth, &other);
        character_set_intersect(set, &other);
        character_set_free(&other);
        TRY(status);
    }
    parser->at++;
    character_set_seal(set);
    if (depth == 0 && parser->on.any_case) {
        unicode_add_cases(set);
        if (!negated && parser->pattern->syntax == PATTERN_ONIGURUMA)
            TRY(check_cases(parser, set));
    }
    if (negated)
        character_set_invert(set);
    return 0;
}

int pattern_parse_brackets(struct pattern_parser *parser, struct character_set *set) {
    return parse_members(parser, 0, set);
}
