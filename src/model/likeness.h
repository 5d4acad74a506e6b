// Whether two configurations describe the same model. This is the only place that answers the question: for a run that
// resumes, for weights that a run begins with, for averages of checkpoints, and for a model that was converted.
//
// The flags are the rows with USE_MODEL. They are compared by what they mean together (enum flag_meaning): --swiglu is
// --activation silu with --gated-linear-unit. A flag that means nothing in one of the two models is not compared; the
// flag that it depends on is.
#ifndef MODEL_LIKENESS_H
#define MODEL_LIKENESS_H

#include "config/config.h"

enum likeness {
    LIKENESS_SAME,     // every flag of the model
    LIKENESS_WRITTEN,  // `there` was written from `here`: its table of token types may be one of zeros
    LIKENESS_NEAR,     // the same, in a format that need not have the activation of BERT's head
    LIKENESS_WEIGHTS,  // whether weights from there compute the same here: more positions are no other model
    LIKENESS_HEADS,    // the attention heads alone
};

// Appends "--num-layers is 12 there and 24 here, …"; nothing if it is the same model. Neither needs to be valid.
void likeness_compare(const struct config *there, const struct config *here, enum likeness kind, struct buffer *out);
// For weights of another model that a run begins with: -1 if its attention has other heads, since attention over other
// heads is nonsense; a warning about all else. `name` is the folder they are in.
int likeness_check_weights(const struct config *there, const struct config *here, const char *name);
// The same with the configuration in a checkpoint of ours, an object of config_to_json; unless only the weights are
// taken, any difference is an error.
int likeness_check_json(const struct json *there, const struct config *here, bool of_weights, const char *name);

#endif
