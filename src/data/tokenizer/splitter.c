// The patterns' rules in the order in which the patterns try them. Where a pattern would backtrack, a comment states
// the effect.
#include "data/tokenizer/splitter.h"
#include "base/utf8.h"
#include <stdlib.h>
#include <string.h>

// Letters by where they may occur in SPLIT_WORDS_CASE: among the leading capital letters, after them, or both.
#define CAPITALS                                                                                                       \
    (UNICODE_SET(UNICODE_LU) | UNICODE_SET(UNICODE_LT) | UNICODE_SET(UNICODE_LM) | UNICODE_SET(UNICODE_LO) |           \
     UNICODE_SET_M)
#define SMALLS (UNICODE_SET(UNICODE_LL) | UNICODE_SET(UNICODE_LM) | UNICODE_SET(UNICODE_LO) | UNICODE_SET_M)
#define LETTERS UNICODE_SET_L
#define NUMBERS UNICODE_SET_N
#define BLANKS UNICODE_SET_Z
#define OTHERS (~(LETTERS | NUMBERS | BLANKS))

struct text_view {
    const struct unicode_table *table;
    const unsigned char *text;
    size_t length;
};

struct unicode_table *split_table_create(void) {
    struct unicode_table *table = unicode_table_create(UNICODE_EDITION_16);
    for (uint32_t c = 0; c <= 0x85; c++)
        if (unicode_is_white_space(c))
            table->category[c] = UNICODE_ZS;
    return table;
}

// The set of the one category of the character at `at` < length, and its length.
static inline uint32_t set_at(const struct text_view *view, size_t at, size_t *bytes) {
    unsigned char first = view->text[at];
    if (first < 0x80) {
        *bytes = 1;
        return UNICODE_SET(view->table->category[first]);
    }
    uint32_t character;
    bool valid;
    *bytes = utf8_decode(view->text + at, view->length - at, &character, &valid);
    return UNICODE_SET(valid ? view->table->category[character] : UNICODE_CN);
}

// Offset of the first character at or after `at` that is not in the set.
static inline size_t skip(const struct text_view *view, size_t at, uint32_t set) {
    size_t bytes;
    while (at < view->length && (set_at(view, at, &bytes) & set))
        at += bytes;
    return at;
}

static inline bool is_line_end(unsigned char byte) {
    return byte == '\n' || byte == '\r';
}

// If case is ignored, U+017F is an s.
size_t split_contraction(const unsigned char *text, size_t length, bool any_case) {
    if (length < 2 || text[0] != '\'')
        return 0;
    unsigned char bit = any_case ? 0x20 : 0;  // makes ASCII letters lower case, and no other byte one of these
    unsigned char second = text[1] | bit, third = length > 2 ? text[2] | bit : 0;
    if (second == 's' || second == 't' || second == 'm' || second == 'd')
        return 2;
    if ((second == 'r' && third == 'e') || (second == 'v' && third == 'e') || (second == 'l' && third == 'l'))
        return 3;
    return any_case && length > 2 && text[1] == 0xC5 && text[2] == 0xBF ? 3 : 0;
}

static size_t contraction(const struct text_view *view, size_t at, bool any_case) {
    return split_contraction(view->text + at, view->length - at, any_case);
}

// ---- words ----

// [CAPITALS]*[SMALLS]+ from `at`: the end, 0 if it does not match. If no small letter follows the capitals, they end
// with the last one that also counts as small.
static size_t small_word(const struct text_view *view, size_t at) {
    size_t bytes, both_end = 0;
    while (at < view->length) {
        uint32_t set = set_at(view, at, &bytes);
        if (!(set & CAPITALS))
            return set & SMALLS ? skip(view, at + bytes, SMALLS) : both_end;
        at += bytes;
        if (set & SMALLS)
            both_end = at;
    }
    return both_end;
}

// The words of SPLIT_WORDS_CASE, 0 if there is none here. `first` is the set and `bytes` the length of the first
// character. A mark can be the character before a word or its first one. The former is tried first: both for
// [CAPITALS]*[SMALLS]+, then both for [CAPITALS]+[SMALLS]*.
static size_t case_word(const struct text_view *view, uint32_t first, size_t bytes) {
    bool prefix = !(first & (LETTERS | NUMBERS)) && !is_line_end(view->text[0]);
    size_t end = prefix ? small_word(view, bytes) : 0;
    if (!end)
        end = small_word(view, 0);
    if (!end && prefix) {
        end = skip(view, bytes, CAPITALS);
        if (end == bytes)
            end = 0;
    }
    return end ? end : skip(view, 0, CAPITALS);
}

// [^\r\n\p{L}\p{N}]?\p{L}+
static size_t prefix_word(const struct text_view *view, uint32_t first, size_t bytes) {
    if (first & LETTERS)
        return skip(view, bytes, LETTERS);
    if ((first & NUMBERS) || is_line_end(view->text[0]))
        return 0;
    size_t end = skip(view, bytes, LETTERS);
    return end > bytes ? end : 0;
}

// ---- the rest ----

static size_t number(const struct text_view *view, int most_digits) {
    size_t at = 0, bytes;
    for (int digits = 0; at < view->length && (most_digits == 0 || digits < most_digits); digits++) {
        if (!(set_at(view, at, &bytes) & NUMBERS))
            break;
        at += bytes;
    }
    return at;
}

// ␣?[^\s\p{L}\p{N}]+ and its optional end; 0 if it does not match.
static size_t others(const struct split_rules *rules, const struct text_view *view) {
    size_t begin = view->text[0] == ' ', end = skip(view, begin, OTHERS);
    if (end == begin)
        return 0;
    while (rules->lines && end < view->length &&
           (is_line_end(view->text[end]) || (rules->slashes && view->text[end] == '/')))
        end++;
    return end;
}

// The text begins with a space. \s*[\r\n]+ ends with the last line end of the run. \s+(?!\S) takes a run up to
// the end of the text, else all but its last space; a single space is left for \s+.
static size_t blanks(const struct split_rules *rules, const struct text_view *view) {
    size_t at = 0, last = 0, line_end = 0, bytes;
    while (at < view->length && (set_at(view, at, &bytes) & BLANKS)) {
        last = at;
        at += bytes;
        if (bytes == 1 && is_line_end(view->text[last]))
            line_end = at;
    }
    if (at == view->length && rules->blanks_at_end)
        return at;
    if (rules->lines && line_end)
        return line_end;
    return at == view->length || last == 0 ? at : last;
}

// ␣?\p{L}+|␣?\p{N}+|␣?[^\s\p{L}\p{N}]+: a space, then the longest run of one class; 0 if a space follows.
static size_t blank_word(const struct text_view *view) {
    size_t begin = view->text[0] == ' ', bytes;
    if (begin == view->length)
        return 0;
    uint32_t set = set_at(view, begin, &bytes);
    if (set & BLANKS)
        return 0;
    return skip(view, begin + bytes, set & LETTERS ? LETTERS : set & NUMBERS ? NUMBERS : OTHERS);
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

size_t split_text(const struct split_rules *rules, const struct unicode_table *table, const unsigned char *text,
                  size_t length) {
    struct text_view view = {table, text, length};
    size_t bytes, end = 0;
    if (rules->words == SPLIT_WORDS_SPACES)
        return spaces_and_word(rules, text, length);
    if (rules->contractions == SPLIT_CONTRACTIONS_LOWER || rules->contractions == SPLIT_CONTRACTIONS_ANY)
        end = contraction(&view, 0, rules->contractions == SPLIT_CONTRACTIONS_ANY);
    if (end)
        return end;
    if (rules->words == SPLIT_WORDS_BLANK) {
        end = blank_word(&view);
        return end ? end : blanks(rules, &view);
    }
    uint32_t first = set_at(&view, 0, &bytes);
    if (rules->words == SPLIT_WORDS_CASE) {
        end = case_word(&view, first, bytes);
        if (end && rules->contractions == SPLIT_CONTRACTIONS_AFTER)
            end += contraction(&view, end, true);
    } else {
        end = prefix_word(&view, first, bytes);
    }
    if (end)
        return end;
    if (first & NUMBERS)
        return number(&view, rules->most_digits);
    end = others(rules, &view);
    return end ? end : blanks(rules, &view);
}

// ---- known patterns ----

// The table of known patterns. A pattern's texts are those found in tokenizer files and packages. Any other text is
// matched by pattern_match.c, slower but with the same result.

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

#define GPT2_RULES                                                                                                     \
    { .contractions = SPLIT_CONTRACTIONS_LOWER, .words = SPLIT_WORDS_BLANK }
const struct split_rules split_rules_gpt2 = GPT2_RULES;

// cl100k is tiktoken's, which takes all spaces at the end of a text as one piece, including line ends. Hugging Face
// files that call themselves cl100k have llama3's text.
static const struct split_pattern patterns[] = {
    {"gpt2", GPT2_RULES, gpt2_texts},
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
