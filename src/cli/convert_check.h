// The forward pass with which checkpoint convert checks its output.
#ifndef CLI_CONVERT_CHECK_H
#define CLI_CONVERT_CHECK_H

#include "cli/convert_verify.h"
#include "formats/model_source.h"

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
