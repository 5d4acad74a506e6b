// Runs of whole sentences, as fairseq's TokenBlockDataset cuts a stream of them:
//
//   none          every block has `size` tokens; sentences may be cut
//   complete      as many whole sentences as fit; a longer one is a block by itself
//   complete_doc  the same, but a block ends at a document's end, which is a sentence of one token (</s>)
//   eos           each sentence by itself
//
// Sentences are the sequences of the index and include their </s>.
#ifndef DATA_SAMPLE_TEXT_BLOCK_H
#define DATA_SAMPLE_TEXT_BLOCK_H

#include "data/index/index.h"

enum text_block_mode { BLOCK_NONE, BLOCK_COMPLETE, BLOCK_COMPLETE_DOC, BLOCK_EOS };

int text_block_mode_parse(enum text_block_mode *mode, const char *name);

struct text_block {
    int64_t sequence;  // where it begins
    int32_t offset;    // tokens of that sequence before it
    int32_t length;    // tokens
};

struct text_block_list {
    struct text_block *blocks;
    int64_t count, capacity;
};

struct text_block_options {
    int64_t begin, end;  // sequences
    enum text_block_mode mode;
    int64_t size;  // tokens
};

int text_block_list_make(struct text_block_list *list, const struct index_reader *reader,
                         const struct text_block_options *options);
void text_block_list_free(struct text_block_list *list);  // a zeroed one is fine

#endif
