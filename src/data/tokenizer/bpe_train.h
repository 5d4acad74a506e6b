// Training byte-level BPE. First the pieces of the corpus are counted, then the most frequent pair of
// neighbouring tokens is merged into a new one, repeatedly (bpe_train.c). Ties go to the smaller pair of ids, so the
// result depends only on the counts, not on the order of the text or the number of threads. It equals the result of
// Hugging Face's trainer.
//
// Ids are GPT-2's: 0–255 are the bytes in the order of the byte map, merges follow, <|endoftext|> is last.
#ifndef DATA_TOKENIZER_BPE_TRAIN_H
#define DATA_TOKENIZER_BPE_TRAIN_H

#include "config/flag.h"
#include "data/extract/inputs.h"
#include "data/tokenizer/byte_table.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct bpe_corpus {
    struct string_list inputs;  // files, patterns, "-"
    enum text_format format;    // in plain text, every line with its line end is a text
    struct string_list keys;    // members of JSON lines that hold text
    bool skip_bad_lines;
    size_t line_limit;      // bytes; 0 for the default
    uint64_t enough_bytes;  // roughly how much of the files to train on, evenly spread; 0 for all
    int threads;
};

struct bpe_corpus_summary {
    uint64_t text_bytes;
    int64_t bad_lines;
};

// Splits files by GPT-2's pattern and counts the pieces, in parallel. The caller frees words, also on error.
int bpe_count_corpus(struct byte_table *words, const struct bpe_corpus *corpus, struct bpe_corpus_summary *summary);

struct bpe_train_options {
    int64_t vocab_size;     // at least 257: bytes, merges and <|endoftext|>
    int64_t min_frequency;  // rarer pairs are not merged
    bool show_progress;
};

struct bpe_merge {
    int32_t left, right, id;  // left and right become id
};

struct bpe_merges {
    struct bpe_merge *items;  // in the order they were found
    int64_t count, capacity;
    int64_t token_count;  // bytes and merged tokens, without <|endoftext|>
};

// Finds merges until there are enough tokens or no pair occurs min_frequency times.
int bpe_train(struct bpe_merges *merges, const struct byte_table *words, const struct bpe_train_options *options);
void bpe_merges_free(struct bpe_merges *merges);

// Writes vocab.json, merges.txt and, unless its name is NULL, tokenizer.json: all of them or none. The names must be
// new.
struct bpe_files {
    const char *vocab, *merges, *json;
};
int bpe_save(const struct bpe_merges *merges, const struct bpe_files *files);

#endif
