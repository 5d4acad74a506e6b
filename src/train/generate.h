// Generates text with a trained model, one token at a time; keys and values of earlier tokens are kept in a cache. A
// decoder continues the prompt; a decoder over an encoder answers it.
#ifndef TRAIN_GENERATE_H
#define TRAIN_GENERATE_H

#include "config/config.h"
#include "data/tokenizer/tokenizer.h"
#include "ops/device.h"
#include "parallel/mesh.h"
#include "report/report.h"
#include "step/step.h"

struct sampling {
    bool is_greedy;      // always take the most likely token
    double temperature;  // 1 leaves the model's probabilities as they are
    int64_t top_k;       // only the k most likely tokens; 0 for all
    double top_p;        // only the most likely tokens that together have probability p; 1 for all
    uint64_t seed;
};

struct generate {
    struct step *step;
    const int32_t *prompt;  // (count), at least one token
    int64_t count;
    int64_t max_new_tokens;
    int32_t end_token;    // generation stops after it; -1 for none
    int32_t start_token;  // for a decoder over an encoder: the token its text begins with
    int64_t vocab_size;   // tokens from here on are padding and are never drawn
    struct sampling sampling;
    // Called for every new token. -1 ends the generation as failed.
    int (*accept)(void *context, int32_t token);
    void *context;
};

int generate_run(const struct generate *generate);
// -1 with EXIT_CODE_NOT_FINITE if no token can be told from logits (V): one is NaN or infinite, or none is possible.
int logits_check(const float *logits, int64_t vocab_size);
// The token with the highest logit; of equal ones the first.
int32_t logits_likeliest(const float *logits, int64_t vocab_size);
// Draws one token from logits (V), which are overwritten. `draw` numbers the draws made with this seed.
int32_t sample_token(const struct sampling *sampling, float *logits, int64_t vocab_size, uint64_t draw);

// ---- while training ----

// Texts that a model generates while it is trained (--sample-interval). The weights are those of the training step,
// read where they are; what generation needs beside them is taken when the run starts. Nothing that training computes
// depends on it: draws come from a generator of their own, keyed by seed and position.

struct sampler_options {
    const struct config *config;  // validated
    struct device *device;
    const struct mesh *mesh;
    const struct tokenizer *tokenizer;
    struct step *step;  // that is trained; it outlives the sampler
};

struct sampler;

// All ranks call. *sampler is NULL if no samples are asked for.
int sampler_open(struct sampler **sampler, const struct sampler_options *options);
// Generates from every prompt and reports it; all ranks call, between two steps. A text that cannot be decoded is
// reported as a warning.
void sampler_run(struct sampler *sampler, int64_t iteration, struct report *report);
void sampler_close(struct sampler *sampler);  // NULL is fine

#endif
