// Known patterns, and splitting with masks, a chunk at a time. Nothing is carried from chunk to chunk: a chunk begins
// where a piece does, and pieces do not depend on the text before them. Blocks that masks cannot decide (see
// split_block.h), and pieces longer than a chunk, go through the pattern's table.
#include "data/tokenizer/splitter.h"
#include "data/tokenizer/pattern_table.h"
#include "data/tokenizer/split_block.h"
#include "base/error.h"
#include "base/memory.h"
#include "base/utf8.h"
#include <stdlib.h>
#include <string.h>

// ---- known patterns ----

// The table of known patterns. A pattern's texts are those found in tokenizer files and packages. Any other text
// goes through a table or pattern_match.c, slower but with the same result.

static const char *const gpt2_texts[] = {
    "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+",
    "'(?:[sdmt]|ll|ve|re)| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+",
    NULL,
};
static const char *const llama3_texts[] = {
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|"
    "\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+",
    "'(?i:[sdmt]|ll|ve|re)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|"
    "\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+",
    NULL,
};
static const char *const qwen_texts[] = {
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|"
    "\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+",
    NULL,
};
static const char *const o200k_texts[] = {
    "[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]*[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]+"
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)?|"
    "[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]+[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]*"
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)?|"
    "\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+",
    NULL,
};
static const char *const v1_texts[] = {
    "[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+",
    NULL,
};
static const char *const v2_texts[] = {
    "[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]*[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]+|"
    "[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]+[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]*|"
    "\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+",
    NULL,
};
static const char *const cl100k_texts[] = {
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|"
    "\\s+(?![\\s\\S])|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+",
    NULL,
};

// cl100k is tiktoken's, which takes all spaces at the end of a text as one piece, including line ends. Hugging Face
// files that call themselves cl100k have llama3's text.
static const struct split_pattern patterns[] = {
    {"gpt2", {.contractions = SPLIT_CONTRACTIONS_LOWER, .words = SPLIT_WORDS_BLANK}, gpt2_texts},
    {"cl100k",
     {SPLIT_CONTRACTIONS_ANY, SPLIT_WORDS_PREFIX, .most_digits = 3, .lines = true, .blanks_at_end = true},
     cl100k_texts},
    {"llama3", {SPLIT_CONTRACTIONS_ANY, SPLIT_WORDS_PREFIX, .most_digits = 3, .lines = true}, llama3_texts},
    {"qwen", {SPLIT_CONTRACTIONS_ANY, SPLIT_WORDS_PREFIX, .most_digits = 1, .lines = true}, qwen_texts},
    {"o200k",
     {SPLIT_CONTRACTIONS_AFTER, SPLIT_WORDS_CASE, .most_digits = 3, .lines = true, .slashes = true},
     o200k_texts},
    {"v1", {SPLIT_CONTRACTIONS_NONE, SPLIT_WORDS_PREFIX, .most_digits = 1, .lines = true}, v1_texts},
    {"v2", {SPLIT_CONTRACTIONS_NONE, SPLIT_WORDS_CASE, .most_digits = 1, .lines = true, .slashes = true}, v2_texts},
};

const struct split_pattern *split_pattern_by_name(const char *name) {
    for (size_t i = 0; i < sizeof patterns / sizeof patterns[0]; i++)
        if (strcmp(name, patterns[i].name) == 0)
            return &patterns[i];
    return NULL;
}

const struct split_pattern *split_pattern_by_text(const char *text, size_t length) {
    for (size_t i = 0; i < sizeof patterns / sizeof patterns[0]; i++)
        for (const char *const *known = patterns[i].texts; *known; known++)
            if (strlen(*known) == length && memcmp(*known, text, length) == 0)
                return &patterns[i];
    return NULL;
}

// ---- splitters ----

struct splitter {
    struct split_rules rules;
    struct unicode_table *unicode;  // for masks; NULL: only the table is used
    struct pattern_table *table;    // NULL for SPLIT_WORDS_SPACES
};

struct unicode_table *split_table_create(void) {
    struct unicode_table *table = unicode_table_create(UNICODE_EDITION_16);
    for (uint32_t c = 0; c <= 0x85; c++)
        if (unicode_is_white_space(c))
            table->category[c] = UNICODE_ZS;
    return table;
}

struct splitter *splitter_create(const struct split_pattern *known) {
    struct pattern *pattern;
    const char *text = known->texts[0];
    CHECK(pattern_compile(&pattern, PATTERN_ONIGURUMA, text, strlen(text), known->name) == 0);
    struct splitter *splitter = splitter_create_pattern(pattern, NULL);
    CHECK(splitter);
    splitter->rules = known->rules;
    splitter->unicode = split_table_create();
    pattern_free(pattern);
    return splitter;
}

struct splitter *splitter_create_spaces(const struct split_rules *rules) {
    struct splitter *splitter = memory_alloc(sizeof *splitter);
    *splitter = (struct splitter){.rules = *rules, .unicode = split_table_create()};
    return splitter;
}

struct splitter *splitter_create_pattern(const struct pattern *pattern, struct splitter *first) {
    struct pattern_table *table = pattern_table_create(pattern, first ? first->table : NULL);
    splitter_free(first);
    if (!table)
        return NULL;
    struct splitter *splitter = memory_alloc(sizeof *splitter);
    splitter->table = table;
    return splitter;
}

void splitter_free(struct splitter *splitter) {
    if (!splitter)
        return;
    pattern_table_free(splitter->table);
    free(splitter->unicode);
    free(splitter);
}

bool splitter_covers(const struct splitter *splitter) {
    return !splitter->table || pattern_table_covers(splitter->table);
}

static bool is_ascii_letter(unsigned char byte) {
    return (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z');
}

bool split_is_ascii_other(unsigned char byte) {
    return byte < 0x80 && !is_ascii_letter(byte) && !(byte >= '0' && byte <= '9') && byte != ' ' &&
           !(byte >= 9 && byte <= 13);
}

static bool is_space(const struct split_rules *rules, unsigned char byte) {
    return byte == ' ' || (rules->feeds && byte == '\n');
}

static size_t spaces_and_word(const struct split_rules *rules, const unsigned char *text, size_t length) {
    for (size_t at = 1; at < length; at++) {
        if (rules->between_letters) {
            if (text[at] == ' ' && at + 1 < length && is_ascii_letter(text[at - 1]) && is_ascii_letter(text[at + 1]))
                return at;
            continue;
        }
        if (is_space(rules, text[at]) && !is_space(rules, text[at - 1]))
            return at;
        if (rules->after_letters && is_ascii_letter(text[at - 1]) && split_is_ascii_other(text[at]))
            return at;
        if (rules->lines && (text[at - 1] == '\n' || text[at] == '\n'))
            return at;
    }
    return length;
}

size_t split_text(const struct splitter *splitter, const unsigned char *text, size_t length) {
    return splitter->table ? pattern_table_next(splitter->table, text, length, &(unsigned char){0})
                           : spaces_and_word(&splitter->rules, text, length);
}

// ---- from text to masks ----

// Whole blocks are processed with vector instructions; then characters that are not ASCII, of which
// most texts have few, are looked up one by one. Bytes of a character that reach into the next block are carried over.

#define TWO_CASES (UNICODE_SET(UNICODE_LU) | UNICODE_SET(UNICODE_LL))

// Bits for the first bytes of the next block.
struct carried {
    uint64_t letters, numbers, blanks, capitals, tails;
};

struct character {
    size_t bytes;
    enum unicode_category category;  // ill-formed: CN
};

static inline struct character character_at(const struct unicode_table *table, const unsigned char *text, size_t left) {
    uint32_t value;
    unsigned char first = text[0];
    if (first >= 0xC2 && first < 0xE0 && left >= 2 && (text[1] & 0xC0) == 0x80) {
        value = (uint32_t)(first & 0x1F) << 6 | (text[1] & 0x3Fu);
        return (struct character){2, (enum unicode_category)table->category[value]};
    }
    if (first > 0xE0 && first < 0xED && left >= 3 && (text[1] & 0xC0) == 0x80 && (text[2] & 0xC0) == 0x80) {
        value = (uint32_t)(first & 0xF) << 12 | (text[1] & 0x3Fu) << 6 | (text[2] & 0x3Fu);
        return (struct character){3, (enum unicode_category)table->category[value]};
    }
    bool valid;
    size_t bytes = utf8_decode(text, left, &value, &valid);
    return (struct character){bytes, valid ? (enum unicode_category)table->category[value] : UNICODE_CN};
}

// All bits if the category is in the set, else none.
static inline uint64_t all_if(uint32_t set, enum unicode_category category) {
    return -(uint64_t)(set >> category & 1);
}

// The classes of the characters that begin in block i; false if they make it hard.
static bool add_characters(struct split_chunk *chunk, const struct split_needs *needs, int i, struct carried *carried) {
    struct split_block *block = &chunk->blocks[i];
    size_t base = (size_t)i * SPLIT_BLOCK;
    uint64_t high = block->high & ~carried->tails;
    bool easy = true;
    block->letters |= carried->letters;
    block->numbers |= carried->numbers;
    block->blanks |= carried->blanks;
    if (needs->wide)
        block->capitals |= carried->capitals;
    block->tails |= carried->tails;
    *carried = (struct carried){0};
    while (high) {
        int bit = __builtin_ctzll(high);
        size_t at = base + (size_t)bit;
        struct character character = character_at(needs->table, chunk->text + at, chunk->length - at);
        uint64_t bytes = ((uint64_t)1 << character.bytes) - 1;
        uint64_t here = bytes << bit, after = bytes >> 1 >> (63 - bit);  // by 64 - bit, which may be 64
        uint64_t letter = all_if(UNICODE_SET_L, character.category), number = all_if(UNICODE_SET_N, character.category);
        uint64_t blank = all_if(UNICODE_SET_Z, character.category);
        uint64_t capital = needs->wide ? all_if(UNICODE_SET(UNICODE_LU), character.category) : 0;
        block->letters |= here & letter;
        block->numbers |= here & number;
        block->blanks |= here & blank;
        if (capital)
            block->capitals |= here;
        block->tails |= here & (here - 1);  // all but the lowest bit
        if (after)
            *carried = (struct carried){after & letter, after & number, after & blank, after & capital, after};
        if (needs->only_two_cases && (UNICODE_SET(character.category) & (UNICODE_SET_L | UNICODE_SET_M) & ~TWO_CASES))
            easy = false;
        if (needs->ascii_numbers && number)
            easy = false;
        high &= ~here;
    }
    return easy;
}

// The block in which the text ends, after `left` bytes.
static uint64_t classify_last(struct split_block *block, const unsigned char *text, size_t left, bool wide) {
    unsigned char padded[SPLIT_BLOCK] = {0};
    memcpy(padded, text, left);
    split_classify_ascii(padded, 1, wide, block);
    block->blanks |= ~(uint64_t)0 << left;
    return block->high;
}

void split_classify(struct split_chunk *chunk, const struct split_needs *needs, const unsigned char *text,
                    size_t length) {
    chunk->text = text;
    chunk->length = length;
    chunk->at_end = length <= SPLIT_CHUNK;
    chunk->count = chunk->at_end ? (int)((length + SPLIT_BLOCK - 1) / SPLIT_BLOCK) : SPLIT_BLOCKS;
    int whole = length / SPLIT_BLOCK < SPLIT_BLOCKS + 1 ? (int)(length / SPLIT_BLOCK) : SPLIT_BLOCKS + 1;
    uint64_t any_high = split_classify_ascii(text, whole, needs->wide, chunk->blocks);
    size_t done = (size_t)whole * SPLIT_BLOCK;
    int filled = whole;
    if (whole <= SPLIT_BLOCKS && done < length)
        any_high |= classify_last(&chunk->blocks[filled++], text + done, length - done, needs->wide);
    if (filled == chunk->count)
        chunk->blocks[filled++] = (struct split_block){.blanks = ~(uint64_t)0};
    chunk->hard = chunk->count;
    if (!any_high)
        return;
    struct carried carried = {0};
    for (int i = 0; i <= chunk->count; i++) {
        if (chunk->blocks[i].high && !add_characters(chunk, needs, i, &carried)) {
            chunk->hard = i < chunk->count ? i : chunk->count;
            return;
        }
    }
}

// ---- from masks to pieces ----

_Static_assert(SPLIT_MOST >= SPLIT_CHUNK + SPLIT_BLOCK, "as many pieces as bytes, and eight are written at a time");

// Pieces that end at or before `until`, and the one that crosses it.
static int split_plainly(const struct splitter *splitter, const unsigned char *text, size_t length, size_t until,
                         uint32_t *ends) {
    int count = 0;
    for (size_t at = 0; at < length && (count == 0 || at < until) && count < SPLIT_CHUNK;) {
        at += split_text(splitter, text + at, length - at);
        ends[count++] = at < UINT32_MAX ? (uint32_t)at : UINT32_MAX;
    }
    return count;
}

int split_pieces(const struct splitter *splitter, const unsigned char *text, size_t length, uint32_t *ends,
                 unsigned char *state) {
    const struct split_rules *rules = &splitter->rules;
    if (!splitter->unicode)
        return pattern_table_split(splitter->table, text, length, ends, state);
    struct split_chunk chunk;
    uint64_t starts[SPLIT_BLOCKS];
    bool is_wide = rules->words != SPLIT_WORDS_BLANK;
    struct split_needs needs = {.table = splitter->unicode,
                                .wide = is_wide,
                                .only_two_cases = rules->words == SPLIT_WORDS_CASE,
                                .ascii_numbers = rules->most_digits == 3};
    split_classify(&chunk, &needs, text, length);
    split_find_starts(rules, &chunk, starts);
    bool is_whole = chunk.at_end && chunk.hard == chunk.count;
    if (is_whole && length % SPLIT_BLOCK)
        starts[chunk.count - 1] &= ~(~(uint64_t)0 << length % SPLIT_BLOCK);
    int count = 0;
    for (int i = 0; i < chunk.hard; i++) {
        uint64_t beginning = i == 0;  // the chunk's beginning is not an end
        count += pattern_write_bits(starts[i] & ~beginning, (uint32_t)i * SPLIT_BLOCK, ends + count);
    }
    if (is_whole)
        ends[count++] = (uint32_t)length;
    if (count > 0)
        return count;
    return split_plainly(splitter, text, length, (size_t)(chunk.hard + 1) * SPLIT_BLOCK, ends);
}
