// bevatron launch: starts a run on this machine or on a cluster.
#include "base/error.h"
#include "cli/commands.h"
#include "cli/launch.h"

#include <stdio.h>
#include <string.h>

static const struct part {
    const char *name, *summary;
    int (*run)(int argc, char **argv);
} parts[] = {
    {"local", "ranks on this machine, started again from the last checkpoint when they fail", launch_local},
    {"slurm", "a job for Slurm: writes the sbatch script and submits it", launch_slurm},
    {"kubernetes", "a JobSet, Indexed Job, MPIJob or PyTorchJob: writes the manifest and applies it",
     launch_kubernetes},
};

static void print_usage(FILE *out) {
    fputs("usage: bevatron launch WHERE [flags] [train] flags of train…\n\n", out);
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++)
        fprintf(out, "  %-10s %s\n", parts[i].name, parts[i].summary);
    fputs("\nEach has --help.\n", out);
}

int cmd_launch(int argc, char **argv) {
    const char *name = argc > 1 ? argv[1] : "";
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++)
        if (strcmp(parts[i].name, name) == 0)
            return parts[i].run(argc - 1, argv + 1);
    if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0) {
        print_usage(stdout);
        return EXIT_CODE_OK;
    }
    if (*name)
        fprintf(stderr, "bevatron: there is no command \"launch %s\"\n", name);
    print_usage(stderr);
    return EXIT_CODE_USAGE;
}
