// The tree of a pattern, between the parser's files (pattern_parse*.c) and pattern_compile.c.
#ifndef DATA_TOKENIZER_PATTERN_PARSE_H
#define DATA_TOKENIZER_PATTERN_PARSE_H

#include "data/tokenizer/pattern_program.h"

enum pattern_node_kind {
    NODE_SET,           // value: number of the set
    NODE_SEQUENCE,      // children
    NODE_ALTERNATIVES,  // children
    NODE_REPEAT,        // one child
    NODE_LOOK,          // one child
    NODE_BEHIND,        // one child
    NODE_ATOMIC,        // one child
    NODE_KEEP,          // \K
    NODE_ASSERT,        // value: enum pattern_assertion
};

struct pattern_node {
    enum pattern_node_kind kind;
    int32_t first, next;  // child and sibling, -1 if there is none
    int32_t value;
    int32_t min, max;        // of a repetition; max < 0: any number
    int32_t least, longest;  // characters that it may match; longest < 0: any number
    enum pattern_greed greed;
    bool negated;
};

struct pattern_tree {
    struct pattern_node *nodes;
    int32_t count, capacity;
};

// The switches of (?imx).
struct pattern_switches {
    bool any_case;
    bool any_dot;  // . also matches a line feed
    bool lines;    // ^ and $ match at lines
    bool spaced;   // spaces and comments are ignored
};

// The state of the parser.
struct pattern_parser {
    struct pattern *pattern;
    struct pattern_tree *tree;
    const char *text, *at, *end;
    int depth, looks;  // groups around this place; lookarounds among them
    struct pattern_switches on;
    uint32_t before[2];  // the previous characters, folded, if they are literal and case is ignored
};

int pattern_parse(struct pattern *pattern, struct pattern_tree *tree, const char *text, size_t length, int32_t *root);
int pattern_parse_alternatives(struct pattern_parser *parser, int32_t *node);
int pattern_parse_group(struct pattern_parser *parser, int32_t *node);  // what follows (

// An error at the parser's position: "has WHAT at byte N, which is not supported".
int pattern_parse_error(const struct pattern_parser *parser, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
bool pattern_next_is(const struct pattern_parser *parser, const char *text);
bool pattern_accept(struct pattern_parser *parser, const char *text);
int32_t pattern_add_node(struct pattern_parser *parser, struct pattern_node node);

// Takes over a set, sealed or not, and adds a node that matches one of its characters.
int pattern_add_set_node(struct pattern_parser *parser, struct character_set *set, int32_t *node);
int pattern_add_set(struct pattern *pattern, struct character_set *set, int32_t *number);

// Parses one character of the text, including an escape for one; the caller handles [ ] ( ) and so on.
int pattern_parse_character(struct pattern_parser *parser, uint32_t *character);
// Parses \s, \p{L} and the like into a set: 1 if there is one, else 0 and nothing is consumed. In brackets \w lacks the
// superscripts and fractions of Latin-1, as in Oniguruma.
int pattern_parse_class(struct pattern_parser *parser, bool in_brackets, struct character_set *set);
// Parses brackets after their [.
int pattern_parse_brackets(struct pattern_parser *parser, struct character_set *set);
// The characters of \w outside brackets.
void pattern_add_word(const struct pattern *pattern, struct character_set *set);

#endif
