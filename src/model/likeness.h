// Whether two configurations describe the same model. Only this file decides that: for resumed runs, for weights that a
// run begins with, for averages of checkpoints, and for converted models.
//
// The flags are the rows with USE_MODEL. They are compared by their combined meaning (enum flag_meaning): --swiglu is
// --activation silu with --gated-linear-unit. A flag without meaning in one of the two models is not compared; the flag
// that it depends on is.
#ifndef MODEL_LIKENESS_H
#define MODEL_LIKENESS_H

#include "config/config.h"

enum likeness {
    LIKENESS_SAME,     // every flag of the model
    LIKENESS_WRITTEN,  // `there` was written from `here`: its table of token types may be one of zeros
    LIKENESS_NEAR,     // like LIKENESS_WRITTEN, in a format that may lack the activation of BERT's head
    LIKENESS_WEIGHTS,  // whether weights from there compute the same here; numbers of positions may differ
    LIKENESS_HEADS,    // the attention heads alone
};

// Appends "--num-layers is 12 there and 24 here, …"; nothing if the models are the same. They may be invalid.
void likeness_compare(const struct config *there, const struct config *here, enum likeness kind, struct buffer *out);
// Checks the weights of another model that a run begins with: -1 if its attention heads differ, since the weights are
// then meaningless; warns of other differences. `name` is their folder.
int likeness_check_weights(const struct config *there, const struct config *here, const char *name);
// Checks the configuration in one of our checkpoints, an object of config_to_json, in the same way; unless only the
// weights are loaded, any difference is an error.
int likeness_check_json(const struct json *there, const struct config *here, bool of_weights, const char *name);

#endif
