// bevatron checkpoint: shows checkpoints, proves that they are whole, converts and divides them.
#include "base/error.h"
#include "cli/checkpoint.h"
#include "cli/commands.h"

#include <stdio.h>
#include <string.h>

static const struct part {
    const char *name, *summary;
    int (*run)(int argc, char **argv);
} parts[] = {
    {"inspect", "iterations, state, files and tensors of checkpoints", checkpoint_inspect},
    {"verify", "compares every file with the size and SHA-256 in its manifest", checkpoint_prove},
    {"convert", "to and from Hugging Face, and from Megatron-LM", checkpoint_convert},
    {"reshard", "the same checkpoint in another number of files", checkpoint_relay},
};

static void print_usage(FILE *out) {
    fputs("usage: bevatron checkpoint COMMAND …\n\n", out);
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++)
        fprintf(out, "  %-8s %s\n", parts[i].name, parts[i].summary);
    fputs("\nA checkpoint is named by its iter_… folder, or by the folder of --save that holds it. Each command has "
          "--help.\n",
          out);
}

int cmd_checkpoint(int argc, char **argv) {
    const char *name = argc > 1 ? argv[1] : "";
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++)
        if (strcmp(parts[i].name, name) == 0)
            return parts[i].run(argc - 1, argv + 1);
    if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0) {
        print_usage(stdout);
        return EXIT_CODE_OK;
    }
    if (*name)
        fprintf(stderr, "bevatron: there is no command \"checkpoint %s\"\n", name);
    print_usage(stderr);
    return EXIT_CODE_USAGE;
}
