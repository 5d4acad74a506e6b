// The tree of a pattern, between pattern_parse.c, pattern_parse_set.c and pattern_compile.c.
#ifndef DATA_TOKENIZER_PATTERN_PARSE_H
#define DATA_TOKENIZER_PATTERN_PARSE_H

#include "data/tokenizer/pattern_program.h"

enum pattern_node_kind {
    NODE_SET,           // value: number of the set
    NODE_SEQUENCE,      // children
    NODE_ALTERNATIVES,  // children
    NODE_REPEAT,        // one child
    NODE_LOOK,          // one child
    NODE_ATOMIC,        // one child
    NODE_BEFORE,        // value: number of the set
    NODE_ASSERT,        // value: enum pattern_assertion
};

struct pattern_node {
    enum pattern_node_kind kind;
    int32_t first, next;  // child and sibling, -1 if there is none
    int32_t value;
    int32_t min, max;  // of a repetition; max < 0: any number
    enum pattern_greed greed;
    bool negated;
    bool nullable;  // may match nothing
};

struct pattern_tree {
    struct pattern_node *nodes;
    int32_t count, capacity;
};

// Where the parser is.
struct pattern_parser {
    struct pattern *pattern;
    struct pattern_tree *tree;
    const char *text, *at, *end;
    int depth;
    bool any_case;
};

int pattern_parse(struct pattern *pattern, struct pattern_tree *tree, const char *text, size_t length, int32_t *root);

// An error at the place where the parser is.
int pattern_parse_error(const struct pattern_parser *parser, const char *what);

// A new, empty set; its number.
int32_t pattern_add_set(struct pattern *pattern);
void pattern_set_add_range(struct pattern_set *set, uint32_t first, uint32_t last);
// Adds a character, and its other cases where the parser stands in (?i:…).
int pattern_set_add_character(const struct pattern_parser *parser, struct pattern_set *set, uint32_t character);

// Parses one character of the text, an escape for one included; [ ] ( ) and so on are the caller's.
int pattern_parse_character(struct pattern_parser *parser, uint32_t *character);
// Parses \s, \p{L} and the like into a set: 1 if one stands there, else 0 and nothing is consumed.
int pattern_parse_class(struct pattern_parser *parser, struct pattern_set *set);
// Parses what stands after [.
int pattern_parse_brackets(struct pattern_parser *parser, int32_t *set);

#endif
