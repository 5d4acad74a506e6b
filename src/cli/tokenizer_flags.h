// The flags that name a tokenizer, shared by commands that need one but no model.
#ifndef CLI_TOKENIZER_FLAGS_H
#define CLI_TOKENIZER_FLAGS_H

#include "config/flag.h"
#include "data/tokenizer/tokenizer.h"

struct tokenizer_flags {
    struct flag_given given;
    char *type;
    char *vocab_file;
    char *merge_file;
    char *model_file;
    int64_t vocab_size;
    int64_t null_eod_id;
    int64_t extra_ids;
    bool as_today;
    bool hf_without_specials;
    char *tiktoken_pattern;
    int64_t tiktoken_specials;
    char *eod_token;
};

// The table for options that contain a struct tokenizer_flags at offset `base`.
struct flag_table tokenizer_flag_table(size_t base);
// Their values; the strings remain the flags'.
struct tokenizer_options tokenizer_options_from_flags(const struct tokenizer_flags *flags);
int tokenizer_open_from_flags(struct tokenizer **tokenizer, const struct tokenizer_flags *flags);
void tokenizer_drop(struct tokenizer **tokenizer);  // for OWNED_BY

#endif
