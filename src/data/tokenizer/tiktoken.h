// Tokenizers of OpenAI's tiktoken: byte strings with a rank each. A piece of text that is a token becomes that token;
// in any other, the two neighbours whose joint bytes have the lowest rank are merged, until there are none.
//
// The file says neither how text is split nor which special tokens there are; tiktoken.c has both for the common
// files. Megatron's own form is a JSON list, with special tokens before all ranks.
#ifndef DATA_TOKENIZER_TIKTOKEN_H
#define DATA_TOKENIZER_TIKTOKEN_H

#include "data/tokenizer/bpe.h"
#include "data/tokenizer/byte_table.h"
#include "data/tokenizer/kind.h"
#include "data/tokenizer/pattern.h"
#include "data/tokenizer/splitter.h"
#include "data/tokenizer/tokenizer.h"
#include "data/tokenizer/trie.h"
#include "base/file.h"
#include "base/json.h"

// Tokens with their ranks, before ids are assigned.
struct tiktoken_ranks {
    struct byte_table tokens;  // numbered by rank
    int64_t size;              // highest rank + 1
    int64_t count;             // of the file, including an empty one
    int64_t empty;             // the rank of that one; -1 if there is none
};

// Lines "BASE64 RANK". Errors call the text `name`. On error nothing is left to free.
int tiktoken_parse_ranks(struct tiktoken_ranks *ranks, const char *text, size_t length, const char *name);
// Megatron's list of {"rank", "token_bytes", "token_str"}: its first `most` entries.
int tiktoken_parse_json(struct tiktoken_ranks *ranks, const char *text, size_t length, const char *name, int64_t most);

// tiktoken_parse_json for a parsed list, which must have at least `most` entries.
int tiktoken_parse_list(struct tiktoken_ranks *ranks, const struct json *list, const char *name, int64_t most);

// A special token: a text with its own id.
struct tiktoken_special {
    const char *name;
    int32_t id;
};

// The known rank file with this number of ranks.
struct tiktoken_known {
    const char *name;     // "cl100k_base"
    int64_t rank_count;   // lines of the file
    const char *pattern;  // name of the splitter
    int64_t vocab_size;   // including special tokens
    const char *end;      // the one that ends a document
    const struct tiktoken_special *specials;
    size_t special_count;
    const char *reserved;     // name of the ids after the last special token, up to vocab_size ("%d" counts)
    int32_t first_reserved;   // id
    int32_t reserved_number;  // of the first one
    int languages;            // of Whisper, whose other special tokens start at first_reserved
};

// A nonzero vocab_size distinguishes files with the same ranks.
const struct tiktoken_known *tiktoken_find_known(int64_t rank_count, int64_t vocab_size);
// Whisper's special tokens after <|endoftext|>: their number, and the name of one, which the caller frees.
int32_t tiktoken_whisper_count(const struct tiktoken_known *known);
char *tiktoken_whisper_name(const struct tiktoken_known *known, int32_t number);

// Builds the table of pairs from the tokens, which get the ids rank + shift. Tokens of `specials` can be decoded too.
int tiktoken_build(struct bpe *bpe, const struct tiktoken_ranks *ranks, int32_t shift, const char *name);

// ---- the open tokenizer ----

// Shared by tiktoken.c and tiktoken_tekken.c, which opens a tekken.json.
struct tiktoken_model {
    struct bpe bpe;
    struct tiktoken_ranks ranks;
    int32_t shift;              // id minus rank
    struct splitter *splitter;  // that covers every text; else NULL
    struct pattern *pattern;    // instead of it
    char *pattern_text;         // the same in Hugging Face's syntax
    struct byte_table specials;
    struct trie special_trie;  // empty if specials are ordinary text
    bool begins_special[256];  // which bytes begin one
};

int tiktoken_open(struct tokenizer *tokenizer, const struct tokenizer_options *options);
void tiktoken_model_free(struct tiktoken_model *model);

// Mistral's tekken.json: fills all of a zeroed model except bpe and special_trie.
int tiktoken_open_tekken(struct tokenizer *tokenizer, const struct tokenizer_options *options,
                         const struct file_map *file);

int tiktoken_add_special(struct tiktoken_model *model, const char *name, int32_t id, const char *path);
int tiktoken_add_made(struct tiktoken_model *model, char *name, int32_t id, const char *path);  // frees the name
// A known pattern by its name or text, or any regular expression. Errors call it `name`.
int tiktoken_choose_pattern(struct tiktoken_model *model, const char *text, const char *name);

#endif
