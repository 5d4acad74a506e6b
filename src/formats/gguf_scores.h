// SentencePiece's BPE joins the two neighbours whose piece has the highest score; a tokenizer.json ranks pairs instead.
// Internal to this folder.
#ifndef FORMATS_GGUF_SCORES_H
#define FORMATS_GGUF_SCORES_H

#include "data/tokenizer/hf.h"
#include "formats/gguf_vocabulary.h"

// Gives tokens scores that join in the order of the merges. Fails if no scores can: a pair that is not in the list
// would be joined, or pairs of one token rank both before and after another token's.
int gguf_scores_from_merges(struct gguf_vocabulary *vocabulary, const struct hf *hf, const struct json *merges);

#endif
