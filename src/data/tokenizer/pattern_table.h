// A pattern as a table of states, which cuts text into pieces with one lookup per byte and no backtracking. Not every
// pattern has one: pattern_table_create tells. The pieces are the matches of the pattern and the text between them.
#ifndef DATA_TOKENIZER_PATTERN_TABLE_H
#define DATA_TOKENIZER_PATTERN_TABLE_H

#include "data/tokenizer/pattern_program.h"

// ---- the table ----

// What becomes known when a character is read. Begins are pieces' begins: here, or at the last mark.
enum {
    TABLE_HERE = 1,         // a piece begins before this character
    TABLE_MARK = 2,         // one may begin before this character
    TABLE_MARKED = 4,       // one began at the last mark
    TABLE_SECOND_MARK = 8,  // the same for the shadow
    TABLE_SECOND = 16,      // one began at the last second mark, after the one at the mark
    TABLE_FAIL = 32,        // the table cannot tell: only while it is made
    TABLE_LATE = TABLE_MARKED | TABLE_SECOND,
};

enum {
    TABLE_STATES = 128,  // in a byte, with one bit to spare
    TABLE_TAIL = 254,    // bytes of a character after its first
    TABLE_END = 255,     // the end of the text
    TABLE_SYMBOLS = TABLE_TAIL - 128,
};

// The columns are the bytes of ASCII, then classes of characters: 128 + symbol, where the
// characters that the pattern does not tell apart are one symbol.
struct pattern_table {
    unsigned char next[TABLE_STATES][256];
    unsigned char flags[TABLE_STATES];
    unsigned char restart[TABLE_STATES];  // the state in which a piece begins after this one
    int first_here, first_late;           // states from here on have TABLE_HERE, from there on one of TABLE_LATE
    bool covers, looks_ahead;
    uint16_t index[PATTERN_PAGES];  // of pages of 256 characters
    unsigned char (*pages)[256];    // their columns
};

// ---- its making and its use ----

// `before` is NULL, or a table by which the text is cut first, each part then being a text of its own for the pattern.
// NULL if the pattern needs what a table cannot do: lookarounds at more than one character, groups that do not
// backtrack, empty matches, or more states than there is room for; or if `before` needs to look ahead.
struct pattern_table *pattern_table_create(const struct pattern *pattern, const struct pattern_table *before);
void pattern_table_free(struct pattern_table *table);  // NULL is fine
// Whether every text consists of matches, with nothing between them.
bool pattern_table_covers(const struct pattern_table *table);

// The length of the first piece of text, length > 0. *state is 0 at the beginning of a text, and is carried on.
size_t pattern_table_next(const struct pattern_table *table, const unsigned char *text, size_t length,
                          unsigned char *state);
// The ends of the first pieces; see split_pieces.
int pattern_table_split(const struct pattern_table *table, const unsigned char *text, size_t length, uint32_t *ends,
                        unsigned char *state);

// Positions of the bits of a mask. Always writes eight, since a branch on their number would be mispredicted.
static inline int pattern_write_bits(uint64_t mask, uint32_t base, uint32_t *out) {
    int count = __builtin_popcountll(mask);
    for (int done = 0; done < count; done += 8) {
        for (int i = 0; i < 8; i++) {
            out[done + i] = base + (uint32_t)__builtin_ctzll(mask | (uint64_t)1 << 63);  // never of 0
            mask &= mask - 1;
        }
    }
    return count;
}

#endif
