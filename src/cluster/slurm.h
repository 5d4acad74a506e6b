// A job for Slurm: typed fields in, an sbatch script out that a person can read, check and keep. The script starts the
// ranks, passes Slurm's warning on to them, and puts the job back in the queue when it ended in a way that another try
// can mend (exit codes 210 stopped after saving, 211 peer lost, 212 hang, or a killed rank).
#ifndef CLUSTER_SLURM_H
#define CLUSTER_SLURM_H

#include "base/buffer.h"
#include "cluster/machine.h"
#include "config/flag.h"

#include <stdbool.h>
#include <stdint.h>

struct slurm_job {
    const char *name;
    const char *partition, *account, *reservation, *qos, *constraint;  // NULL: what the cluster does by itself
    const char *time;                                                  // limit in Slurm's form; NULL: the partition's
    const char *dependency;  // job number that must have ended well; NULL: none
    const char *logs;        // folder of the job's output and the ranks' logs
    int64_t nodes, tasks_per_node;
    int64_t gpus_per_node;    // that the ranks of a machine use
    bool has_no_gres;         // Slurm is not asked for them: whole machines, whose GPUs it does not count
    int64_t cpus_per_task;    // 0: Slurm's default
    int64_t warning_seconds;  // before the time limit the ranks are told to save and stop; 0: they are not
    int64_t max_requeues;
    const char *save;     // folder of the run's checkpoints; NULL: none
    const char *journal;  // file of a preprocessing that says how far it is; NULL: none
    int64_t chain;        // 0: one allocation; else so many, one after the other
    bool is_exclusive;
    bool has_mpi;                                    // ranks are started by PMIx; else they find each other
    const char *container_image, *container_mounts;  // for Pyxis; NULL: none
    const struct machine *machine;                   // NULL: unknown; its network's settings are exported
    const struct string_list *environment;           // "NAME=value"
    const char *const *command;                      // what each rank runs, NULL at the end
};

// -1 if a field cannot stand in a script.
int slurm_script(const struct slurm_job *job, struct buffer *out);
// Hands the script to sbatch; the job's number as text, to be freed.
int slurm_submit(const char *path, char **job_number);

#endif
