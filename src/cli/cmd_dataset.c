// bevatron dataset: looks into .bin/.idx datasets, checks them, joins them, and takes over those of fairseq.
#include "base/error.h"
#include "cli/commands.h"
#include "cli/dataset.h"

#include <stdio.h>
#include <string.h>

static const struct part {
    const char *name, *summary;
    int (*run)(int argc, char **argv);
} parts[] = {
    {"inspect", "documents, sequences, tokens, dtype and lengths of datasets", dataset_inspect},
    {"verify", "looks at every entry and every token", dataset_verify},
    {"peek", "prints documents as ids or as text", dataset_peek},
    {"merge", "joins datasets into one", dataset_merge},
    {"import", "takes over what fairseq-preprocess made", dataset_import},
};

static void print_usage(FILE *out) {
    fputs("usage: bevatron dataset COMMAND …\n\n", out);
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++)
        fprintf(out, "  %-8s %s\n", parts[i].name, parts[i].summary);
    fputs("\nA dataset is named by the path of its pair of files without .bin and .idx. Each command has --help.\n",
          out);
}

int cmd_dataset(int argc, char **argv) {
    const char *name = argc > 1 ? argv[1] : "";
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++)
        if (strcmp(parts[i].name, name) == 0)
            return parts[i].run(argc - 1, argv + 1);
    if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0) {
        print_usage(stdout);
        return EXIT_CODE_OK;
    }
    if (*name)
        fprintf(stderr, "bevatron: there is no command \"dataset %s\"\n", name);
    print_usage(stderr);
    return EXIT_CODE_USAGE;
}
