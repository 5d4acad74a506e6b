// Writes a byte-level BPE tokenizer of GPT-2's kind as a tokenizer.json of Hugging Face.
#ifndef DATA_TOKENIZER_HF_SAVE_H
#define DATA_TOKENIZER_HF_SAVE_H

#include "base/buffer.h"

// Reads vocab.json and merges.txt and writes the same tokenizer as one file, atomically. <|endoftext|>, where the
// vocabulary has it, becomes a special token.
int hf_save_bpe(const char *vocab_file, const char *merge_file, const char *json_file);

// The same, appended to a buffer.
int hf_write_bpe(const char *vocab_file, const char *merge_file, struct buffer *out);

#endif
