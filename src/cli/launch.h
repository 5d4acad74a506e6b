// The commands below `bevatron launch`: starting runs on this machine or a cluster.
#ifndef CLI_LAUNCH_H
#define CLI_LAUNCH_H

#include "cluster/launch_job.h"
#include "config/config.h"

// A launcher's command line: its own flags, then those of the launched command.
struct launch_command {
    char **own;  // argv[0] and the launcher's flags, ended by NULL
    int own_count;
    char **rest;  // the command's name ("train" if none is given) and its flags, ended by NULL
    int rest_count;
    // The command will run in a container without the files of --config: their contents are written out as flags.
    bool is_elsewhere;
    bool takes_machines;         // the launcher's --nodes and --machine give the number of ranks
    struct string_list written;  // those flags
    char default_name[6];        // "train"
    const char *flag_remedy;     // the remedy for a flag that neither of them has; NULL for none
};
// Appends a flag and its value.
void launch_command_add(struct launch_command *command, const char *flag, const char *value);

// -1 if the word in the place of a command's name is not a command. The message lists all names but `hidden`, which may
// be NULL.
int launch_check_name(const struct launch_command *command, const char *hidden);
// Checks a command other than train, as far as possible without running it: that it exists, its part too (`dataset
// merge`), and the flags of preprocess, evaluate, generate, preflight and bench (unless their --config file is
// elsewhere). Returns 0, FLAGS_HELP if they ask for help, which has then been printed, or -1. *journal, to be freed, is
// the file that records progress and from which the same command continues; NULL if it would start over.
int launch_check(struct launch_command *command, char **journal);
// Parses the flags of a train command and checks them as train itself will on `ranks` ranks. launch_run frees the
// config.
int launch_config(struct config *config, struct launch_command *command, int64_t ranks);
// A launcher from its command line to its exit code: splits, parses, calls `launch`, which returns -1 or the exit code,
// and frees.
struct launch_call {
    const struct flag_command *flags;  // of the launcher; one table
    void *options;
    int (*launch)(void *options, struct launch_command *command, struct config *config);
};
int launch_run(const struct launch_call *call, int argc, char **argv);
// Refuses GPUs that are too old for the command, and runs that do not fit their memory. Passes the machine on to train.
// The config is that of train, otherwise not read.
int launch_check_machine(const struct launch_job *job, struct launch_command *command, struct config *config);
// Adds the items of --export (NAME=VALUE or NAME, separated by commas, as in sbatch) to those of --env, and makes all
// of them visible to files of --config read after this.
int launch_export(const struct string_list *exported, struct string_list *environment);
// Adds the variables that those files referred to.
void launch_export_found(struct string_list *environment);
// Refuses --checkpoint-in-memory for a launcher without a process on the ranks' machines that outlives them.
int launch_refuse_memory(const struct config *config);
// Makes a restarted run resume: --load becomes the folder of --save unless it is given. Fails if the run would stop
// because of the folder of --save, unless that is on another machine.
int launch_resume(struct launch_command *command, const struct config *config);

#endif
