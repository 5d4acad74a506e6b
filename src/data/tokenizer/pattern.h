// Regular expressions in tokenizer files: a backtracking matcher with the rules of Oniguruma (Ruby's syntax), which
// Hugging Face uses, or those of Rust's fancy-regex, which tiktoken uses:
//
//   alternatives, (?:…) (…) (?<name>…), (?i…) (?m…) (?x…), (?=…), (?!…), (?<=…), (?<!…), (?>…), (?#…)
//   * + ? {n,m}, followed by ? for lazy; + after * + ? for possessive
//   . [a-z] [^…] [a[b]] [a&&b] [[:alpha:]], \s \d \w \h \R \N \O and their opposites, \p{…} by categories, scripts and
//   other properties, \r \n \t \f \v \a \e \x… \x{…} \u…, ^ $ \A \z \Z \b \B \G \K
//
// Anything else is an error that names it. Well-known patterns have dedicated splitters (splitter.h), which are many
// times faster. Ill-formed bytes are characters without a class.
#ifndef DATA_TOKENIZER_PATTERN_H
#define DATA_TOKENIZER_PATTERN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct pattern;

enum pattern_syntax { PATTERN_ONIGURUMA, PATTERN_RUST };

// Errors call the pattern `name`.
int pattern_compile(struct pattern **pattern, enum pattern_syntax syntax, const char *text, size_t length,
                    const char *name);
void pattern_free(struct pattern *pattern);  // NULL is fine
// Whether an empty match at the beginning of a text is possible.
bool pattern_may_insert_first(const struct pattern *pattern);

// The backtracking stack, and the memory of failures in the current text; one per thread. Zeroed is valid.
struct pattern_scratch {
    struct pattern_place *places;
    size_t count;
    int64_t capacity;
    size_t *marks;
    size_t mark_capacity;
    size_t from;    // where the search began
    int64_t steps;  // taken in this text so far
    struct pattern_memory *memory;
};
void pattern_scratch_free(struct pattern_scratch *scratch);

struct pattern_match {
    size_t begin, end;
};

// The first match that begins at or after `from`: 1 and the match, 0 if there is none, -1 if matching takes too many
// steps. A text is searched from 0 on; its steps are counted over all calls, and limited in proportion to its length.
int pattern_find(const struct pattern *pattern, struct pattern_scratch *scratch, const unsigned char *text,
                 size_t length, size_t from, struct pattern_match *match);

#endif
