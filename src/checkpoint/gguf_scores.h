// SentencePiece's BPE joins the two neighbours whose piece has the highest score; a tokenizer.json lists pairs in their
// order instead. Internal to this folder.
#ifndef CHECKPOINT_GGUF_SCORES_H
#define CHECKPOINT_GGUF_SCORES_H

#include "checkpoint/gguf_vocabulary.h"
#include "data/tokenizer/hf.h"

// Gives every token the score that puts joins in the order of the merges. An error if no scores do: then some pair is
// joined by scores that is not in the list, or pairs of one token stand before and behind another's.
int gguf_scores_from_merges(struct gguf_vocabulary *vocabulary, const struct hf *hf, const struct json *merges);

#endif
