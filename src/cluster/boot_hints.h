// Explains the logs of a cluster's start: CloudFormation's, those of a machine's set-up, and of the daemons that start
// and stop machines for Slurm.
#ifndef CLUSTER_BOOT_HINTS_H
#define CLUSTER_BOOT_HINTS_H

#include <stdbool.h>

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
