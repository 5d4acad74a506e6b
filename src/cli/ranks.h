// Finds this process's rank and the number of ranks from the launcher's variables in the environment. Launchers are
// tried in this order: mpirun, srun, torchrun and similar ones, and Kubernetes jobs, which number machines instead of
// ranks.
#ifndef CLI_RANKS_H
#define CLI_RANKS_H

#include "base/host_limits.h"
#include "comm/comm.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum ranks_kind {
    RANKS_ALONE,
    RANKS_MPI,   // MPI knows the place
    RANKS_TCP,   // the place is known, and rank 0 waits at the address
    RANKS_NODE,  // only the machine's number is known: --nproc is the number of ranks to start on it
};

struct launched_ranks {
    enum ranks_kind kind;
    bool is_read;              // mpirun or srun has started even one rank alone, and reads its output
    struct world_place place;  // for RANKS_TCP; for RANKS_MPI only its size, from the launcher
    int node, nodes;           // for RANKS_NODE; nodes is 0 if unknown
    char address[256];         // of rank 0's machine; empty if unknown
    int port;
    char token[160];         // distinguishes this job from others on the same network
    bool is_on_one_machine;  // for RANKS_TCP: all ranks, according to the launcher
    bool is_secret;          // the token cannot be guessed: drawn by a launcher of ours or by the user
};

// `get` is getenv, or a test's replacement.
int ranks_detect(struct launched_ranks *ranks, const char *(*get)(const char *name));
// Fails if MPI has found fewer ranks than the launcher has started: another MPI's launcher starts each rank alone.
int ranks_check_mpi(const struct launched_ranks *ranks, int size);
// The first host of a Slurm list: "p4d-[003-007,9],head" gives "p4d-003". False if there is none, or it does not fit.
bool ranks_first_host(const char *list, char *host, size_t size);

// A command to run again as several ranks.
struct ranks_command {
    const char *before;  // word before argv[0], if any ("bench" for bench collectives), or NULL
    int argc;
    char **argv;
    int64_t nproc;  // from its flags, in the arguments or in a file
};

// Starts nproc ranks of a command on this machine, waits for them and returns true with their exit code. Returns
// false for one rank outside a job of several machines, and under a launcher that has started ranks already: the
// command then runs in this process.
bool ranks_start(const struct ranks_command *command, int *exit_code);

// Variable with the path of a file that the launching process has created; a rank marks it once it is connected to the
// others. NULL is fine.
#define RANKS_MARK "BEVATRON_RANKS_MARK"
void ranks_touch_mark(const char *mark);
// Variable with the path of the file in which the run's first rank reports progress to `launch local`: see lifeline.h.
#define RANKS_LIFELINE "BEVATRON_LIFELINE"
// Variable with the path of a file that each node's first rank creates to report progress to `launch progress --once`.
#define RANKS_NODE_LIFELINE "BEVATRON_NODE_LIFELINE"
// Variable with the path of the checkpoint memory of `launch local` or `launch keeper`: see store/vault.h.
#define RANKS_MEMORY "BEVATRON_MEMORY"
// That path with every %N replaced by the node's name, which may be NULL; to be freed. NULL if there is no path.
char *ranks_memory_path(const char *path, const char *node);
// Variable with the terminal that mpirun writes to, "2:/dev/pts/0" or "12:/dev/pts/0" with the descriptors that lead
// there. The first rank writes to it directly: it can redraw a view there, and its answer to Ctrl-C does not wait for
// mpirun. Messages of the other ranks clear that view.
#define RANKS_TERMINAL "BEVATRON_TERMINAL"
void ranks_take_terminal(const char *given);

// Finds the rank of an mpirun that ended first. A killed rank reports nothing, and mpirun does not name it and ends the
// others at once. The launcher therefore waits for all of them itself, through descriptors of processes.
struct ranks_watch;

// Starts watching once `is_ready` reports the ranks. Returns NULL, which ranks_watch_end accepts, on failure.
struct ranks_watch_options {
    pid_t mpirun;
    int nproc;
    const char *program;  // program of the ranks
    bool (*is_ready)(const char *mark);
    const char *mark;
};
struct ranks_watch *ranks_watch_start(const struct ranks_watch_options *options);
// Ends the watch. `text` gets the first rank that ended, "rank 3 (process 4711)", or several if they seemed to end at
// the same time; "" if unknown.
void ranks_watch_end(struct ranks_watch *watch, char *text, size_t size);

// ---- limits of a job ----

// Limits that the kernel and the control groups set for a job, for messages: a process killed by the OOM killer cannot
// report it, and a library that cannot open a file or start a thread may hang or crash without giving a reason.

enum { JOB_REASON_BYTES = 320 };

// Number of processes that the OOM killer has ended so far.
struct job_kills {
    int64_t group;         // in the control groups of this process
    int64_t machine;       // on the whole machine
    uint64_t limit_bytes;  // the smallest memory limit of these groups; UINT64_MAX for none
};
struct job_kills job_kills(void);
struct job_kills job_kills_in(const struct host_files *files);
// The reason for a SIGKILL, as far as the counts tell: `before` holds the counts from before the process was started.
void job_explain_kill(const struct job_kills *before, const struct job_kills *after, char *text, size_t size);

// How many more processes and threads the control groups allow (pids.max); INT64_MAX for no limit.
int64_t job_process_room(const struct host_files *files);
// To be called before ranks are started: raises the limit of open files as far as possible. -1, with a remedy, if the
// limits on files, on processes and threads or on file sizes are too low for this many ranks and their launcher.
int job_check_ranks(int ranks);

#endif
