// bevatron tokenizer inspect, convert: describes a tokenizer, and writes it as Hugging Face's files.
#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "base/memory.h"
#include "cli/commands.h"
#include "cli/tokenizer_flags.h"
#include "config/flag_rows.h"
#include "data/sample/vocabulary.h"
#include "data/tokenizer/hf_save.h"
#include "data/tokenizer/unicode_category.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

// ---- convert ----

// bevatron tokenizer convert: writes any tokenizer as files of Hugging Face.

struct save_options {
    struct flag_given given;
    char *output;
    struct tokenizer_flags tokenizer;
};

#define FLAG_STRUCT struct save_options

static const struct flag save_rows[] = {
    GROUP("Output"),
    TEXT("--output", output, NULL, "FOLDER",
         "folder for tokenizer.json, tokenizer_config.json and special_tokens_map.json; created if missing",
         .required = true),
};

// Existing files are not overwritten.
static int check_output(const char *folder) {
    static const char *const names[] = {"tokenizer.json", "tokenizer_config.json", "special_tokens_map.json"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        OWNED char *path = file_join(folder, names[i]);
        bool exists = file_exists(path);
        if (exists)
            return error_set("%s already has a %s; give another --output, or remove it", folder, names[i]);
    }
    return 0;
}

static int run_convert(void *opaque) {
    const struct save_options *options = opaque;
    OWNED_BY(tokenizer_drop) struct tokenizer *tokenizer = NULL;
    TRY(check_output(options->output));
    TRY(tokenizer_open_from_flags(&tokenizer, &options->tokenizer));
    struct hf_roles roles = hf_save_roles(tokenizer);
    TRY(file_make_folders(options->output));
    TRY(hf_save_folder(tokenizer, &roles, options->output));
    printf("wrote %s/tokenizer.json (%" PRId64 " tokens), tokenizer_config.json and special_tokens_map.json\n",
           options->output, tokenizer_vocab_size(tokenizer));
    return 0;
}

const struct command cmd_tokenizer_convert = {
    .flags = {.name = "tokenizer convert",
              .summary =
                  "Writes a tokenizer as the Hugging Face files that AutoTokenizer reads. The ids stay the same; "
                  "fails if tokenizer.json cannot express the tokenizer.",
              .epilogue = "Example:\n  bevatron tokenizer convert --tokenizer-type Llama2Tokenizer --tokenizer-model "
                          "tokenizer.model --output llama-tokenizer\n"},
    .tables = {{FLAG_TABLE(save_rows)}},
    .shared = tokenizer_flag_table,
    .shared_at = OFFSET(tokenizer),
    .options_bytes = sizeof(struct save_options),
    .run = run_convert,
};

// ---- inspect ----

struct inspect_options {
    struct flag_given given;
    bool json;
    bool tokens;
    struct tokenizer_flags tokenizer;
};

#undef FLAG_STRUCT
#define FLAG_STRUCT struct inspect_options

static const struct flag inspect_rows[] = {
    GROUP("Report"),
    SWITCH("--json", json, "print JSON"),
    SWITCH("--tokens", tokens, "list every token: its id, a tab, its text as a JSON string"),
};

struct token_survey {
    int64_t holes;  // ids without a token
    int32_t longest;
    size_t longest_bytes;
};

static void survey(const struct tokenizer *tokenizer, struct token_survey *report) {
    OWNED_BY(buffer_free) struct buffer text = {0};
    *report = (struct token_survey){0};
    for (int64_t i = 0; i < tokenizer_vocab_size(tokenizer); i++) {
        int32_t id = (int32_t)i;
        buffer_clear(&text);
        if (tokenizer_decode(tokenizer, &id, 1, &text) < 0) {
            error_clear();
            report->holes++;
        } else if (text.length > report->longest_bytes) {
            report->longest = id;
            report->longest_bytes = text.length;
        }
    }
}

static void list_tokens(const struct tokenizer *tokenizer) {
    OWNED_BY(buffer_free) struct buffer text = {0}, line = {0};
    for (int64_t i = 0; i < tokenizer_vocab_size(tokenizer); i++) {
        int32_t id = (int32_t)i;
        buffer_clear(&text);
        buffer_clear(&line);
        if (tokenizer_decode(tokenizer, &id, 1, &text) < 0) {
            error_clear();
            continue;
        }
        struct json_writer json = {.out = &line};
        json_string(&json, buffer_string(&text), text.length);
        printf("%" PRId32 "\t%s\n", id, buffer_string(&line));
    }
}

struct number {
    const char *key;
    int64_t value;
};

enum { MOST_NUMBERS = 12 };

// Special tokens that are not in the vocabulary are left out.
static size_t list_numbers(const struct tokenizer *tokenizer, const struct token_survey *report,
                           struct number *numbers) {
    OWNED_BY(sample_vocabulary_free) struct sample_vocabulary special = {0};
    sample_vocabulary_make(&special, tokenizer);
    const struct number all[MOST_NUMBERS] = {{"vocab_size", tokenizer_vocab_size(tokenizer)},
                                             {"end_of_document", tokenizer_eod(tokenizer)},
                                             {"ids_without_token", report->holes},
                                             {"longest_token", report->longest},
                                             {"longest_token_bytes", (int64_t)report->longest_bytes},
                                             {"bos", special.bos},
                                             {"eos", special.eos},
                                             {"pad", special.pad},
                                             {"mask", special.mask},
                                             {"cls", special.cls},
                                             {"sep", special.sep},
                                             {"extra_ids", special.sentinel_count > 0 ? special.sentinel_count : -1}};
    const size_t always = 5;
    size_t count = 0;
    for (size_t i = 0; i < MOST_NUMBERS; i++)
        if (i < always || all[i].value >= 0)
            numbers[count++] = all[i];
    return count;
}

static void print_report(const struct tokenizer *tokenizer, const struct token_survey *report, bool as_json) {
    struct number numbers[MOST_NUMBERS];
    const size_t count = list_numbers(tokenizer, report, numbers);
    if (!as_json) {
        printf("%-20s %s\n", "type", tokenizer_type(tokenizer));
        for (size_t i = 0; i < count; i++)
            printf("%-20s %" PRId64 "\n", numbers[i].key, numbers[i].value);
        printf("%-20s %s\n", "unicode", UNICODE_VERSION);
        return;
    }
    OWNED_BY(buffer_free) struct buffer text = {0};
    struct json_writer json = {.out = &text};
    json_begin_object(&json);
    json_put_string(&json, "type", tokenizer_type(tokenizer));
    for (size_t i = 0; i < count; i++)
        json_put_int(&json, numbers[i].key, numbers[i].value);
    json_put_string(&json, "unicode", UNICODE_VERSION);
    json_end_object(&json);
    puts(text.data);
}

static int run_inspect(void *opaque) {
    const struct inspect_options *options = opaque;
    OWNED_BY(tokenizer_drop) struct tokenizer *tokenizer = NULL;
    TRY(tokenizer_open_from_flags(&tokenizer, &options->tokenizer));
    if (options->tokens) {
        list_tokens(tokenizer);
    } else {
        struct token_survey report;
        survey(tokenizer, &report);
        print_report(tokenizer, &report, options->json);
    }
    return 0;
}

const struct command cmd_tokenizer_inspect = {
    .flags = {.name = "tokenizer inspect",
              .summary = "Describes a tokenizer.",
              .epilogue =
                  "Examples:\n"
                  "  bevatron tokenizer inspect --vocab-file vocab.json --merge-file merges.txt\n"
                  "  bevatron tokenizer inspect --tokenizer-type Llama2Tokenizer --tokenizer-model tokenizer.model "
                  "--tokens\n"},
    .tables = {{FLAG_TABLE(inspect_rows)}},
    .shared = tokenizer_flag_table,
    .shared_at = OFFSET(tokenizer),
    .options_bytes = sizeof(struct inspect_options),
    .run = run_inspect,
};
