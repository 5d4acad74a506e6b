// Cutting text into pre-tokens by the patterns of the well-known byte-level tokenizers, hand-written. They are one
// family: contractions, words, numbers, other characters, blanks, each in a few forms; struct split_rules says which.
// pattern.h has a matcher for patterns in general, slower, which these are tested against.
#ifndef DATA_TOKENIZER_SPLITTER_H
#define DATA_TOKENIZER_SPLITTER_H

#include "data/tokenizer/unicode_category.h"

enum split_contractions {
    SPLIT_CONTRACTIONS_NONE,
    SPLIT_CONTRACTIONS_LOWER,  // 's|'t|'re|'ve|'m|'ll|'d
    SPLIT_CONTRACTIONS_ANY,    // the same in any case
    SPLIT_CONTRACTIONS_AFTER,  // in any case, as the end of a word
};

enum split_words {
    SPLIT_WORDS_BLANK,   // ␣?\p{L}+, and numbers and others with a blank before them likewise
    SPLIT_WORDS_PREFIX,  // [^\r\n\p{L}\p{N}]?\p{L}+
    SPLIT_WORDS_CASE,    // as before, but upper case begins another word; marks belong to words
    SPLIT_WORDS_SPACES,  // ␣*[^␣]*, for SentencePiece's way of words; of the rest only after_letters and lines count
};

struct split_rules {
    enum split_contractions contractions;
    enum split_words words;
    int most_digits;     // of a number: 1, 3, or 0 for any count
    bool lines;          // [\r\n]* after other characters, and \s*[\r\n]+ among blanks
    bool slashes;        // [\r\n/]* there
    bool blanks_at_end;  // \s+$ before all that deals with blanks
    // For SPLIT_WORDS_SPACES: !"#… begin a piece after an ASCII letter. With `lines`, line feeds are pieces there;
    // with `feeds`, they are as spaces. With `between_letters`, a space between two ASCII letters begins a piece, and
    // nothing else does.
    bool after_letters;
    bool feeds;
    bool between_letters;
};

struct split_pattern {
    const char *name;  // as --tiktoken-pattern takes it
    struct split_rules rules;
    const char *const *texts;  // the pattern as it is written in files, NULL at the end
};

// The rules of "gpt2".
extern const struct split_rules split_rules_gpt2;

// A known pattern by its name or its text; NULL if there is none.
const struct split_pattern *split_pattern_by_name(const char *name);
const struct split_pattern *split_pattern_by_text(const char *text, size_t length);

// The categories of Unicode 16.0, with every character of White_Space in Z: what split takes. Freed with free().
struct unicode_table *split_table_create(void);

// Length of the first piece of text, length > 0. The text must be the whole rest of the document, since a run of
// blanks is cut by what follows it. Bytes that are not UTF-8 count as characters that are neither letters, numbers
// nor blanks.
size_t split_text(const struct split_rules *rules, const struct unicode_table *table, const unsigned char *text,
                  size_t length);

// Whether a byte is ASCII and neither a letter, a digit nor a blank.
bool split_is_ascii_other(unsigned char byte);

// Length of the contraction that the text begins with, 0 if it begins with none.
size_t split_contraction(const unsigned char *text, size_t length, bool any_case);

// The first pieces of text[0…length), length > 0: as many as are found at once, at least one and at most SPLIT_MOST.
// Returns how many; ends[i] is where piece i ends, and the next call goes on at the last of them. The same as
// split_text, at a multiple of the speed. A piece that ends beyond 2^32 - 1 is given up to there.
enum { SPLIT_MOST = 2112 };
int split_pieces(const struct split_rules *rules, const struct unicode_table *table, const unsigned char *text,
                 size_t length, uint32_t *ends);

#endif
