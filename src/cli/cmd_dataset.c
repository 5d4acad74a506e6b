// bevatron dataset: inspects, verifies, merges and prints .bin/.idx datasets, and imports those of fairseq and llm.c.
#include "cli/commands.h"
#include "cli/dataset.h"

static const struct command_part parts[] = {
    {"inspect", "prints documents, sequences, tokens, dtype and lengths of datasets", dataset_inspect},
    {"verify", "checks every entry and every token", dataset_verify},
    {"peek", "prints documents as ids or as text", dataset_peek},
    {"merge", "joins datasets into one", dataset_merge},
    {"import", "converts the output of fairseq-preprocess, or llm.c shards", dataset_import},
};

const struct command_group dataset_group = {
    .name = "dataset",
    .summary = "Inspects, checks, joins and imports datasets.",
    .usage = "COMMAND …",
    .ending = "Name a dataset by the path of its two files without .bin and .idx. Each command has --help.",
    .parts = parts,
    .count = sizeof parts / sizeof parts[0]};

int cmd_dataset(int argc, char **argv) {
    return command_group_run(&dataset_group, argc, argv);
}
