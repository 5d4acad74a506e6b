// Text from a trained model, one token at a time, keys and values of what came before kept in a cache. A decoder goes
// on with the prompt; an encoder and decoder reads it and answers.
#ifndef TRAIN_GENERATE_H
#define TRAIN_GENERATE_H

#include "step/step.h"

struct sampling {
    bool is_greedy;      // always the likeliest token
    double temperature;  // 1 leaves the model's probabilities as they are
    int64_t top_k;       // only the k likeliest; 0 for all
    double top_p;        // only the likeliest that together have probability p; 1 for all
    uint64_t seed;
};

struct generate {
    struct step *step;
    const int32_t *prompt;  // (count), at least one token
    int64_t count;
    int64_t max_new_tokens;
    int32_t end_token;    // stops after it; -1 for none
    int32_t start_token;  // of a decoder over an encoder: what its text begins with
    int64_t vocab_size;   // tokens from here on are padding and are never drawn
    struct sampling sampling;
    // Called for every new token; -1 ends the generation, which then has failed.
    int (*accept)(void *context, int32_t token);
    void *context;
};

int generate_run(const struct generate *generate);
// Draws one token from logits (V); `draw` numbers the draws of a seed. logits are overwritten.
int32_t sample_token(const struct sampling *sampling, float *logits, int64_t vocab_size, uint64_t draw);

#endif
