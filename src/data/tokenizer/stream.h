// Text that grows token by token. The text of a token depends on those before it: SentencePiece and WordPiece put
// spaces between words, and a character may consist of several tokens. So new tokens are decoded together with the last
// ones that were output, and an incomplete character is held back.
#ifndef DATA_TOKENIZER_STREAM_H
#define DATA_TOKENIZER_STREAM_H

#include "data/tokenizer/tokenizer.h"

// Zeroed except for the tokenizer, which must outlive it. Freed by token_stream_free.
struct token_stream {
    const struct tokenizer *tokenizer;
    struct token_list ids;
    int64_t start;  // the first id that is still decoded: where the last output began
    int64_t said;   // ids that were output
};

// Ids that were output elsewhere, before all others: the text continues theirs.
void token_stream_begin(struct token_stream *stream, const int32_t *ids, int64_t count);
// Takes the next id, and appends the text that is now certain.
int token_stream_add(struct token_stream *stream, int32_t id, struct buffer *out);
// Appends the bytes still held back: an incomplete character, as the tokenizer decodes it.
int token_stream_end(struct token_stream *stream, struct buffer *out);
void token_stream_free(struct token_stream *stream);

#endif
