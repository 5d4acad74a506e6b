// Where a loader takes its samples from: anything that can provide samples 0…count-1 (a dataset, a blend of several).
//
// A source of running text returns seq_length + 1 token ids through `read`: the extra token gives inputs and labels the
// same length, and the loader makes masks and positions. A source whose samples are more than that (masked words, two
// sentences, encoder and decoder) has `fill` instead, which writes whole rows of its form.
#ifndef DATA_SAMPLE_SOURCE_H
#define DATA_SAMPLE_SOURCE_H

#include "data/batch.h"
#include "data/tokenizer/tokenizer.h"
#include <stdint.h>

// Both functions may be called from another thread than the one that opened the source, but from one at a time.
struct sample_source {
    void *context;
    const char *name;    // the source in messages: "valid split of data/books"
    int64_t count;       // samples
    int64_t seq_length;  // tokens of one sample, without the extra one; form.T if there is a `fill`
    // A negative number means no token: the loader gives it no loss.
    int (*read)(void *context, int64_t sample, int32_t *tokens /* (seq_length + 1) */);
    struct batch_form form;  // only with `fill`
    int (*fill)(void *context, int64_t sample, const struct batch *row);
};

// ---- filling in the middle ----

// Fill-in-the-middle samples (Bavarian et al., 2022), as Megatron-LM's GPTFIMDataset makes them from samples of running
// text. The texts between end-of-document tokens are permuted one by one, each with probability `rate`: the text is cut
// at two random characters, and its three parts are encoded again, each by itself, after a token that names it:
//
//     PSM    prefix-token PREFIX suffix-token SUFFIX middle-token MIDDLE
//     SPM    prefix-token suffix-token SUFFIX middle-token PREFIX MIDDLE      (with probability spm_rate)
//
// A sample that has become too long is cut, one that is too short is padded. Megatron draws from one generator in the
// order in which a process reads samples; here every sample has its own draws, which depend only on the seed, the split
// and its number, so ranks, workers and resuming do not change them.

// Tokens are named as the vocabulary writes them. The strings are not needed after fim_open.
struct fim_options {
    struct sample_source source;        // of running text; must outlive it
    const struct tokenizer *tokenizer;  // must outlive it too
    uint64_t seed;
    int split;  // 0…2
    double rate, spm_rate;
    const char *split_token;  // NULL: texts are not split into fragments
    double fragment_rate;
    const char *no_prefix;  // texts that begin with this are left unchanged; may be NULL
    const char *prefix_token, *middle_token, *suffix_token, *pad_token, *eod_token;
};

struct fim;
int fim_open(struct fim **fim, const struct fim_options *options);
void fim_close(struct fim *fim);  // NULL is fine
struct sample_source fim_source(struct fim *fim);

#endif
