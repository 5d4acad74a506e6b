// The subcommands of `bevatron tokenizer`, and what they have in common.
#ifndef CLI_TOKENIZER_COMMANDS_H
#define CLI_TOKENIZER_COMMANDS_H

#include "config/flag.h"

struct subcommand {
    struct flag_command command;
    void *options;  // the struct that the flags fill
    int (*run)(void *options);
};

// Parses, runs, reports an error, frees; returns the exit code.
int subcommand_main(const struct subcommand *subcommand, int argc, char **argv);

int tokenizer_train_main(int argc, char **argv);
int tokenizer_encode_main(int argc, char **argv);
int tokenizer_decode_main(int argc, char **argv);
int tokenizer_inspect_main(int argc, char **argv);
int tokenizer_dictionary_main(int argc, char **argv);

#endif
