// checkpoint convert --verify: transformers loads the output; its logits and token ids are compared with ours.
#ifndef CLI_CONVERT_VERIFY_H
#define CLI_CONVERT_VERIFY_H

#include "train/model_probe.h"

struct convert_verify {
    // Results:
    bool was_run;
    char *version;         // of transformers
    double difference;     // of the logits, see probe_difference
    int texts;             // with the same token ids; 0 if the folder has no tokenizer.json
    struct buffer said;    // warnings of transformers while it loaded the model
    struct buffer absent;  // reason why it was not run: no Python, or none with transformers
};
void convert_verify_free(struct convert_verify *verify);

// Runs $PYTHON, or python3, on the output folder. It is an error if transformers cannot load the model, finds tensors
// missing or left over, computes other logits than `ours`, or gives other ids for a list of texts. Its warnings, and a
// missing Python with transformers, are results.
int convert_verify_run(struct convert_verify *verify, const struct model_source *written, const struct probe *ours);

#endif
