// What a pattern is compiled to, shared by pattern_compile.c and pattern_match.c: a list of instructions for a
// machine with a stack of places to come back to.
#ifndef DATA_TOKENIZER_PATTERN_PROGRAM_H
#define DATA_TOKENIZER_PATTERN_PROGRAM_H

#include "data/tokenizer/pattern.h"

enum pattern_operation {
    PATTERN_SET,     // one character of sets[a]
    PATTERN_RUN,     // a run of sets[a]: min…max characters, as many as there are first; never fewer if possessive
    PATTERN_SPLIT,   // go on at a; at b where that fails
    PATTERN_JUMP,    // go on at a
    PATTERN_LOOK,    // the instructions from here+1 to a must match (or, negated, must not), and nothing is consumed
    PATTERN_BEFORE,  // the character before the place is in sets[a] (or, negated, is not, or there is none)
    PATTERN_ATOMIC,  // the instructions from here+1 to a match, and are never tried otherwise
    PATTERN_ASSERT,  // a: enum pattern_assertion
    PATTERN_END,     // of the pattern, or of the part of LOOK and ATOMIC
};

enum pattern_assertion { ASSERT_LINE_BEGIN, ASSERT_LINE_END, ASSERT_BEGIN, ASSERT_END, ASSERT_EDGE, ASSERT_NO_EDGE };
enum pattern_greed { GREED_MOST, GREED_LEAST, GREED_ALL };

struct pattern_instruction {
    enum pattern_operation operation;
    int32_t a, b;
    int32_t min, max;  // max < 0: any number
    enum pattern_greed greed;
    bool negated;
};

// A set of characters: categories and ranges, or everything else. Every character has just one category, so that the
// complement of a set of categories is one too.
struct pattern_set {
    uint32_t categories;
    struct pattern_range {
        uint32_t first, last;
    } * ranges;
    size_t range_count;
    bool negated;
    bool ascii[128];  // which of these are in the set, all told
};

struct pattern {
    const struct unicode_table *table;
    struct pattern_instruction *program;
    int32_t count, capacity;
    struct pattern_set *sets;
    int32_t set_count, set_capacity;
    int32_t word_set;  // \w, for \b
    char *name;
};

// Adds the characters of \w; and whether a character is in a set, its ASCII part left aside.
void pattern_set_add_word(struct pattern_set *set);
bool pattern_set_has(const struct pattern_set *set, const struct unicode_table *table, uint32_t character);

#endif
