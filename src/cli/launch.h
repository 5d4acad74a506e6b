// The commands below `bevatron launch`: starting runs on this machine or a cluster.
#ifndef CLI_LAUNCH_H
#define CLI_LAUNCH_H

#include "config/config.h"

int launch_kubernetes(int argc, char **argv);
int launch_local(int argc, char **argv);
int launch_slurm(int argc, char **argv);

// A launcher's command line: its own flags, then those of the command to be launched.
struct launch_command {
    char **own;  // argv[0] and the launcher's flags, ended by NULL
    int own_count;
    char **rest;  // the command's name ("train" if none is given) and its flags, ended by NULL
    int rest_count;
    // The command will run in a container that does not have the files of --config: their content is written out as
    // flags.
    bool is_elsewhere;
    struct string_list written;  // those flags
};
// Appends a flag and its value.
void launch_command_add(struct launch_command *command, const char *flag, const char *value);

// Checks the flags of a command other than train, as far as possible without running it (preprocess). Returns 0,
// FLAGS_HELP if they ask for help, which has then been printed, or -1. *journal, to be freed, is the file that changes
// as the work progresses and from which the same command continues; NULL if it would begin anew.
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
// Makes a restarted run continue where it stopped: --load becomes the folder of --save unless it is given. Fails if the
// run would stop because of the folder of --save, unless that is on another machine.
int launch_resume(struct launch_command *command, const struct config *config);

#endif
