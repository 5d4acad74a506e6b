// The grammar of patterns: alternatives of sequences of repeated atoms, by recursive descent into a tree. Patterns come
// from files, so the depth is bounded, and what is not supported is an error that names the place.
#include "data/tokenizer/pattern_parse.h"
#include "base/error.h"
#include "base/memory.h"
#include <string.h>

enum { MOST_DEPTH = 50, MOST_REPEATS = 1000, LONGEST_PATTERN = 20000 };

int pattern_parse_error(const struct pattern_parser *parser, const char *what) {
    return error_set("%s: has %s at byte %td, which is not supported", parser->pattern->name, what,
                     parser->at - parser->text);
}

static int32_t add_node(struct pattern_parser *parser, struct pattern_node node) {
    struct pattern_tree *tree = parser->tree;
    if (tree->count == tree->capacity) {
        tree->capacity = tree->capacity * 2 + 64;
        tree->nodes = memory_realloc(tree->nodes, (size_t)tree->capacity * sizeof *tree->nodes);
    }
    node.next = -1;
    tree->nodes[tree->count] = node;
    return tree->count++;
}

static bool next_is(const struct pattern_parser *parser, const char *text) {
    size_t length = strlen(text);
    return (size_t)(parser->end - parser->at) >= length && memcmp(parser->at, text, length) == 0;
}

static bool accept(struct pattern_parser *parser, const char *text) {
    if (!next_is(parser, text))
        return false;
    parser->at += strlen(text);
    return true;
}

static int parse_alternatives(struct pattern_parser *parser, int32_t *node);

// What stands after (?< up to ): a set before the place.
static int parse_before(struct pattern_parser *parser, bool negated, int32_t *node) {
    struct pattern_node before = {.kind = NODE_BEFORE, .first = -1, .negated = negated, .nullable = true};
    if (accept(parser, "[")) {
        TRY(pattern_parse_brackets(parser, &before.value));
    } else {
        struct pattern_set set = {0};
        before.value = pattern_add_set(parser->pattern);
        uint32_t character;
        int status = pattern_parse_class(parser, &set);
        if (status == 0)
            status = pattern_parse_character(parser, &character);
        if (status == 0)
            status = pattern_set_add_character(parser, &set, character);
        parser->pattern->sets[before.value] = set;
        if (status < 0)
            return -1;
    }
    if (!accept(parser, ")"))
        return pattern_parse_error(parser, "more than one character to look back at");
    *node = add_node(parser, before);
    return 0;
}

// What stands after ( .
static int parse_group(struct pattern_parser *parser, int32_t *node) {
    struct pattern_node group = {.kind = NODE_SEQUENCE, .first = -1};
    bool any_case = parser->any_case;
    if (++parser->depth > MOST_DEPTH)
        return pattern_parse_error(parser, "too many groups inside each other");
    if (accept(parser, "?<=") || next_is(parser, "?<!")) {
        bool negated = accept(parser, "?<!");
        parser->depth--;
        return parse_before(parser, negated, node);
    }
    if (accept(parser, "?:")) {
        group.kind = NODE_SEQUENCE;
    } else if (accept(parser, "?i:")) {
        parser->any_case = true;
    } else if (accept(parser, "?>")) {
        group.kind = NODE_ATOMIC;
    } else if (accept(parser, "?=")) {
        group.kind = NODE_LOOK;
    } else if (accept(parser, "?!")) {
        group.kind = NODE_LOOK;
        group.negated = true;
    } else if (next_is(parser, "?")) {
        return pattern_parse_error(parser, "this kind of group");
    }
    TRY(parse_alternatives(parser, &group.first));
    if (!accept(parser, ")"))
        return pattern_parse_error(parser, "( without )");
    parser->any_case = any_case;
    parser->depth--;
    group.nullable = group.kind == NODE_LOOK || parser->tree->nodes[group.first].nullable;
    *node = add_node(parser, group);
    return 0;
}

static int parse_assertion(struct pattern_parser *parser, int32_t *node) {
    static const struct {
        const char *text;
        enum pattern_assertion assertion;
    } assertions[] = {{"^", ASSERT_LINE_BEGIN}, {"$", ASSERT_LINE_END}, {"\\A", ASSERT_BEGIN},
                      {"\\z", ASSERT_END},      {"\\b", ASSERT_EDGE},   {"\\B", ASSERT_NO_EDGE}};
    for (size_t i = 0; i < sizeof assertions / sizeof assertions[0]; i++)
        if (accept(parser, assertions[i].text)) {
            *node = add_node(parser, (struct pattern_node){.kind = NODE_ASSERT,
                                                           .first = -1,
                                                           .value = (int32_t)assertions[i].assertion,
                                                           .nullable = true});
            return 1;
        }
    return 0;
}

static int parse_atom(struct pattern_parser *parser, int32_t *node) {
    if (accept(parser, "("))
        return parse_group(parser, node);
    if (parse_assertion(parser, node))
        return 0;
    if (memchr("*+?{", *parser->at, 4))
        return pattern_parse_error(parser, "a repetition of nothing");
    struct pattern_node atom = {.kind = NODE_SET, .first = -1};
    if (accept(parser, "[")) {
        TRY(pattern_parse_brackets(parser, &atom.value));
    } else {
        struct pattern_set set = {0};
        atom.value = pattern_add_set(parser->pattern);
        int status;
        if (accept(parser, "\\W")) {
            pattern_set_add_word(&set);
            set.negated = true;
            status = 1;
        } else if (accept(parser, ".")) {
            pattern_set_add_range(&set, '\n', '\n');
            set.negated = true;
            status = 1;
        } else {
            status = pattern_parse_class(parser, &set);
        }
        uint32_t character;
        if (status == 0)
            status = pattern_parse_character(parser, &character) < 0
                         ? -1
                         : pattern_set_add_character(parser, &set, character);
        parser->pattern->sets[atom.value] = set;
        if (status < 0)
            return -1;
    }
    *node = add_node(parser, atom);
    return 0;
}

static int parse_count(struct pattern_parser *parser, int32_t *count) {
    *count = -1;
    while (parser->at < parser->end && *parser->at >= '0' && *parser->at <= '9') {
        *count = (*count < 0 ? 0 : *count * 10) + (*parser->at++ - '0');
        if (*count > MOST_REPEATS)
            return pattern_parse_error(parser, "more than 1000 repetitions");
    }
    return 0;
}

// Parses a repetition: 1 if there is one.
static int parse_repeat(struct pattern_parser *parser, struct pattern_node *repeat) {
    bool braces = false;
    *repeat = (struct pattern_node){.kind = NODE_REPEAT, .max = -1};
    if (accept(parser, "*")) {
        repeat->min = 0;
    } else if (accept(parser, "+")) {
        repeat->min = 1;
    } else if (accept(parser, "?")) {
        repeat->max = 1;
    } else if (accept(parser, "{")) {
        braces = true;
        TRY(parse_count(parser, &repeat->min));
        repeat->max = repeat->min;
        if (accept(parser, ","))
            TRY(parse_count(parser, &repeat->max));
        if (!accept(parser, "}") || (repeat->min < 0 && repeat->max < 0) ||
            (repeat->max >= 0 && repeat->max < repeat->min))
            return pattern_parse_error(parser, "braces that are no count");
        repeat->min = repeat->min < 0 ? 0 : repeat->min;
    } else {
        return 0;
    }
    if (accept(parser, "?"))
        repeat->greed = GREED_LEAST;
    else if (!braces && accept(parser, "+"))  // after braces, + repeats once more
        repeat->greed = GREED_ALL;
    return 1;
}

static int parse_sequence(struct pattern_parser *parser, int32_t *node) {
    struct pattern_node sequence = {.kind = NODE_SEQUENCE, .first = -1, .nullable = true};
    int32_t last = -1;
    while (parser->at < parser->end && *parser->at != '|' && *parser->at != ')') {
        int32_t atom = -1;
        TRY(parse_atom(parser, &atom));
        struct pattern_node repeat;
        int repeated;
        while ((repeated = parse_repeat(parser, &repeat)) == 1) {
            repeat.first = atom;
            repeat.nullable = repeat.min == 0 || parser->tree->nodes[atom].nullable;
            atom = add_node(parser, repeat);
        }
        if (repeated < 0)
            return -1;
        sequence.nullable = sequence.nullable && parser->tree->nodes[atom].nullable;
        if (last < 0)
            sequence.first = atom;
        else
            parser->tree->nodes[last].next = atom;
        last = atom;
    }
    *node = add_node(parser, sequence);
    return 0;
}

static int parse_alternatives(struct pattern_parser *parser, int32_t *node) {
    struct pattern_node alternatives = {.kind = NODE_ALTERNATIVES, .first = -1};
    int32_t last = -1;
    do {
        int32_t sequence;
        TRY(parse_sequence(parser, &sequence));
        alternatives.nullable = alternatives.nullable || parser->tree->nodes[sequence].nullable;
        if (last < 0)
            alternatives.first = sequence;
        else
            parser->tree->nodes[last].next = sequence;
        last = sequence;
    } while (accept(parser, "|"));
    *node = add_node(parser, alternatives);
    return 0;
}

int pattern_parse(struct pattern *pattern, struct pattern_tree *tree, const char *text, size_t length, int32_t *root) {
    struct pattern_parser parser = {.pattern = pattern, .tree = tree, .text = text, .at = text, .end = text + length};
    if (length > LONGEST_PATTERN)
        return error_set("%s: has %zu bytes, more than %d", pattern->name, length, LONGEST_PATTERN);
    TRY(parse_alternatives(&parser, root));
    if (parser.at < parser.end)
        return pattern_parse_error(&parser, ") without (");
    return 0;
}
