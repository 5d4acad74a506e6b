// Groups of a pattern: the text after ( .
#include "data/tokenizer/pattern_program.h"
#include "base/error.h"
#include <string.h>

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

int pattern_parse_group(struct pattern_parser *parser, int32_t *node) {
    if (++parser->depth > MOST_DEPTH)
        return pattern_parse_error(parser, "too many groups inside each other");
    TRY(parse_any_group(parser, node));
    parser->depth--;
    return 0;
}
