// bevatron tokenizer train: text to vocab.json, merges.txt and, both in one, tokenizer.json.
#include "cli/commands.h"
#include "cli/tokenizer_commands.h"
#include "data/tokenizer/bpe_train.h"
#include "data/tokenizer/hf_save.h"
#include "base/error.h"
#include "base/file.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/pool.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define COUNT(array) (sizeof(array) / sizeof(array)[0])

struct train_options {
    struct flag_given given;
    struct string_list input;
    struct string_list json_keys;
    char *input_format;
    int64_t vocab_size;
    int64_t min_frequency;
    int64_t workers;
    bool skip_bad_lines;
    int64_t max_line_bytes;
    char *output_prefix;
    char *save;
};

#define TRAIN(member) offsetof(struct train_options, member)

static const char *const format_choices[] = {"auto", "text", "jsonl", NULL};

static const struct flag train_rows[] = {
    {.name = "Training", .type = FLAG_GROUP},
    {.name = "--input",
     .type = FLAG_STRING_LIST,
     .offset = TRAIN(input),
     .value_name = "FILE…",
     .required = true,
     .repeats_add = true,
     .help = "text or JSON Lines, plain or compressed; patterns are expanded, - is standard input"},
    {.name = "--input-format",
     .type = FLAG_CHOICE,
     .offset = TRAIN(input_format),
     .initial = "auto",
     .choices = format_choices,
     .help = "auto: .jsonl, .ndjson and .json files are JSON Lines, others text, of which every line counts by itself"},
    {.name = "--json-keys",
     .type = FLAG_STRING_LIST,
     .offset = TRAIN(json_keys),
     .value_name = "NAME…",
     .initial = "text",
     .help = "members of JSON lines that hold text"},
    {.name = "--skip-bad-lines",
     .type = FLAG_BOOL,
     .offset = TRAIN(skip_bad_lines),
     .help = "count bad JSON lines and go on"},
    {.name = "--max-line-bytes",
     .type = FLAG_INT,
     .offset = TRAIN(max_line_bytes),
     .initial = "1073741824",
     .minimum = 1,
     .maximum = 1e15,
     .help = "a longer line is an error; memory grows with it"},
    {.name = "--vocab-size",
     .type = FLAG_INT,
     .offset = TRAIN(vocab_size),
     .required = true,
     .minimum = 257,
     .maximum = INT32_MAX,
     .help = "tokens in all: 256 bytes, merges and <|endoftext|>"},
    {.name = "--min-frequency",
     .type = FLAG_INT,
     .offset = TRAIN(min_frequency),
     .initial = "2",
     .minimum = 1,
     .maximum = 1e15,
     .help = "pairs seen less often are not merged"},
    {.name = "--workers",
     .type = FLAG_INT,
     .offset = TRAIN(workers),
     .minimum = 1,
     .maximum = 4096,
     .help = "threads; the result does not depend on it. Without it, all processors"},
    {.name = "--output-prefix",
     .type = FLAG_STRING,
     .offset = TRAIN(output_prefix),
     .value_name = "PREFIX",
     .help = "writes PREFIX-vocab.json, PREFIX-merges.txt and PREFIX-tokenizer.json"},
    {.name = "--save",
     .type = FLAG_STRING,
     .offset = TRAIN(save),
     .value_name = "FOLDER",
     .help = "writes FOLDER/vocab.json, FOLDER/merges.txt and FOLDER/tokenizer.json"},
};

struct outputs {
    char *vocab_file, *merge_file, *json_file;
    char *folder;     // that they are in
    int new_folders;  // how many of it and those above it were not there before
};

static void free_outputs(struct outputs *outputs) {
    free(outputs->folder);
    free(outputs->vocab_file);
    free(outputs->merge_file);
    free(outputs->json_file);
}

static int count_missing(const char *folder) {
    int count = 0;
    char *path = memory_string(folder);
    while (!file_exists(path)) {
        char *parent = file_parent(path);
        free(path);
        path = parent;
        count++;
    }
    free(path);
    return count;
}

// After a failure: what was made for the files goes, unless somebody else has put something there.
static void remove_new_folders(const struct outputs *outputs) {
    char *path = memory_string(outputs->folder);
    for (int i = 0; i < outputs->new_folders; i++) {
        (void)rmdir(path);
        char *parent = file_parent(path);
        free(path);
        path = parent;
    }
    free(path);
}

// Names the files, and finds out before the work whether they can be written.
static int prepare_outputs(struct outputs *outputs, const struct train_options *options) {
    if (options->save) {
        outputs->vocab_file = file_join(options->save, "vocab.json");
        outputs->merge_file = file_join(options->save, "merges.txt");
        outputs->json_file = file_join(options->save, "tokenizer.json");
    } else {
        outputs->vocab_file = memory_printf("%s-vocab.json", options->output_prefix);
        outputs->merge_file = memory_printf("%s-merges.txt", options->output_prefix);
        outputs->json_file = memory_printf("%s-tokenizer.json", options->output_prefix);
    }
    outputs->folder = file_parent(outputs->vocab_file);
    // Other programs' tokenizers have the same names, so none is replaced.
    TRY(file_check_output(outputs->vocab_file, NULL, NULL));
    TRY(file_check_output(outputs->merge_file, NULL, NULL));
    TRY(file_check_output(outputs->json_file, NULL, NULL));
    outputs->new_folders = count_missing(outputs->folder);
    TRY(file_make_folders(outputs->folder));
    struct file_writer trial;
    TRY(file_create(&trial, outputs->vocab_file));
    file_abort(&trial);
    return 0;
}

static int save_trained(const struct outputs *outputs, const struct bpe_merges *merges) {
    TRY(bpe_save(merges, outputs->vocab_file, outputs->merge_file));
    TRY(hf_save_bpe(outputs->vocab_file, outputs->merge_file, outputs->json_file));
    printf("wrote %s (%" PRId64 " tokens), %s (%" PRId64 " merges) and %s\n", outputs->vocab_file,
           merges->token_count + 1, outputs->merge_file, merges->count, outputs->json_file);
    return 0;
}

static int train_on(const struct train_options *options, const struct word_table *words,
                    const struct outputs *outputs) {
    struct bpe_train_options training = {
        .vocab_size = options->vocab_size,
        .min_frequency = options->min_frequency,
        .show_progress = true,
    };
    struct bpe_merges merges;
    int status = bpe_train(&merges, words, &training);
    if (status == 0 && merges.token_count + 1 < options->vocab_size)
        log_warn("no more pairs occur %" PRId64 " times: the vocabulary has %" PRId64 " tokens, not %" PRId64
                 "; use more text or a smaller --min-frequency",
                 options->min_frequency, merges.token_count + 1, options->vocab_size);
    if (status == 0)
        status = save_trained(outputs, &merges);
    bpe_merges_free(&merges);
    return status;
}

static int run_train(void *opaque) {
    const struct train_options *options = opaque;
    if (!options->output_prefix == !options->save)
        return error_set_code(EXIT_CODE_USAGE, "give either --output-prefix or --save");
    struct bpe_corpus corpus = {
        .inputs = options->input,
        .format = strcmp(options->input_format, "text") == 0    ? CORPUS_TEXT
                  : strcmp(options->input_format, "jsonl") == 0 ? CORPUS_JSONL
                                                                : CORPUS_AUTO,
        .keys = options->json_keys,
        .skip_bad_lines = options->skip_bad_lines,
        .line_limit = (size_t)options->max_line_bytes,
        .threads = options->workers ? (int)options->workers : pool_available_processors(),
    };
    struct word_table words = {0};
    struct bpe_corpus_summary summary;
    struct outputs outputs = {0};
    int status = prepare_outputs(&outputs, options);
    if (status == 0)
        status = bpe_count_corpus(&words, &corpus, &summary);
    if (status == 0) {
        log_info("%.1f MB, %" PRId64 " distinct pieces%s", (double)summary.text_bytes / 1e6, words.count,
                 summary.bad_lines ? ", bad lines skipped" : "");
        status = train_on(options, &words, &outputs);
    }
    if (status < 0)
        remove_new_folders(&outputs);
    word_table_free(&words);
    free_outputs(&outputs);
    return status;
}

int tokenizer_train_main(int argc, char **argv) {
    const struct flag_table tables[] = {{.flags = train_rows, .count = COUNT(train_rows), .given = TRAIN(given)}};
    struct train_options options;
    const struct flag_command command = {
        .name = "tokenizer train",
        .argument_flag = "--input",
        .summary = "Trains byte-level BPE as GPT-2 has it. The same text gives the same merges as Hugging "
                   "Face's trainer.",
        .epilogue =
            "Example:\n  bevatron tokenizer train --input 'corpus/*.jsonl' --vocab-size 32000 --output-prefix corpus\n",
        .tables = tables,
        .table_count = COUNT(tables)};
    return command_run(&(struct command_call){.flags = &command, .options = &options, .run = run_train}, argc, argv);
}
