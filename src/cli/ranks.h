// Finds out which of how many ranks this process is, from what its launcher left in the environment. Launchers are
// tried in this order: mpirun, srun, torchrun and similar ones, and Kubernetes jobs, which number machines instead of
// ranks.
#ifndef CLI_RANKS_H
#define CLI_RANKS_H

#include "comm/comm.h"

enum ranks_kind {
    RANKS_ALONE,
    RANKS_MPI,   // MPI knows the place
    RANKS_TCP,   // the place is known, and rank 0 waits at the address
    RANKS_NODE,  // only the machine's number is known: --nproc says how many ranks to start on it
};

struct launched_ranks {
    enum ranks_kind kind;
    bool is_read;              // mpirun or srun has started even one rank alone, and reads what it prints
    struct world_place place;  // for RANKS_TCP; for RANKS_MPI only its size, as the launcher says
    int node, nodes;           // for RANKS_NODE; nodes is 0 if the launcher does not say
    char address[256];         // of rank 0's machine; empty if the launcher does not say
    int port;
    char token[160];         // tells this job from others on the same network
    bool is_on_one_machine;  // for RANKS_TCP: all ranks, as the launcher says
    bool is_secret;          // the token cannot be guessed: a launcher of ours or the user has drawn it
};

// `get` is getenv, or a test's replacement.
int ranks_detect(struct launched_ranks *ranks, const char *(*get)(const char *name));
// Fails if MPI has found fewer ranks than the launcher has started: another MPI's launcher starts each rank alone.
int ranks_check_mpi(const struct launched_ranks *ranks, int size);
// The first host of a Slurm list: "p4d-[003-007,9],head" gives "p4d-003". False if there is none that fits.
bool ranks_first_host(const char *list, char *host, size_t size);

// A command to run again as several ranks.
struct ranks_command {
    const char *before;  // the word before argv[0] if there is one ("bench" for bench collectives), or NULL
    int argc;
    char **argv;
    int64_t nproc;  // what its flags say, in the arguments or in a file
};

// Starts nproc ranks of a command on this machine, waits for them and returns true with their exit code. Returns
// false for one rank outside a job of several machines, and under a launcher that has started ranks already: the
// command then runs in this process.
bool ranks_start(const struct ranks_command *command, int *exit_code);

// The name in a rank's environment of a file that the launching process has made, and what a rank does with it once it
// has found the others; NULL is fine.
#define RANKS_MARK "BEVATRON_RANKS_MARK"
void ranks_touch_mark(const char *mark);
// The same of the file by which the run's first rank tells `launch local` how far it is: see lifeline.h.
#define RANKS_LIFELINE "BEVATRON_LIFELINE"
// The name of a file that the first rank of each node makes, by which it tells `launch progress --once` the same.
#define RANKS_NODE_LIFELINE "BEVATRON_NODE_LIFELINE"
// The same of the memory that `launch local` or `launch keeper` holds for checkpoints: see checkpoint/vault.h.
#define RANKS_MEMORY "BEVATRON_MEMORY"
// Its path with the node's name, which may be NULL, for every %N; to be freed. NULL if there is no path.
char *ranks_memory_path(const char *path, const char *node);
// The same of the terminal behind mpirun, "2:/dev/pts/0" or "12:/dev/pts/0" by the descriptors that lead there. The
// first rank writes to it itself: it can redraw a view there, and its answer to Ctrl-C does not wait for mpirun. The
// messages of the others clear that view.
#define RANKS_TERMINAL "BEVATRON_TERMINAL"
void ranks_take_terminal(const char *given);

#endif
