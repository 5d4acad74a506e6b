// A job that runs a command on several ranks, whatever starts it: made once from the launcher's flags, the command and
// its configuration, and read by the writers for Slurm (slurm.h) and Kubernetes (kubernetes.h) and by `launch local`.
// Fields that are flags belong to the launcher's options and end with them.
#ifndef CLUSTER_LAUNCH_JOB_H
#define CLUSTER_LAUNCH_JOB_H

#include "cluster/machine.h"
#include "config/flag.h"

struct launch_job {
    // Flags, completed by the launcher: 0 or NULL is then what the comment says.
    char *name;                      // of the job
    char *machine_name, *binary;     // NULL: not given
    int64_t nodes, ranks_per_node;   // at least 1
    int64_t gpus_per_node;           // used by the ranks of a machine
    int64_t max_restarts;            // after failures, within the window; 0: none
    double window_minutes;           // older restarts are forgotten
    double progress_minutes;         // a run without progress for this long is ended; 0: never
    struct string_list environment;  // "NAME=value"
    struct string_list exported;     // of --export: already among these
    bool dry_run, watch, may_not_fit;
    // Of the command.
    const struct machine *machine;  // NULL: unknown
    const char *const *command;     // of each rank, NULL at the end
    const char *save;               // folder of the run's checkpoints; NULL: none
    const char *fallback;           // of --save-fallback; NULL: none
    const char *journal;            // file in which a preprocessing records progress; NULL: none
    bool is_train;
};

#endif
