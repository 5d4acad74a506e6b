// An open TikTokenizer, shared by tiktoken_open.c and tiktoken_tekken.c, which open it, and tiktoken.c, which encodes.
#ifndef DATA_TOKENIZER_TIKTOKEN_MODEL_H
#define DATA_TOKENIZER_TIKTOKEN_MODEL_H

#include "base/file.h"
#include "data/tokenizer/kind.h"
#include "data/tokenizer/pattern.h"
#include "data/tokenizer/tiktoken.h"
#include "data/tokenizer/tokenizer.h"
#include "data/tokenizer/trie.h"

struct tiktoken_model {
    struct bpe bpe;
    struct tiktoken_ranks ranks;
    int32_t shift;  // id minus rank
    struct split_rules rules;
    struct pattern *pattern;  // used instead of the rules if not NULL
    char *pattern_text;       // the same in Hugging Face's syntax
    struct unicode_table *table;
    struct byte_table specials;
    struct trie special_trie;  // empty if specials are ordinary text
    bool begins_special[256];  // which bytes begin one
};

int tiktoken_open(struct tokenizer *tokenizer, const struct tokenizer_options *options);
void tiktoken_model_free(struct tiktoken_model *model);

// Mistral's tekken.json: fills all of a zeroed model except bpe, table and special_trie.
int tiktoken_open_tekken(struct tokenizer *tokenizer, const struct tokenizer_options *options,
                         const struct file_map *file);

int tiktoken_add_special(struct tiktoken_model *model, const char *name, int32_t id, const char *path);
// A known pattern by its name or text, or any regular expression. Errors call it `name`.
int tiktoken_choose_pattern(struct tiktoken_model *model, const char *text, const char *name);

#endif
