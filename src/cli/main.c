// bevatron SUBCOMMAND [flags]: finds the command and runs it.
#include "base/error.h"
#include "base/log.h"
#include "cli/commands.h"

#include <stdio.h>
#include <string.h>

static const struct command {
    const char *name;
    int (*run)(int argc, char **argv);
} commands[] = {
    {"board", cmd_board},       {"checkpoint", cmd_checkpoint}, {"dataset", cmd_dataset},
    {"evaluate", cmd_evaluate}, {"extract", cmd_extract},       {"generate", cmd_generate},
    {"help", cmd_help},         {"preprocess", cmd_preprocess}, {"tokenizer", cmd_tokenizer},
    {"train", cmd_train},       {"version", cmd_version},
};

int main(int argc, char **argv) {
    const char *name = argc > 1 ? argv[1] : "help";
    if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0)
        name = "help";
    if (strcmp(name, "--version") == 0)
        name = "version";
    for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++)
        if (strcmp(commands[i].name, name) == 0)
            return commands[i].run(argc > 1 ? argc - 1 : argc, argc > 1 ? argv + 1 : argv);
    fprintf(stderr, "bevatron: there is no command \"%s\"; `bevatron help` lists them\n", name);
    return EXIT_CODE_USAGE;
}
