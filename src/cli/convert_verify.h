// checkpoint convert --verify: transformers loads what was written, and its logits are compared with ours.
#ifndef CLI_CONVERT_VERIFY_H
#define CLI_CONVERT_VERIFY_H

#include "train/probe.h"

struct convert_verify {
    // Results:
    bool was_run;
    char *version;         // of transformers
    double difference;     // of the logits, see probe_difference
    struct buffer said;    // warnings of transformers while it loaded the model
    struct buffer absent;  // why it was not run: no Python, or none with transformers
};
void convert_verify_free(struct convert_verify *verify);

// Runs the Python that $PYTHON names, or python3, on the folder. It is an error if transformers cannot load the model,
// finds tensors missing or left over, or computes other logits than `ours`. Its warnings, and that there is no Python
// with transformers, are results.
int convert_verify_run(struct convert_verify *verify, const char *folder, const struct probe *ours);

#endif
