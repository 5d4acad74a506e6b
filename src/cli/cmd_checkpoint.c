// bevatron checkpoint: shows checkpoints, proves that they are whole, converts and divides them.
#include "cli/checkpoint.h"
#include "cli/commands.h"

static const struct command_part parts[] = {
    {"inspect", "iterations, state, files and tensors of checkpoints", checkpoint_inspect},
    {"verify", "compares every file with the size and SHA-256 in its manifest", checkpoint_prove},
    {"convert", "to and from Hugging Face, and from Megatron-LM", checkpoint_convert},
    {"reshard", "the same checkpoint in another number of files", checkpoint_reshard},
};

int cmd_checkpoint(int argc, char **argv) {
    static const struct command_group group = {.name = "checkpoint",
                                               .usage = "COMMAND …",
                                               .ending = "A checkpoint is named by its iter_… folder, or by the folder "
                                                         "of --save that holds it. Each command has --help.",
                                               .parts = parts,
                                               .count = sizeof parts / sizeof parts[0]};
    return command_group_run(&group, argc, argv);
}
