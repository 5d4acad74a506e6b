// bevatron tokenizer: makes tokenizers, uses them on standard input, and describes them.
#include "cli/commands.h"
#include "cli/tokenizer_commands.h"

static const struct command_part parts[] = {
    {"train", "learns byte-level BPE from text", tokenizer_train_main},
    {"encode", "text on standard input to ids", tokenizer_encode_main},
    {"decode", "ids on standard input to text", tokenizer_decode_main},
    {"convert", "writes the files of Hugging Face", tokenizer_convert_main},
    {"inspect", "describes a tokenizer", tokenizer_inspect_main},
    {"dictionary", "counts the words of a text, as fairseq-preprocess does", tokenizer_dictionary_main},
};

int cmd_tokenizer(int argc, char **argv) {
    static const struct command_group group = {.name = "tokenizer",
                                               .usage = "COMMAND [flags]",
                                               .ending = "Each command has --help.",
                                               .parts = parts,
                                               .count = sizeof parts / sizeof parts[0]};
    return command_group_run(&group, argc, argv);
}
