// bevatron SUBCOMMAND [flags]: finds the command, runs it, and makes sure that its results have left the process.
#include "base/error.h"
#include "base/interrupt.h"
#include "base/log.h"
#include "base/nearest.h"
#include "cli/commands.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static const struct command {
    const char *name;
    int (*run)(int argc, char **argv);
} commands[] = {
    {"bench", cmd_bench},         {"board", cmd_board},         {"checkpoint", cmd_checkpoint},
    {"cluster", cmd_cluster},     {"dataset", cmd_dataset},     {"evaluate", cmd_evaluate},
    {"extract", cmd_extract},     {"generate", cmd_generate},   {"help", cmd_help},
    {"launch", cmd_launch},       {"preflight", cmd_preflight}, {"preprocess", cmd_preprocess},
    {"tokenizer", cmd_tokenizer}, {"train", cmd_train},         {"version", cmd_version},
};

static const struct command *find(const char *name) {
    for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++)
        if (strcmp(commands[i].name, name) == 0)
            return &commands[i];
    return NULL;
}

// What `help` explains besides commands.
static const char *const topics[] = {"flags", "presets"};
enum { TOPICS = sizeof topics / sizeof topics[0] };

static bool is_topic(const char *name) {
    for (size_t i = 0; i < TOPICS; i++)
        if (strcmp(topics[i], name) == 0)
            return true;
    return false;
}

static int refuse(const char *name, bool is_help) {
    struct nearest nearest = nearest_begin(name, strlen(name));
    for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++)
        nearest_consider(&nearest, commands[i].name);
    for (size_t i = 0; is_help && i < TOPICS; i++)
        nearest_consider(&nearest, topics[i]);
    fprintf(stderr, "bevatron: there is no %s \"%s\"; %s%s%s%s\n", is_help ? "help on" : "command", name,
            nearest.best ? "did you mean " : "", nearest.best ? nearest.best : "", nearest.best ? "? " : "",
            is_help ? "ask for a command, for `flags` or for `presets`" : "`bevatron help` lists them");
    return EXIT_CODE_USAGE;
}

// Results that nobody received are a failure, whatever the command thinks. A reader that went away (a pipe to head)
// knows it already and is told nothing.
static int check_output(int exit_code) {
    errno = 0;
    bool is_lost = fflush(stdout) != 0;
    int error = errno;
    if ((!is_lost && !ferror(stdout)) || exit_code != EXIT_CODE_OK)
        return exit_code;
    if (error != EPIPE)
        log_error("bevatron: cannot write to standard output%s%s; the results are lost: make room, or send them "
                  "elsewhere",
                  error ? ": " : "", error ? strerror(error) : "");
    return EXIT_CODE_ERROR;
}

int main(int argc, char **argv) {
    const char *name = argc > 1 ? argv[1] : "help";
    if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0)
        name = "help";
    if (strcmp(name, "--version") == 0)
        name = "version";
    const struct command *command = find(name);
    if (!command)
        return refuse(name, false);
    // `help train` is `train --help`, and `help dataset merge` is `dataset merge --help`.
    const struct command *topic = command->run == cmd_help && argc > 2 ? find(argv[2]) : NULL;
    if (command->run == cmd_help && argc > 2 && !topic && argv[2][0] != '-' && !is_topic(argv[2]))
        return refuse(argv[2], true);
    char option[] = "--help";
    bool has_part = argc > 3;
    char *ask[] = {topic ? argv[2] : NULL, has_part ? argv[3] : option, has_part ? option : NULL, NULL};
    int exit_code = topic ? topic->run(has_part ? 3 : 2, ask)
                          : command->run(argc > 1 ? argc - 1 : argc, argc > 1 ? argv + 1 : argv);
    exit_code = check_output(exit_code);
    return interrupt_end(exit_code);
}
