// The command-line programs of AWS, pcluster and aws: runs them without a shell, reads their JSON, and turns their
// errors into one message with a remedy.
#ifndef CLUSTER_AWS_H
#define CLUSTER_AWS_H

#include "base/json.h"
#include <stdbool.h>

// Runs the words (the program first, NULL at the end) and reads the JSON on its stdout into *answer, to be freed with
// json_free; NULL if it printed nothing.
int aws_run(const char *const *words, struct json **answer);
// Like aws_run, with text for its stdin (NULL for none).
int aws_send(const char *const *words, const char *input, struct json **answer);
// The remedy for an error message of an AWS program, NULL if none is known.
const char *aws_remedy(const char *complaint);

// Explains the logs of a cluster's start: CloudFormation's, those of a machine's set-up, and of the daemons that start
// and stop machines for Slurm.
// The remedy for a line of a log; NULL if the line is not known.
const char *boot_hint(const char *line);
// Whether a line reports a failure, known or not.
bool boot_is_failure(const char *line);
// The logs to search, the most informative first; NULL at the end. `file` is the path on the machine.
struct boot_log {
    const char *name, *file, *tells;
    bool is_head;  // only on the head node
};
const struct boot_log *boot_logs(void);

#endif
