// Where pieces begin, from masks: the rules of splitter.h as shifts and ands of whole blocks.
#ifndef DATA_TOKENIZER_SPLIT_STARTS_H
#define DATA_TOKENIZER_SPLIT_STARTS_H

#include "data/tokenizer/split_block.h"
#include "data/tokenizer/splitter.h"

// starts[i] gets a bit where a piece begins in block i of the chunk, up to chunk->hard, which is lowered to the first
// block that masks cannot decide. A piece begins at the chunk's first byte. Bits beyond the end of the text may be set.
void split_find_starts(const struct split_rules *rules, struct split_chunk *chunk, uint64_t *starts);

#endif
