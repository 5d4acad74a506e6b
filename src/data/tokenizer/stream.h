// Text that grows token by token. What a token says depends on those before it: SentencePiece and WordPiece put blanks
// between words, and a character may be made of several tokens. So new tokens are decoded together with the last ones
// that were said, and a character that is not whole yet waits for its rest.
#ifndef DATA_TOKENIZER_STREAM_H
#define DATA_TOKENIZER_STREAM_H

#include "data/tokenizer/tokenizer.h"

// Zeroed but for the tokenizer, which outlives it, and freed by token_stream_free.
struct token_stream {
    const struct tokenizer *tokenizer;
    struct token_list ids;
    int64_t start;  // the first id that is still decoded: where what was said last began
    int64_t said;   // ids that have been said
};

// Ids that were said elsewhere, before all others: what follows continues their text.
void token_stream_begin(struct token_stream *stream, const int32_t *ids, int64_t count);
// Takes the next id, and appends the text that it makes certain.
int token_stream_add(struct token_stream *stream, int32_t id, struct buffer *out);
// Appends what still waits: half a character, as the tokenizer decodes it.
int token_stream_end(struct token_stream *stream, struct buffer *out);
void token_stream_free(struct token_stream *stream);

#endif
