// Training byte-level BPE. First the pieces of the corpus are counted (bpe_count.c), then the pair of neighbouring
// tokens that occurs most often is merged into a new one, again and again (bpe_train.c). Equal counts are settled by
// the smaller pair of ids, so the result depends on the counts alone: not on the order of the text, nor on the number
// of threads. It equals what Hugging Face's trainer finds.
//
// Ids are GPT-2's: 0–255 are the bytes in the order of the byte map, merges follow, <|endoftext|> is last.
#ifndef DATA_TOKENIZER_BPE_TRAIN_H
#define DATA_TOKENIZER_BPE_TRAIN_H

#include "config/flag.h"
#include "data/tokenizer/word_table.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum corpus_format {
    CORPUS_AUTO,  // JSON Lines where the name, without .gz and the like, ends in .jsonl, .ndjson or .json; else text
    CORPUS_TEXT,  // every line is a text, with its line end
    CORPUS_JSONL,
};

struct bpe_corpus {
    struct string_list inputs;  // files, patterns, "-"
    enum corpus_format format;
    struct string_list keys;  // members of JSON lines that hold text
    bool skip_bad_lines;
    size_t line_limit;  // bytes; 0 for the default
    int threads;
};

struct bpe_corpus_summary {
    uint64_t text_bytes;
    int64_t bad_lines;
};

// Splits files by GPT-2's pattern and counts the pieces, in parallel. Frees nothing on error: the caller frees words.
int bpe_count_corpus(struct word_table *words, const struct bpe_corpus *corpus, struct bpe_corpus_summary *summary);

struct bpe_train_options {
    int64_t vocab_size;     // at least 257: bytes, merges and <|endoftext|>
    int64_t min_frequency;  // pairs seen less often are not merged
    bool show_progress;
};

struct bpe_merge {
    int32_t left, right, id;  // left and right become id
};

struct bpe_merges {
    struct bpe_merge *items;  // in the order in which they were found
    int64_t count, capacity;
    int64_t token_count;  // bytes and merged tokens, <|endoftext|> not counted
};

// Finds merges until there are enough tokens or no pair is left that occurs min_frequency times.
int bpe_train(struct bpe_merges *merges, const struct word_table *words, const struct bpe_train_options *options);
void bpe_merges_free(struct bpe_merges *merges);

// Writes vocab.json and merges.txt, each atomically.
int bpe_save(const struct bpe_merges *merges, const char *vocab_file, const char *merge_file);

#endif
