// Google's BERT tokenizer as the parts of a tokenizer.json, and the parts that Hugging Face's own shares with it.
#ifndef DATA_TOKENIZER_WORDPIECE_DESCRIBE_H
#define DATA_TOKENIZER_WORDPIECE_DESCRIBE_H

#include "data/tokenizer/hf_parts.h"
#include "data/tokenizer/wordpiece.h"
#include "data/tokenizer/wordpiece_vocab.h"

int wordpiece_describe(const struct bert *bert, const struct wordpiece_vocab *vocab, struct hf_parts *parts);

// {"type": "WordPiece", …, left open before "vocab"; and the decoder.
void wordpiece_begin_model(struct json_writer *json, int64_t most_chars);
void wordpiece_write_decoder(struct hf_parts *parts, bool cleans_up);

#endif
