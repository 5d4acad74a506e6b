// Another program, started without a shell: arguments stay arguments, whatever is in them.
#ifndef BASE_PROCESS_H
#define BASE_PROCESS_H

#include "base/buffer.h"

struct process_result {
    int exit_code;         // 128 + number where a signal ended it
    struct buffer output;  // what it wrote on stdout; the caller frees it
    struct buffer errors;  // and on stderr
};

// Runs argv (NULL at the end), found on PATH, and waits for it; `input` (may be NULL) is its stdin. -1 where it could
// not be started: the message names the program and says that it was not found where that is so. A program that ran
// and failed is a result, not an error.
int process_run(const char *const *argv, const char *input, struct process_result *result);
void process_result_free(struct process_result *result);

#endif
