// bevatron launch: starts a run on this machine or on a cluster.
#include "cli/commands.h"
#include "cli/launch.h"

static const struct command_part parts[] = {
    {"local", "ranks on this machine, started again from the last checkpoint when they fail", launch_local},
    {"slurm", "a job for Slurm: writes the sbatch script and submits it", launch_slurm},
    {"kubernetes", "a JobSet, Indexed Job, MPIJob or PyTorchJob: writes the manifest and applies it",
     launch_kubernetes},
};

int cmd_launch(int argc, char **argv) {
    static const struct command_group group = {.name = "launch",
                                               .usage = "WHERE [flags] [train] flags of train…",
                                               .ending = "Each has --help.",
                                               .parts = parts,
                                               .count = sizeof parts / sizeof parts[0]};
    return command_group_run(&group, argc, argv);
}
