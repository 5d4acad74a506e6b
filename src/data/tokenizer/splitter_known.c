// The table of known patterns. A pattern's texts are those found in tokenizer files and packages. Any other text is
// matched by pattern_match.c, slower but with the same result.
#include "data/tokenizer/splitter.h"
#include <string.h>

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
