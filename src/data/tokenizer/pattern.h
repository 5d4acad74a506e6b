// Regular expressions, as the tokenizer.json files of Hugging Face hold them: a matcher that goes back and tries
// again, with the rules of Oniguruma (Ruby's syntax) for what tokenizers use of it:
//
//   alternatives, (?:…) and (…), (?i:…), (?=…), (?!…), (?>…), single characters before the place: (?<=[…]), (?<![…])
//   * + ? {n,m}, followed by ? for as few as possible; + after * + ? for never going back
//   . [a-z] [^…], \s \S \d \D \w \W \r \n \t \f \v \x{…} \u…, \p{…} with general categories, ^ $ \A \z \b
//
// Anything else is an error that names it. Known patterns have splitters of their own (splitter.h), which are many
// times faster. Ill-formed bytes are characters of no class.
#ifndef DATA_TOKENIZER_PATTERN_H
#define DATA_TOKENIZER_PATTERN_H

#include "data/tokenizer/unicode_category.h"

struct pattern;

// `table` is split_table_create's; it must outlive the pattern. `name` is what errors call the pattern.
int pattern_compile(struct pattern **pattern, const struct unicode_table *table, const char *text, size_t length,
                    const char *name);
void pattern_free(struct pattern *pattern);  // NULL is fine

// Places to come back to; one per thread. Zeroed is valid.
struct pattern_scratch {
    struct pattern_place *places;
    size_t count, capacity;
    int64_t steps;
};
void pattern_scratch_free(struct pattern_scratch *scratch);

struct pattern_match {
    size_t begin, end;
};

// The first match that begins at or after *from: 1 and the match, 0 if there is none, -1 where matching takes too
// many steps.
int pattern_find(const struct pattern *pattern, struct pattern_scratch *scratch, const unsigned char *text,
                 size_t length, size_t from, struct pattern_match *match);

#endif
