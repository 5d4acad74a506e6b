// A short forward pass of a model on disk, on the CPU in fp32, and whether two models compute the same in it.
#ifndef TRAIN_MODEL_PROBE_H
#define TRAIN_MODEL_PROBE_H

#include "formats/model_source.h"

enum { PROBE_TOKENS = 8 };

struct probe {
    int64_t T, S;                          // tokens, and those of a decoder over an encoder (0 without)
    int64_t rows, V;                       // of the logits: T or S rows
    int32_t tokens[PROBE_TOKENS];          // (T)
    int32_t decoder_tokens[PROBE_TOKENS];  // (S)
    float *logits;                         // (rows, V); NULL until probe_run
};

// Sets the tokens for models with the configuration's lengths, among the first `vocab_size` of the vocabulary.
void probe_prepare(struct probe *probe, const struct config *config, int64_t vocab_size);
void probe_free(struct probe *probe);
// Whether the weights and a pass's memory fit; if not, appends the reason to `why`.
bool probe_fits(const struct config *config, struct buffer *why);
// Computes the logits. `rounding` is NULL or says how the elements are rounded before.
struct probe_rounding {
    enum dtype dtype;
    bool has_centered_gains;  // gains of norms are rounded as their distance from 1, whichever way they are stored
};
int probe_run(struct probe *probe, struct model_source *source, const struct probe_rounding *rounding);

// The root mean square of the difference over that of the first, over the columns that both have; NaN if a logit of
// either is not finite.
double probe_difference(const struct probe *a, const struct probe *b);

#endif
