// Splits text into pre-tokens by a pattern. The patterns of the well-known byte-level tokenizers are one family:
// contractions, words, numbers, other characters, spaces, each in a few forms. struct split_rules selects them, for
// masks of 64 bytes at a time, which are the fastest.
#ifndef DATA_TOKENIZER_SPLITTER_H
#define DATA_TOKENIZER_SPLITTER_H

#include "data/tokenizer/pattern.h"
#include "data/tokenizer/unicode_category.h"

enum split_contractions {
    SPLIT_CONTRACTIONS_NONE,
    SPLIT_CONTRACTIONS_LOWER,  // 's|'t|'re|'ve|'m|'ll|'d
    SPLIT_CONTRACTIONS_ANY,    // the same in any case
    SPLIT_CONTRACTIONS_AFTER,  // in any case, as the end of a word
};

enum split_words {
    SPLIT_WORDS_BLANK,   // ␣?\p{L}+; numbers and others also include a space before them
    SPLIT_WORDS_PREFIX,  // [^\r\n\p{L}\p{N}]?\p{L}+
    SPLIT_WORDS_CASE,    // the same, but upper case begins another word; marks belong to words
    SPLIT_WORDS_SPACES,  // ␣*[^␣]*, for SentencePiece's words; of the rest only after_letters and lines count
};

struct split_rules {
    enum split_contractions contractions;
    enum split_words words;
    int most_digits;     // of a number: 1, 3, or 0 for any count
    bool lines;          // [\r\n]* after other characters, and \s*[\r\n]+ among spaces
    bool slashes;        // [\r\n/]* there
    bool blanks_at_end;  // \s+$ before all other rules for spaces
    // For SPLIT_WORDS_SPACES: !"#… begin a piece after an ASCII letter. With `lines`, line feeds are pieces there; with
    // `feeds`, they count as spaces. With `between_letters`, only a space between two ASCII letters begins a piece.
    bool after_letters;
    bool feeds;
    bool between_letters;
};

struct split_pattern {
    const char *name;  // its value in --tiktoken-pattern
    struct split_rules rules;
    const char *const *texts;  // the pattern as written in files, NULL at the end
};

// A known pattern by its name or its text; NULL if there is none.
const struct split_pattern *split_pattern_by_name(const char *name);
const struct split_pattern *split_pattern_by_text(const char *text, size_t length);

// Whether a byte is ASCII and neither a letter, a digit nor a space.
bool split_is_ascii_other(unsigned char byte);

// The categories of Unicode 16.0, with every White_Space character in Z, as the masks need them. Freed with free().
struct unicode_table *split_table_create(void);

// ---- splitting ----

// Known patterns and SPLIT_WORDS_SPACES have masks, and the text that masks cannot decide goes through a table of
// states (pattern_table.h). Other patterns go through such a table alone.
struct splitter;
struct splitter *splitter_create(const struct split_pattern *known);
struct splitter *splitter_create_spaces(const struct split_rules *rules);
// NULL if the pattern cannot be a table. Not NULL, `first` splits the text before, by a table, and is freed.
struct splitter *splitter_create_pattern(const struct pattern *pattern, struct splitter *first);
void splitter_free(struct splitter *splitter);  // NULL is fine
// Whether every piece is a match of the pattern, and none is text between matches.
bool splitter_covers(const struct splitter *splitter);

// Length of the first piece of text, length > 0. The text must be the whole rest of the document, since the end of a
// run of spaces depends on the text after it. Bytes that are not UTF-8 count as characters that are not letters,
// numbers or spaces.
// Not for patterns after each other.
size_t split_text(const struct splitter *splitter, const unsigned char *text, size_t length);

// The first pieces of text[0…length), length > 0: as many as are found at once, at least one and at most SPLIT_MOST.
// Returns their number; ends[i] is the end of piece i, and the next call continues at the last of them. Same result as
// split_text, but several times faster. A piece that ends beyond 2^32 - 1 is returned up to there. *state is 0 at the
// beginning of a text, and is carried on by the calls.
enum { SPLIT_MOST = 2112 };
int split_pieces(const struct splitter *splitter, const unsigned char *text, size_t length, uint32_t *ends,
                 unsigned char *state);

#endif
