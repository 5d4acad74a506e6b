// bevatron launch: starts a run on this machine or on a cluster.
#include "cli/commands.h"
#include "cli/launch.h"

static const struct command_part parts[] = {
    {"local", "starts ranks on this machine, and restarts them from the last checkpoint when they fail", launch_local},
    {"slurm", "writes an sbatch script and submits it", launch_slurm},
    {"kubernetes", "writes the manifest of a JobSet, Indexed Job, MPIJob or PyTorchJob and applies it",
     launch_kubernetes},
    {"keeper", "for job scripts: holds checkpoints in a node's memory while ranks are restarted", launch_keeper},
    {"decide", "for job scripts: decides whether a run that ended is started again", launch_decide},
    {"progress", "for job scripts and probes: exits with code 212 when a run makes no progress", launch_progress},
};

int cmd_launch(int argc, char **argv) {
    static const struct command_group group = {.name = "launch",
                                               .summary =
                                                   "Starts a run here or on a cluster, and restarts it when it fails.",
                                               .usage = "WHERE [flags] [train] flags of train…",
                                               .ending = "Each has --help.",
                                               .parts = parts,
                                               .count = sizeof parts / sizeof parts[0]};
    return command_group_run(&group, argc, argv);
}
