// bevatron tokenizer train|encode|decode|inspect|dictionary: finds the subcommand.
#include "cli/commands.h"
#include "cli/tokenizer_commands.h"
#include "base/error.h"
#include <errno.h>
#include <stdio.h>
#include <string.h>

static const char usage[] = "bevatron tokenizer SUBCOMMAND [flags]\n"
                            "\n"
                            "  train       learns byte-level BPE from text\n"
                            "  encode      text on standard input to ids\n"
                            "  decode      ids on standard input to text\n"
                            "  inspect     describes a tokenizer\n"
                            "  dictionary  counts the words of a text, as fairseq-preprocess does\n"
                            "\n"
                            "Each has --help.\n";

int subcommand_main(const struct subcommand *subcommand, int argc, char **argv) {
    int exit_code = EXIT_CODE_OK;
    int status = flags_parse(&subcommand->command, subcommand->options, argc, argv);
    if (status == 0)
        status = subcommand->run(subcommand->options);
    if (status == 0 && (fflush(stdout) != 0 || ferror(stdout)))
        status = error_set("cannot write to standard output: %s", strerror(errno));
    if (status < 0)
        exit_code = command_failed();
    flags_free(&subcommand->command, subcommand->options);
    return exit_code;
}

int cmd_tokenizer(int argc, char **argv) {
    static const struct {
        const char *name;
        int (*main)(int argc, char **argv);
    } subcommands[] = {
        {"train", tokenizer_train_main},           {"encode", tokenizer_encode_main},
        {"decode", tokenizer_decode_main},         {"inspect", tokenizer_inspect_main},
        {"dictionary", tokenizer_dictionary_main},
    };
    const char *name = argc > 1 ? argv[1] : "";
    for (size_t i = 0; i < sizeof subcommands / sizeof subcommands[0]; i++)
        if (strcmp(name, subcommands[i].name) == 0)
            return subcommands[i].main(argc - 1, argv + 1);
    if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0) {
        fputs(usage, stdout);
        return EXIT_CODE_OK;
    }
    error_set_code(EXIT_CODE_USAGE, "%s%s%s; it is tokenizer train, encode, decode, inspect or dictionary",
                   *name ? "there is no tokenizer \"" : "tokenizer needs a subcommand", name, *name ? "\"" : "");
    return command_failed();
}
