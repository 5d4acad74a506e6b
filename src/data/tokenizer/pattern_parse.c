// Groups of a pattern: the text after ( .
#include "data/tokenizer/pattern_program.h"
#include "data/tokenizer/character_set.h"
#include "data/tokenizer/token_list.h"
#include "base/error.h"
#include "base/memory.h"
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static int pattern_parse_alternatives(struct pattern_parser *parser, int32_t *node);

static int32_t pattern_add_node(struct pattern_parser *parser, struct pattern_node node);

enum { MOST_DEPTH = 50, FARTHEST_BACK = 255 };

static int close_group(struct pattern_parser *parser) {
    return pattern_accept(parser, ")") ? 0 : pattern_parse_error(parser, "( without )");
}

// A group whose inside is parsed with the current switches, which are restored after it.
static int parse_inside(struct pattern_parser *parser, struct pattern_node group, int32_t *node) {
    struct pattern_switches on = parser->on;
    bool is_place = group.kind == NODE_LOOK || group.kind == NODE_BEHIND;
    parser->looks += is_place;
    TRY(pattern_parse_alternatives(parser, &group.first));
    TRY(close_group(parser));
    parser->looks -= is_place;
    parser->on = on;
    const struct pattern_node *inside = &parser->tree->nodes[group.first];
    group.min = inside->least;
    group.max = inside->longest;
    group.least = is_place ? 0 : inside->least;
    group.longest = is_place ? 0 : inside->longest;
    *node = pattern_add_node(parser, group);
    return 0;
}

// Whether a part never backtracks: \R, (?>…) or a++.
static bool has_atomic(const struct pattern_tree *tree, int32_t index) {
    const struct pattern_node *node = &tree->nodes[index];
    if (node->kind == NODE_ATOMIC || (node->kind == NODE_REPEAT && node->greed == GREED_ALL))
        return true;
    for (int32_t child = node->first; child >= 0; child = tree->nodes[child].next)
        if (has_atomic(tree, child))
            return true;
    return false;
}

static int parse_behind(struct pattern_parser *parser, bool negated, int32_t *node) {
    TRY(parse_inside(parser, (struct pattern_node){.kind = NODE_BEHIND, .negated = negated}, node));
    struct pattern_node *behind = &parser->tree->nodes[*node];
    if (behind->min > FARTHEST_BACK || behind->max > FARTHEST_BACK)
        return pattern_parse_error(parser, "more than %d characters to look back at", FARTHEST_BACK);
    // Oniguruma has special rules for such a part in a lookbehind.
    if (has_atomic(parser->tree, behind->first))
        return pattern_parse_error(parser, "\\R, (?>…) or a++ to look back at");
    return 0;
}

// imx-imx: false for another letter.
static bool read_switches(struct pattern_parser *parser, struct pattern_switches *on) {
    bool value = true, is_ruby = parser->pattern->syntax == PATTERN_ONIGURUMA;
    for (; parser->at < parser->end && *parser->at != ')' && *parser->at != ':'; parser->at++)
        if (*parser->at == '-')
            value = false;
        else if (*parser->at == 'i')
            on->any_case = value;
        else if (*parser->at == 'x')
            on->spaced = value;
        else if (*parser->at == (is_ruby ? 'm' : 's'))
            on->any_dot = value;
        else if (*parser->at == 'm')
            on->lines = value;
        else if (is_ruby || *parser->at != 'u')
            return false;
    return parser->at < parser->end;
}

// Letters after (?: (?i:…) applies inside, (?i) up to the end of the enclosing group. In Ruby the latter also encloses
// the rest, including alternatives.
static int parse_switches(struct pattern_parser *parser, int32_t *node) {
    struct pattern_switches before = parser->on, on = before;
    const char *begin = parser->at;
    if (!read_switches(parser, &on)) {
        int length = parser->at - begin >= 20 || parser->at == parser->end ? 0 : (int)(parser->at - begin) + 1;
        parser->at = begin - 2;
        return pattern_parse_error(parser, "the group (?%.*s", length, begin);
    }
    parser->on = on;
    if (pattern_accept(parser, ":")) {
        TRY(parse_inside(parser, (struct pattern_node){.kind = NODE_SEQUENCE}, node));
        parser->on = before;
        return 0;
    }
    parser->at++;
    if (parser->pattern->syntax == PATTERN_RUST)
        return 0;
    TRY(pattern_parse_alternatives(parser, node));
    parser->on = before;
    return 0;
}

// (?<name>…) and (?'name'…): groups like any other. 1 if there is one.
static int skip_name(struct pattern_parser *parser) {
    const char *at = parser->at + 1;
    if (*at == 'P' && parser->pattern->syntax == PATTERN_RUST)
        at++;
    if (parser->end - at < 3 || (*at != '<' && *at != '\''))
        return 0;
    const char *close = memchr(at + 1, *at == '<' ? '>' : '\'', (size_t)(parser->end - at - 1));
    if (!close || close == at + 1)
        return pattern_parse_error(parser, "a group without its name");
    parser->at = close + 1;
    return 1;
}

static int parse_any_group(struct pattern_parser *parser, int32_t *node) {
    static const struct {
        const char *text;
        enum pattern_node_kind kind;
        bool negated;
    } kinds[] = {
        {"?:", NODE_SEQUENCE, false}, {"?>", NODE_ATOMIC, false}, {"?=", NODE_LOOK, false}, {"?!", NODE_LOOK, true}};
    if (pattern_accept(parser, "?<="))
        return parse_behind(parser, false, node);
    if (pattern_accept(parser, "?<!"))
        return parse_behind(parser, true, node);
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
        if (pattern_accept(parser, kinds[i].text))
            return parse_inside(parser, (struct pattern_node){.kind = kinds[i].kind, .negated = kinds[i].negated},
                                node);
    if (pattern_accept(parser, "?#")) {
        const char *close = memchr(parser->at, ')', (size_t)(parser->end - parser->at));
        if (!close)
            return pattern_parse_error(parser, "(?# without )");
        parser->at = close + 1;
        return 0;
    }
    if (pattern_next_is(parser, "?")) {
        int named = skip_name(parser);
        TRY(named);
        if (!named) {
            parser->at++;
            return parse_switches(parser, node);
        }
    } else if (pattern_next_is(parser, "*") && parser->pattern->syntax == PATTERN_ONIGURUMA) {
        return pattern_parse_error(parser, "the group (*");
    }
    return parse_inside(parser, (struct pattern_node){.kind = NODE_SEQUENCE}, node);
}

static int pattern_parse_group(struct pattern_parser *parser, int32_t *node) {
    if (++parser->depth > MOST_DEPTH)
        return pattern_parse_error(parser, "too many groups inside each other");
    TRY(parse_any_group(parser, node));
    parser->depth--;
    return 0;
}

// ---- atoms and repetitions ----

// The grammar of patterns: alternatives of sequences of repeated atoms, by recursive descent into a tree. Patterns come
// from files, so the depth is bounded, and an unsupported construct is an error that names it and its place.

enum { MOST_REPEATS = 1000, LONGEST_PATTERN = 20000, MOST_RANGES = 1 << 20, FAR = 1 << 20 };

int pattern_parse_error(const struct pattern_parser *parser, const char *format, ...) {
    char what[160];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(what, sizeof what, format, arguments);
    va_end(arguments);
    return error_set("%s has %s at byte %td, which is not supported", parser->pattern->name, what,
                     parser->at - parser->text);
}

static int32_t pattern_add_node(struct pattern_parser *parser, struct pattern_node node) {
    struct pattern_tree *tree = parser->tree;
    MEMORY_GROW(tree->nodes, tree->count, tree->capacity);
    node.next = -1;
    tree->nodes[tree->count] = node;
    return tree->count++;
}

bool pattern_next_is(const struct pattern_parser *parser, const char *text) {
    size_t length = strlen(text);
    return (size_t)(parser->end - parser->at) >= length && memcmp(parser->at, text, length) == 0;
}

bool pattern_accept(struct pattern_parser *parser, const char *text) {
    if (!pattern_next_is(parser, text))
        return false;
    parser->at += strlen(text);
    return true;
}

// ---- atoms ----

int pattern_add_set(struct pattern *pattern, struct character_set *set, int32_t *number) {
    character_set_seal(set);
    for (int32_t i = 0; i < pattern->set_count; i++)
        if (character_set_equal(&pattern->sets[i].characters, set)) {
            character_set_free(set);
            *number = i;
            return 0;
        }
    pattern->range_count += set->count;
    if (pattern->range_count > MOST_RANGES) {
        character_set_free(set);
        return error_set("%s has too many character sets", pattern->name);
    }
    MEMORY_GROW(pattern->sets, pattern->set_count, pattern->set_capacity);
    pattern->sets[pattern->set_count] = (struct pattern_set){.characters = *set};
    *number = pattern->set_count++;
    return 0;
}

static int pattern_add_set_node(struct pattern_parser *parser, struct character_set *set, int32_t *node) {
    struct pattern_node atom = {.kind = NODE_SET, .first = -1, .least = 1, .longest = 1};
    TRY(pattern_add_set(parser->pattern, set, &atom.value));
    *node = pattern_add_node(parser, atom);
    return 0;
}

// \R: (?>\r\n|[\n-\r\x{85}\x{2028}\x{2029}])
static int parse_line_end(struct pattern_parser *parser, int32_t *node) {
    struct character_set cr = {0}, lf = {0}, any = {0};
    character_set_add(&cr, '\r', '\r');
    character_set_add(&lf, '\n', '\n');
    character_set_add(&any, '\n', '\r');
    character_set_add(&any, 0x85, 0x85);
    character_set_add(&any, 0x2028, 0x2029);
    int32_t first = -1, second = -1, other = -1;
    int status = pattern_add_set_node(parser, &cr, &first);
    if (pattern_add_set_node(parser, &lf, &second) < 0 || pattern_add_set_node(parser, &any, &other) < 0 || status < 0)
        return -1;
    parser->tree->nodes[first].next = second;
    int32_t both = pattern_add_node(
        parser, (struct pattern_node){.kind = NODE_SEQUENCE, .first = first, .least = 2, .longest = 2});
    parser->tree->nodes[both].next = other;
    int32_t either = pattern_add_node(
        parser, (struct pattern_node){.kind = NODE_ALTERNATIVES, .first = both, .least = 1, .longest = 2});
    *node =
        pattern_add_node(parser, (struct pattern_node){.kind = NODE_ATOMIC, .first = either, .least = 1, .longest = 2});
    return 0;
}

// 1 if there is one, else 0; -1 after an error.
static int parse_assertion(struct pattern_parser *parser, int32_t *node) {
    bool is_ruby = parser->pattern->syntax == PATTERN_ONIGURUMA, by_line = is_ruby || parser->on.lines;
    const struct {
        const char *text;
        enum pattern_assertion assertion;
    } assertions[] = {{"^", by_line ? ASSERT_LINE_BEGIN : ASSERT_BEGIN},
                      {"$", by_line ? ASSERT_LINE_END : ASSERT_END},
                      {"\\A", ASSERT_BEGIN},
                      {"\\z", ASSERT_END},
                      {"\\Z", ASSERT_LAST_END},
                      {"\\G", ASSERT_SEARCH},
                      {"\\b", ASSERT_EDGE},
                      {"\\B", ASSERT_NO_EDGE}};
    for (size_t i = 0; i < sizeof assertions / sizeof assertions[0]; i++)
        if (pattern_accept(parser, assertions[i].text)) {
            *node = pattern_add_node(
                parser,
                (struct pattern_node){.kind = NODE_ASSERT, .first = -1, .value = (int32_t)assertions[i].assertion});
            return 1;
        }
    if (pattern_next_is(parser, "\\K") && parser->looks > 0)
        return pattern_parse_error(parser, "\\K in a part that looks ahead or behind");
    if (pattern_accept(parser, "\\K")) {
        parser->pattern->keeps = true;
        *node = pattern_add_node(parser, (struct pattern_node){.kind = NODE_KEEP, .first = -1});
        return 1;
    }
    return 0;
}

// Literal characters in a row that equal a single character when case is ignored: ss and ß.
static int check_row(struct pattern_parser *parser, uint32_t literal, uint32_t folded) {
    struct unicode_several several;
    for (size_t i = 0; unicode_several(i, &several); i++) {
        const uint32_t *row = several.folded, *before = parser->before;
        bool ends = row[2] ? row[2] == folded && row[1] == before[1] && row[0] == before[0]
                           : row[1] == folded && row[0] == before[1];
        if (ends || several.character == literal)
            return pattern_parse_error(parser, "U+%04X, which equals several characters when case is ignored,",
                                       several.character);
    }
    return 0;
}

static int parse_literal(struct pattern_parser *parser, int32_t *node, uint32_t *character) {
    struct character_set set = {0};
    TRY(pattern_parse_character(parser, character));
    character_set_add(&set, *character, *character);
    if (parser->on.any_case)
        unicode_add_cases(&set);
    return pattern_add_set_node(parser, &set, node);
}

// *literal: the character, if the atom is one.
static int parse_atom(struct pattern_parser *parser, int32_t *node, uint32_t *literal) {
    struct character_set set = {0};
    *literal = UNICODE_LIMIT;
    if (pattern_accept(parser, "("))
        return pattern_parse_group(parser, node);
    int found = parse_assertion(parser, node);
    if (found != 0)
        return found < 0 ? -1 : 0;
    if (memchr("*+?", *parser->at, 3))
        return pattern_parse_error(parser, "a repetition of nothing");
    found = 1;
    if (pattern_accept(parser, "\\R"))
        return parse_line_end(parser, node);
    if (pattern_accept(parser, "[")) {
        found = pattern_parse_brackets(parser, &set) < 0 ? -1 : 1;
    } else if (pattern_accept(parser, ".")) {
        if (!parser->on.any_dot)
            character_set_add(&set, '\n', '\n');
        character_set_invert(&set);
    } else {
        found = pattern_parse_class(parser, false, &set);
    }
    if (found == 0)
        return parse_literal(parser, node, literal);
    if (found < 0) {
        character_set_free(&set);
        return -1;
    }
    return pattern_add_set_node(parser, &set, node);
}

// ---- repetitions ----

static bool parse_count(const char **at, const char *end, int32_t *count) {
    *count = -1;
    while (*at < end && **at >= '0' && **at <= '9' && *count < FAR)
        *count = (*count < 0 ? 0 : *count * 10) + (*(*at)++ - '0');
    return *count >= 0;
}

// {n} {n,} {n,m} {,m}: 1; other braces are text: 0.
static int parse_braces(struct pattern_parser *parser, struct pattern_node *repeat) {
    const char *at = parser->at + 1;
    bool has_min = parse_count(&at, parser->end, &repeat->min), has_max = true;
    repeat->max = repeat->min;
    if (at < parser->end && *at == ',') {
        at++;
        has_max = parse_count(&at, parser->end, &repeat->max);
    }
    if (at == parser->end || *at != '}' || (!has_min && (!has_max || parser->pattern->syntax == PATTERN_RUST)))
        return 0;
    repeat->min = has_min ? repeat->min : 0;
    if (repeat->min > MOST_REPEATS || repeat->max > MOST_REPEATS)
        return pattern_parse_error(parser, "more than 1000 repetitions");
    if (repeat->max >= 0 && repeat->max < repeat->min)
        return pattern_parse_error(parser, "braces with a higher count before a lower one");
    parser->at = at + 1;
    return 1;
}

// Parses a repetition: 1 if there is one.
static int parse_repeat(struct pattern_parser *parser, struct pattern_node *repeat) {
    bool is_ruby = parser->pattern->syntax == PATTERN_ONIGURUMA, braces = false;
    *repeat = (struct pattern_node){.kind = NODE_REPEAT, .max = -1};
    if (pattern_accept(parser, "*")) {
        repeat->min = 0;
    } else if (pattern_accept(parser, "+")) {
        repeat->min = 1;
    } else if (pattern_accept(parser, "?")) {
        repeat->max = 1;
    } else if (pattern_next_is(parser, "{")) {
        int found = parse_braces(parser, repeat);
        if (found != 1)
            return found;
        braces = true;
    } else {
        return 0;
    }
    bool fixed = braces && repeat->min == repeat->max;
    if (!(fixed && is_ruby) && pattern_accept(parser, "?"))  // after {n}, Ruby's ? makes all of it optional
        repeat->greed = GREED_LEAST;
    else if (!(braces && is_ruby) && pattern_accept(parser, "+"))  // after braces, Ruby's + repeats once more
        repeat->greed = GREED_ALL;
    return 1;
}

static int32_t times(int32_t a, int32_t b) {
    return a < 0 || b < 0 ? -1 : (int64_t)a * b > FAR ? FAR : a * b;
}

// An atom and its repetition. Consecutive folded literals are remembered in parser->before.
static int parse_repeated(struct pattern_parser *parser, int32_t *atom) {
    struct pattern_node repeat;
    uint32_t literal;
    int repeated = 0;
    bool any = false;
    TRY(parse_atom(parser, atom, &literal));
    while (*atom >= 0 && (repeated = parse_repeat(parser, &repeat)) == 1) {
        const struct pattern_node *child = &parser->tree->nodes[*atom];
        bool is_place = child->kind == NODE_ASSERT || child->kind == NODE_LOOK || child->kind == NODE_BEHIND;
        if (is_place || child->kind == NODE_KEEP)
            return pattern_parse_error(parser, "a repetition of an assertion");
        // Whether Oniguruma ends such a repetition early depends on the length of the repeated part.
        if (repeat.max > 1 && child->least == 0 && child->longest != 0)
            return pattern_parse_error(parser, "a counted repetition of a part that may be empty");
        repeat.first = *atom;
        repeat.least = times(child->least, repeat.min);
        repeat.longest = repeat.max == 0 || child->longest == 0 ? 0 : times(child->longest, repeat.max);
        *atom = pattern_add_node(parser, repeat);
        any = true;
    }
    TRY(repeated);
    bool counts = literal < UNICODE_LIMIT && !any && parser->on.any_case;
    uint32_t folded = counts ? unicode_fold(literal) : 0;
    if (literal < UNICODE_LIMIT && parser->on.any_case && parser->pattern->syntax == PATTERN_ONIGURUMA)
        TRY(check_row(parser, literal, folded));
    parser->before[0] = counts ? parser->before[1] : 0;
    parser->before[1] = folded;
    return 0;
}

// Spaces and comments under (?x).
static void skip_spaces(struct pattern_parser *parser) {
    while (parser->on.spaced && parser->at < parser->end) {
        if (*parser->at == '#')
            while (parser->at < parser->end && *parser->at != '\n')
                parser->at++;
        else if (memchr(" \t\r\n\f\v", *parser->at, 6))
            parser->at++;
        else
            return;
    }
}

static void append_child(struct pattern_tree *tree, struct pattern_node *parent, int32_t *last, int32_t child) {
    if (*last < 0)
        parent->first = child;
    else
        tree->nodes[*last].next = child;
    *last = child;
}

static int parse_sequence(struct pattern_parser *parser, int32_t *node) {
    struct pattern_node sequence = {.kind = NODE_SEQUENCE, .first = -1};
    int32_t last = -1;
    parser->before[0] = parser->before[1] = 0;
    for (skip_spaces(parser); parser->at < parser->end && *parser->at != '|' && *parser->at != ')';
         skip_spaces(parser)) {
        int32_t atom = -1;
        TRY(parse_repeated(parser, &atom));
        if (atom < 0)  // a comment, or switches that hold from here on
            continue;
        const struct pattern_node *child = &parser->tree->nodes[atom];
        sequence.least += child->least;
        sequence.least = sequence.least > FAR ? FAR : sequence.least;
        sequence.longest = sequence.longest < 0 || child->longest < 0 ? -1
                           : sequence.longest + child->longest > FAR  ? FAR
                                                                      : sequence.longest + child->longest;
        append_child(parser->tree, &sequence, &last, atom);
    }
    *node = pattern_add_node(parser, sequence);
    return 0;
}

static int pattern_parse_alternatives(struct pattern_parser *parser, int32_t *node) {
    struct pattern_node alternatives = {.kind = NODE_ALTERNATIVES, .first = -1, .least = FAR};
    int32_t last = -1;
    do {
        int32_t sequence = -1;
        TRY(parse_sequence(parser, &sequence));
        const struct pattern_node *child = &parser->tree->nodes[sequence];
        alternatives.least = child->least < alternatives.least ? child->least : alternatives.least;
        alternatives.longest = child->longest < 0 || alternatives.longest < 0 ? -1
                               : child->longest > alternatives.longest        ? child->longest
                                                                              : alternatives.longest;
        append_child(parser->tree, &alternatives, &last, sequence);
    } while (pattern_accept(parser, "|"));
    *node = pattern_add_node(parser, alternatives);
    return 0;
}

int pattern_parse(struct pattern *pattern, struct pattern_tree *tree, const char *text, size_t length, int32_t *root) {
    struct pattern_parser parser = {.pattern = pattern, .tree = tree, .text = text, .at = text, .end = text + length};
    if (length > LONGEST_PATTERN)
        return error_set("%s has %zu bytes, more than %d", pattern->name, length, LONGEST_PATTERN);
    TRY(pattern_parse_alternatives(&parser, root));
    if (parser.at < parser.end)
        return pattern_parse_error(&parser, ") without (");
    return 0;
}
