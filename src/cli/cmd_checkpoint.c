// bevatron checkpoint: inspects, verifies, converts, reshards and averages checkpoints.
#include "cli/checkpoint.h"
#include "cli/commands.h"

static const struct command_part parts[] = {
    {"inspect", "prints iterations, state, files and tensors of checkpoints", checkpoint_inspect},
    {"verify", "compares every file with the size and SHA-256 in its manifest", checkpoint_prove},
    {"convert", "converts to and from Hugging Face and Megatron-LM, and to GGUF", checkpoint_convert},
    {"reshard", "copies a checkpoint into a different number of files", checkpoint_reshard},
    {"average", "averages the weights of several checkpoints", checkpoint_average},
};

const struct command_group checkpoint_group = {
    .name = "checkpoint",
    .summary = "Inspects, verifies and converts checkpoints.",
    .usage = "COMMAND …",
    .ending = "Name a checkpoint by its iter_… folder, or by the --save folder that holds it. Each command has --help.",
    .parts = parts,
    .count = sizeof parts / sizeof parts[0]};

int cmd_checkpoint(int argc, char **argv) {
    return command_group_run(&checkpoint_group, argc, argv);
}
