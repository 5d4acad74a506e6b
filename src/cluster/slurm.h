// A job for Slurm: typed fields in, a readable sbatch script out. The script starts the ranks, forwards Slurm's warning
// to them, and asks `bevatron launch decide` what to do when they have ended: restart them in the same allocation,
// requeue the job, or end it. `bevatron launch progress` runs beside them and checks for progress.
#ifndef CLUSTER_SLURM_H
#define CLUSTER_SLURM_H

#include "base/buffer.h"
#include "cluster/launch_job.h"

#include <stdbool.h>
#include <stdint.h>

struct slurm_job {
    struct launch_job launch;
    // Flags; NULL: the cluster's default.
    char *partition, *account, *reservation, *qos, *constraint;
    char *time;               // limit in Slurm's form; NULL: the partition's
    char *dependency;         // number of a job that must have succeeded; NULL: none
    char *logs;               // folder of the job's output and the ranks' logs
    int64_t spares;           // additional machines that replace lost ones; only if it keeps_memory
    int64_t cpus_per_task;    // 0: Slurm's default
    int64_t warning_seconds;  // time before the limit at which ranks are told to save and stop; 0: never
    int64_t chain;            // 0: one allocation; else this many, one after the other
    bool is_shared;           // whole machines are not requested
    char *container_image, *container_mounts;  // for Pyxis; NULL: none
    bool container_mount_home;
    struct string_list sbatch;  // options passed through, each item one or more of them
    // Completed by the launcher.
    bool has_no_gres;   // Slurm is not asked for GPUs: whole machines, whose GPUs it does not count
    bool keeps_memory;  // its checkpoints are also in the memory of its nodes
    bool has_mpi;       // ranks are started by PMIx; else they connect by themselves
};

// -1 if a field is not valid in a script.
int slurm_script(const struct slurm_job *job, struct buffer *out);
// Appends a line for each option of sbatch in `text`, split into words as in a shell. -1 if it is not a list of
// options, or has one that the job sets itself.
int slurm_pass_options(const struct slurm_job *job, const char *text, struct buffer *out);

// sbatch's name for a submitted job.
struct slurm_ticket {
    char *number;
    char *cluster;  // the cluster it was sent to by --clusters or SBATCH_CLUSTERS; NULL: this machine's
};
// Submits the script with sbatch.
int slurm_submit(const char *path, struct slurm_ticket *ticket);
// Parses the output of `sbatch --parsable`.
int slurm_read_ticket(const char *text, struct slurm_ticket *ticket);
void slurm_ticket_free(struct slurm_ticket *ticket);

// Seconds between scancel's TERM and its KILL on the job's cluster; 0 if unknown.
int64_t slurm_kill_wait(const struct slurm_ticket *ticket);
// Parses the output of `scontrol show config`.
int64_t slurm_read_kill_wait(const char *settings);

// State of a job, from squeue.
struct slurm_state {
    char state[32], reason[64];
    bool has_ended;
    int exit_code;  // of a job that has ended; 128 + number if a signal ended it
};
// Reads the first line of squeue's output for slurm_watch, after one that names the cluster. False if there is none.
bool slurm_read_state(const char *text, struct slurm_state *state);

// The path of the job's log, or of the allocation `link` of a chain, from 1 on; to be freed.
char *slurm_log_path(const struct slurm_job *job, const char *number, int64_t link);
// Copies the job's log to stdout as it grows, until the job has ended: *exit_code is then the job's.
int slurm_watch(const struct slurm_job *job, const struct slurm_ticket *ticket, int *exit_code);

#endif
