// bevatron tokenizer convert: writes any tokenizer as files of Hugging Face.
#include "cli/commands.h"
#include "cli/tokenizer_commands.h"
#include "cli/tokenizer_flags.h"
#include "config/flag_rows.h"
#include "base/error.h"
#include "base/file.h"
#include "data/tokenizer/hf_save.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

struct save_options {
    struct flag_given given;
    char *output;
    struct tokenizer_flags tokenizer;
};

#define FLAG_STRUCT struct save_options

static const struct flag rows[] = {
    GROUP("Output"),
    TEXT("--output", output, NULL, "FOLDER",
         "folder for tokenizer.json, tokenizer_config.json and special_tokens_map.json; created if missing",
         .required = true),
};

// Existing files are not overwritten.
static int check_output(const char *folder) {
    static const char *const names[] = {"tokenizer.json", "tokenizer_config.json", "special_tokens_map.json"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        char *path = file_join(folder, names[i]);
        bool exists = file_exists(path);
        free(path);
        if (exists)
            return error_set("%s already has a %s; give another --output, or remove it", folder, names[i]);
    }
    return 0;
}

static int run_convert(void *opaque) {
    const struct save_options *options = opaque;
    struct tokenizer *tokenizer;
    TRY(check_output(options->output));
    TRY(tokenizer_open_from_flags(&tokenizer, &options->tokenizer));
    struct hf_roles roles = hf_save_roles(tokenizer);
    int status = file_make_folders(options->output);
    if (status == 0)
        status = hf_save_folder(tokenizer, &roles, options->output);
    if (status == 0)
        printf("wrote %s/tokenizer.json (%" PRId64 " tokens), tokenizer_config.json and special_tokens_map.json\n",
               options->output, tokenizer_vocab_size(tokenizer));
    tokenizer_free(tokenizer);
    return status;
}

int tokenizer_convert_main(int argc, char **argv) {
    const struct flag_table tables[] = {
        {FLAG_TABLE(rows)},
        tokenizer_flag_table(OFFSET(tokenizer)),
    };
    struct save_options options;
    const struct flag_command command = {
        .name = "tokenizer convert",
        .summary = "Writes a tokenizer as the Hugging Face files that AutoTokenizer reads. The ids stay the same; "
                   "fails if tokenizer.json cannot express the tokenizer.",
        .epilogue = "Example:\n  bevatron tokenizer convert --tokenizer-type Llama2Tokenizer --tokenizer-model "
                    "tokenizer.model --output llama-tokenizer\n",
        .tables = tables,
        .table_count = sizeof tables / sizeof tables[0]};
    return command_run(&(struct command_call){.flags = &command, .options = &options, .run = run_convert}, argc, argv);
}
