// What the logs of a cluster's start mean: CloudFormation's, those of a machine's set-up, and of the daemons that start
// and stop machines for Slurm.
#ifndef CLUSTER_BOOT_HINTS_H
#define CLUSTER_BOOT_HINTS_H

#include <stdbool.h>

// What to do about a line of a log; NULL if it is not one that is known.
const char *boot_hint(const char *line);
// Whether a line reports a failure, known or not.
bool boot_is_failure(const char *line);
// The logs to look into, the most telling first; NULL at the end. `file` is where it is on the machine.
struct boot_log {
    const char *name, *file, *tells;
    bool is_head;  // only the head node has it
};
const struct boot_log *boot_logs(void);

#endif
