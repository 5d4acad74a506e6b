// Encodes text piece by piece, for every tokenizer whose ids are those of its pieces concatenated: a splitter cuts the
// text into pieces, a chunk at a time; each piece is looked up in a cache (piece_cache.h), and the tokenizer encodes
// those that are missing.
#ifndef DATA_TOKENIZER_PIECE_ENCODE_H
#define DATA_TOKENIZER_PIECE_ENCODE_H

#include "data/tokenizer/piece_cache.h"
#include "data/tokenizer/splitter.h"
#include "data/tokenizer/token_list.h"

// A tokenizer's part. The caller owns the pointers.
struct piece_model {
    const struct split_rules *rules;
    const struct unicode_table *table;
    // Appends the ids of one piece. `state` is that passed to piece_encode.
    int (*encode)(const void *model, void *state, const unsigned char *piece, size_t length, struct token_list *out);
    const void *model;
};

// Appends the ids of the text. One cache per thread; never use it with two models.
int piece_encode(const struct piece_model *model, struct piece_cache *cache, void *state, const char *text,
                 size_t length, struct token_list *out);

#endif
