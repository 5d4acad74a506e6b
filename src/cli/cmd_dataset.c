// bevatron dataset: looks into .bin/.idx datasets, checks them, joins them, and takes over those of fairseq.
#include "cli/commands.h"
#include "cli/dataset.h"

static const struct command_part parts[] = {
    {"inspect", "documents, sequences, tokens, dtype and lengths of datasets", dataset_inspect},
    {"verify", "looks at every entry and every token", dataset_verify},
    {"peek", "prints documents as ids or as text", dataset_peek},
    {"merge", "joins datasets into one", dataset_merge},
    {"import", "takes over what fairseq-preprocess made", dataset_import},
};

int cmd_dataset(int argc, char **argv) {
    static const struct command_group group = {
        .name = "dataset",
        .usage = "COMMAND …",
        .ending = "A dataset is named by the path of its pair of files without .bin and .idx. Each command has --help.",
        .parts = parts,
        .count = sizeof parts / sizeof parts[0]};
    return command_group_run(&group, argc, argv);
}
