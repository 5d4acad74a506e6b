// The compiled form of a pattern, shared by pattern_compile.c and pattern_match.c: a list of instructions for a
// backtracking machine.
#ifndef DATA_TOKENIZER_PATTERN_PROGRAM_H
#define DATA_TOKENIZER_PATTERN_PROGRAM_H

#include "data/tokenizer/character_set.h"
#include "data/tokenizer/pattern.h"

enum pattern_operation {
    PATTERN_SET,     // one character of sets[a]
    PATTERN_RUN,     // a run of sets[a]: min…max characters, as many as possible first; never fewer if possessive
    PATTERN_SPLIT,   // continue at a; at b if that fails
    PATTERN_JUMP,    // continue at a
    PATTERN_LOOK,    // the instructions from here+1 to a must match (or, negated, must not); nothing is consumed
    PATTERN_BEFORE,  // the character before this place is in sets[a] (or, negated, is not, or there is none)
    PATTERN_BEHIND,  // like LOOK, but from min…max characters before this place up to it
    PATTERN_ATOMIC,  // the instructions from here+1 to a match, without backtracking into them
    PATTERN_ASSERT,  // a: enum pattern_assertion
    PATTERN_MARK,    // marks[b] = this place
    PATTERN_MOVED,   // continue at a if this place is still marks[b]
    PATTERN_END,     // of the pattern, or of the part of LOOK, BEHIND and ATOMIC
};

enum pattern_assertion {
    ASSERT_LINE_BEGIN,
    ASSERT_LINE_END,
    ASSERT_BEGIN,
    ASSERT_END,
    ASSERT_LAST_END,  // the end, or before a line feed that ends the text
    ASSERT_SEARCH,    // where the search began
    ASSERT_EDGE,
    ASSERT_NO_EDGE,
};
enum pattern_greed { GREED_MOST, GREED_LEAST, GREED_ALL };

struct pattern_instruction {
    enum pattern_operation operation;
    int32_t a, b;
    int32_t min, max;  // max < 0: any number
    enum pattern_greed greed;
    bool negated;
};

// A set, with tables for fast lookup.
struct pattern_set {
    struct character_set characters;
    bool ascii[128];
    uint16_t *index;       // (PATTERN_PAGES) of pages of 256 characters: 0 has none, 1 all; NULL in small sets
    unsigned char *pages;  // bits, the first for index 2
};
enum { PATTERN_PAGES = UNICODE_LIMIT / 256 + 1 };

enum { PATTERN_KEEP = 0 };  // the mark of \K

struct pattern {
    struct pattern_instruction *program;
    int32_t count, set_count;
    int64_t capacity, set_capacity;
    struct pattern_set *sets;
    size_t range_count;  // of all sets
    int32_t word_set;    // \w, for \b
    int32_t first_set;   // characters that a match may begin with; -1: it may be empty
    int32_t mark_count;
    bool keeps;            // the pattern has \K
    bool depends_on_path;  // matching after an instruction depends on more than the place: marks, \G
    bool may_insert_first;
    enum pattern_syntax syntax;
    char *name;
};

static inline bool pattern_set_has(const struct pattern_set *set, uint32_t character) {
    if (!set->index)
        return character_set_has(&set->characters, character);
    uint16_t page = set->index[character >> 8];
    return page < 2 ? page : set->pages[(size_t)(page - 2) * 32 + (character >> 3 & 31)] >> (character & 7) & 1;
}

// ---- the tree of a pattern ----

// Between the parser's files (pattern_parse*.c) and pattern_compile.c.
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
    int32_t count;
    int64_t capacity;
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

// An error at the parser's position: "has WHAT at byte N, which is not supported".
int pattern_parse_error(const struct pattern_parser *parser, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
bool pattern_next_is(const struct pattern_parser *parser, const char *text);
bool pattern_accept(struct pattern_parser *parser, const char *text);

// Takes over a set, sealed or not, and adds a node that matches one of its characters.
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
