// The forward pass with which checkpoint convert checks its output.
#ifndef CLI_CONVERT_CHECK_H
#define CLI_CONVERT_CHECK_H

#include "formats/model_source.h"
#include "train/model_probe.h"

// checkpoint convert --verify: transformers loads the output; its logits and token ids are compared with ours.
struct convert_verify {
    // Results:
    bool was_run;
    char *version;         // of transformers
    double difference;     // of the logits, see probe_difference
    int texts;             // with the same token ids; 0 if the folder has no tokenizer.json
    struct buffer said;    // warnings of transformers while it loaded the model
    struct buffer absent;  // reason why it was not run: no Python, or none with transformers
};

struct convert_check {
    bool verifies;  // also with transformers
    // Results:
    bool was_compared;  // the output was read back
    bool was_run;       // both models were run
    bool is_rounded;    // the target has fewer bits
    int64_t tokens;
    double difference;      // of the logits, see probe_difference
    struct buffer skipped;  // reason why they were not run
    struct convert_verify verify;
};
void convert_check_free(struct convert_check *check);

// For struct model_write; the context is a struct convert_check.
int convert_check_compare(void *context, const struct model_pair *pair);
// Appends one sentence about the checks.
void convert_check_describe(const struct convert_check *check, struct buffer *out);

#endif
