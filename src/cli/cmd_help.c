// bevatron help, bevatron version.
#include "base/error.h"
#include "cli/commands.h"
#include "cli/features.h"
#include "config/config.h"
#include "ops/device.h"

#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>

static const char summary[] =
    "bevatron: language-model pretraining in C\n"
    "\n"
    "Data\n"
    "  extract wiki   Wikipedia dump to JSON Lines\n"
    "  tokenizer      train|dictionary|encode|decode|convert|inspect: trains byte-level BPE, text to ids, ids to text\n"
    "  preprocess     JSON Lines to a dataset (.bin/.idx)\n"
    "  dataset        inspect|verify|merge|peek|import: looks into datasets, checks and joins them\n"
    "Models\n"
    "  train          trains a model; continues one with --load\n"
    "  evaluate       loss and perplexity of a checkpoint\n"
    "  generate       text from a checkpoint\n"
    "  checkpoint     inspect|verify|convert|reshard: shows, proves, converts and divides checkpoints\n"
    "  board          loss curves of all runs below a folder, in the terminal (--text --logdir DIR)\n"
    "Machines\n"
    "  launch         local|slurm|kubernetes: starts a run that is watched and started again, here or on a cluster\n"
    "  preflight      looks at a machine or an allocation before a run: GPUs, network, disks, data\n"
    "  bench          collectives|matmul|step: bandwidth between ranks, matrix products, training steps\n"
    "  cluster        render|create|status|start|stop|delete|build-image|export: AWS ParallelCluster, from a short "
    "file\n"
    "  version        what was built in, for bug reports\n"
    "\n"
    "Every command has --help. `bevatron help flags` explains all flags of train, `bevatron help presets` its "
    "presets.\n"
    "Several ranks: bevatron train --nproc N …, mpirun -n N bevatron train …, or srun\n";

static int help_flags(bool as_markdown) {
    struct buffer text = {0};
    if (as_markdown)
        config_markdown(&text);
    else
        flags_help(config_command(), true, &text);
    fputs(buffer_string(&text), stdout);
    buffer_free(&text);
    return EXIT_CODE_OK;
}

int cmd_help(int argc, char **argv) {
    if (argc > 1 && strcmp(argv[1], "flags") == 0)
        return help_flags(argc > 2 && strcmp(argv[2], "--markdown") == 0);
    if (argc > 1 && strcmp(argv[1], "presets") == 0) {
        struct buffer text = {0};
        config_list_presets(&text);
        fputs(buffer_string(&text), stdout);
        buffer_free(&text);
        return EXIT_CODE_OK;
    }
    fputs(summary, stdout);
    return EXIT_CODE_OK;
}

int cmd_version(int argc, char **argv) {
    (void)argc;
    (void)argv;
    printf("bevatron %s\n", BEVATRON_VERSION);
    for (size_t i = 0; i < feature_count; i++)
        printf("  %-9s %s\n", features[i].name, features[i].is_in ? "yes" : "no");
    int gpus = cuda_count();
    if (gpus < 0)
        printf("  %-9s %s\n", "GPUs", error_message());
    else
        printf("  %-9s %d\n", "GPUs", gpus);
    error_clear();
    char kernels[128];
    cpu_list_kernels(kernels, sizeof kernels);
    printf("  %-9s %s\n", "kernels", kernels);
    struct utsname system;
    if (uname(&system) == 0)
        printf("  %-9s %s %s, %s\n", "system", system.sysname, system.release, system.machine);
    printf("  %-9s %s\n", "compiler", __VERSION__);
    return EXIT_CODE_OK;
}
