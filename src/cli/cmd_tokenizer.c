// bevatron tokenizer: makes tokenizers, uses them on standard input, and describes them.
#include "cli/commands.h"
#include "cli/tokenizer_commands.h"

static const struct command_part parts[] = {
    {"train", "trains byte-level BPE on text", tokenizer_train_main},
    {"encode", "encodes text on standard input to ids", tokenizer_encode_main},
    {"decode", "decodes ids on standard input to text", tokenizer_decode_main},
    {"convert", "writes Hugging Face's tokenizer files", tokenizer_convert_main},
    {"inspect", "describes a tokenizer", tokenizer_inspect_main},
    {"dictionary", "counts the words of a text, as fairseq-preprocess does", tokenizer_dictionary_main},
};

const struct command_group tokenizer_group = {.name = "tokenizer",
                                              .summary = "Trains, runs, converts and describes tokenizers.",
                                              .usage = "COMMAND [flags]",
                                              .ending = "Each command has --help.",
                                              .parts = parts,
                                              .count = sizeof parts / sizeof parts[0]};

int cmd_tokenizer(int argc, char **argv) {
    return command_group_run(&tokenizer_group, argc, argv);
}
