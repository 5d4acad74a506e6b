// General categories and lower case of characters, from our own tables (unicode_tables.c), for tokenizers whose
// references are tied to a Unicode version: ids must not change with the libraries of the machine. A table has one byte
// for each of the 1,114,112 code points, so a lookup is one load; only the pages of a text's scripts are in the cache.
#ifndef DATA_TOKENIZER_UNICODE_CATEGORY_H
#define DATA_TOKENIZER_UNICODE_CATEGORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { UNICODE_LIMIT = 0x110000 };

// The order is that of tools/make_unicode_tables.py. CN: unassigned, including surrogates.
enum unicode_category {
    UNICODE_CN,
    UNICODE_LU,
    UNICODE_LL,
    UNICODE_LT,
    UNICODE_LM,
    UNICODE_LO,
    UNICODE_MN,
    UNICODE_MC,
    UNICODE_ME,
    UNICODE_ND,
    UNICODE_NL,
    UNICODE_NO,
    UNICODE_PC,
    UNICODE_PD,
    UNICODE_PS,
    UNICODE_PE,
    UNICODE_PI,
    UNICODE_PF,
    UNICODE_PO,
    UNICODE_SM,
    UNICODE_SC,
    UNICODE_SK,
    UNICODE_SO,
    UNICODE_ZS,
    UNICODE_ZL,
    UNICODE_ZP,
    UNICODE_CC,
    UNICODE_CF,
    UNICODE_CO,
    UNICODE_CATEGORIES
};

// Sets of categories.
#define UNICODE_SET(category) ((uint32_t)1 << (category))
#define UNICODE_SET_RANGE(first, last) ((UNICODE_SET(last) << 1) - UNICODE_SET(first))
#define UNICODE_SET_L UNICODE_SET_RANGE(UNICODE_LU, UNICODE_LO)
#define UNICODE_SET_M UNICODE_SET_RANGE(UNICODE_MN, UNICODE_ME)
#define UNICODE_SET_N UNICODE_SET_RANGE(UNICODE_ND, UNICODE_NO)
#define UNICODE_SET_P UNICODE_SET_RANGE(UNICODE_PC, UNICODE_PO)
#define UNICODE_SET_S UNICODE_SET_RANGE(UNICODE_SM, UNICODE_SO)
#define UNICODE_SET_Z UNICODE_SET_RANGE(UNICODE_ZS, UNICODE_ZP)
#define UNICODE_SET_C (UNICODE_SET_RANGE(UNICODE_CC, UNICODE_CO) | UNICODE_SET(UNICODE_CN))

// Which characters are assigned, and a few whose category has changed since.
enum unicode_edition { UNICODE_EDITION_8, UNICODE_EDITION_9, UNICODE_EDITION_16 };

// The newest of them, by which text is split.
#define UNICODE_VERSION "16.0.0"

struct unicode_table {
    unsigned char category[UNICODE_LIMIT];
};

// Freed with free().
struct unicode_table *unicode_table_create(enum unicode_edition edition);

static inline enum unicode_category unicode_category(const struct unicode_table *table, uint32_t character) {
    return character < UNICODE_LIMIT ? (enum unicode_category)table->category[character] : UNICODE_CN;
}

static inline bool unicode_in_set(const struct unicode_table *table, uint32_t character, uint32_t set) {
    return set >> unicode_category(table, character) & 1;
}

// The property White_Space, the same in every edition.
static inline bool unicode_is_white_space(uint32_t c) {
    if (c < 0x80)
        return c == ' ' || (c >= 9 && c <= 13);
    return c == 0x85 || c == 0xA0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 ||
           c == 0x202F || c == 0x205F || c == 0x3000;
}

// What Python's strip and split take for a space.
static inline bool unicode_is_python_space(uint32_t c) {
    return unicode_is_white_space(c) || (c >= 0x1C && c <= 0x1F);
}

// \w in patterns: letters, marks, decimal digits, letter numbers, connectors, joiners, and the circled and squared
// letters.
static inline bool unicode_is_word(const struct unicode_table *table, uint32_t c) {
    const uint32_t words =
        UNICODE_SET_L | UNICODE_SET_M | UNICODE_SET(UNICODE_ND) | UNICODE_SET(UNICODE_NL) | UNICODE_SET(UNICODE_PC);
    return unicode_in_set(table, c, words) || (c >= 0x24B6 && c <= 0x24E9) || (c >= 0x1F130 && c <= 0x1F149) ||
           (c >= 0x1F150 && c <= 0x1F169) || (c >= 0x1F170 && c <= 0x1F189) || c == 0x200C || c == 0x200D;
}

// The lower case of a single character. U+0130, which becomes two characters (i, U+0307), is unchanged.
uint32_t unicode_lower(uint32_t character);

// A run of characters of one category: first to end - 1. `age` is the edition that has them.
struct unicode_run {
    uint32_t first, end;
    enum unicode_category category;
    uint32_t age;
    size_t next;       // the next row of the table
    uint32_t in_turn;  // further characters of this row, capital and small in turn
};

// Moves a zeroed run to the first run, and then to the next; false after the last.
bool unicode_run_next(struct unicode_run *run);

// The tables, for unicode_category.c.
extern const uint32_t unicode_runs[], unicode_8_exceptions[];
extern const int32_t unicode_lower_runs[];
extern const size_t unicode_runs_count, unicode_8_exceptions_count, unicode_lower_runs_count;

#endif
