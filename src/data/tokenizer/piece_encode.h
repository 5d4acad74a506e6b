// Encoding text piece by piece, for every tokenizer whose ids are those of its pieces one after another: text is cut
// into pieces by a splitter, a chunk of text at a time; each piece is looked up in a cache (piece_cache.h), and what is
// not there is left to the tokenizer.
#ifndef DATA_TOKENIZER_PIECE_ENCODE_H
#define DATA_TOKENIZER_PIECE_ENCODE_H

#include "data/tokenizer/piece_cache.h"
#include "data/tokenizer/splitter.h"
#include "data/tokenizer/token_list.h"

// What a tokenizer says about itself. The pointers stay the caller's.
struct piece_model {
    const struct split_rules *rules;
    const struct unicode_table *table;
    // Appends the ids of one piece. `state` is what piece_encode got.
    int (*encode)(const void *model, void *state, const unsigned char *piece, size_t length, struct token_list *out);
    const void *model;
};

// Appends the ids of the text. One cache per thread; it must not be used with two models.
int piece_encode(const struct piece_model *model, struct piece_cache *cache, void *state, const char *text,
                 size_t length, struct token_list *out);

#endif
