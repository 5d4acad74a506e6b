// bevatron preprocess: JSON Lines to .bin/.idx, with the flags of Megatron's preprocess_data.py.
#include "cli/commands.h"
#include "cli/tokenizer_flags.h"
#include "config/flag.h"
#include "data/index/index.h"
#include "data/preprocess.h"
#include "base/error.h"
#include "base/interrupt.h"
#include "base/json.h"
#include "base/log.h"
#include "base/pool.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct options {
    struct flag_given given;
    struct string_list input;
    struct string_list json_keys;
    char *output_prefix;
    bool append_eod;
    int64_t workers;
    int64_t partitions;
    bool keep_sequential_samples;
    int64_t log_interval;
    bool skip_bad_lines;
    char *invalid_utf8;
    int64_t max_line_bytes;
    bool json;
    struct tokenizer_flags tokenizer;
};

#define OFFSET(member) offsetof(struct options, member)

static const char *const utf8_choices[] = {"error", "replace", NULL};

static const struct flag rows[] = {
    {.name = "Input", .type = FLAG_GROUP},
    {.name = "--input",
     .type = FLAG_STRING_LIST,
     .offset = OFFSET(input),
     .value_name = "FILE…",
     .required = true,
     .repeats_add = true,
     .help = "JSON Lines, plain or compressed (.gz, .bz2, .xz, .zst, told by content); patterns are expanded, - is "
             "standard input"},
    {.name = "--json-keys",
     .type = FLAG_STRING_LIST,
     .offset = OFFSET(json_keys),
     .value_name = "NAME…",
     .initial = "text",
     .help = "members to tokenize: strings, or arrays of strings (one sequence each); every one gets its own dataset"},
    {.name = "--skip-bad-lines",
     .type = FLAG_BOOL,
     .offset = OFFSET(skip_bad_lines),
     .help = "count lines that are no JSON object with the wanted members and go on; without it the first is an error"},
    {.name = "--invalid-utf8",
     .type = FLAG_CHOICE,
     .offset = OFFSET(invalid_utf8),
     .initial = "error",
     .choices = utf8_choices,
     .help = "what ill-formed UTF-8 is: a bad line, or replaced by U+FFFD and counted"},
    {.name = "--max-line-bytes",
     .type = FLAG_INT,
     .offset = OFFSET(max_line_bytes),
     .initial = "1073741824",
     .minimum = 1,
     .maximum = 1e15,
     .help = "longest line"},
    {.name = "Output", .type = FLAG_GROUP},
    {.name = "--output-prefix",
     .type = FLAG_STRING,
     .offset = OFFSET(output_prefix),
     .value_name = "PREFIX",
     .required = true,
     .help = "writes PREFIX_KEY_document.bin and .idx for every key"},
    {.name = "--append-eod",
     .type = FLAG_BOOL,
     .offset = OFFSET(append_eod),
     .help = "put the end-of-document token after each document"},
    {.name = "--workers",
     .type = FLAG_INT,
     .offset = OFFSET(workers),
     .minimum = 1,
     .maximum = 4096,
     .help = "threads; the output does not depend on it. Without it, all processors"},
    {.name = "--log-interval",
     .type = FLAG_INT,
     .offset = OFFSET(log_interval),
     .initial = "0",
     .minimum = 0,
     .maximum = 1e15,
     .help = "documents between Megatron's progress lines, in place of the progress bar"},
    {.name = "--json", .type = FLAG_BOOL, .offset = OFFSET(json), .help = "print the summary as JSON"},
    {.name = "--partitions",
     .type = FLAG_INT,
     .offset = OFFSET(partitions),
     .initial = "1",
     .minimum = 1,
     .maximum = 1e9,
     .help = "for Megatron's scripts: more than 1 needs --keep-sequential-samples, and changes nothing",
     .advanced = true},
    {.name = "--keep-sequential-samples",
     .type = FLAG_BOOL,
     .offset = OFFSET(keep_sequential_samples),
     .help = "for Megatron's scripts: documents always keep their order",
     .advanced = true},
};

static const struct flag_names names[] = {
    {.names =
         "--make-vocab-size-divisible-by= --tensor-model-parallel-size= --legacy-tokenizer --dataset-impl=mmap --rank=",
     .message = "accepted, without effect here"},
    {.names = "--split-sentences --keep-newlines --lang=english",
     .message = "is not supported by this version; split sentences beforehand: arrays of strings are kept apart",
     .refused = true},
    {.names = "--find-optimal-num-workers --workers-to-check=* --max-documents=",
     .message = "is not supported: --workers has no best value to find, all processors is right",
     .refused = true},
};

static void print_json(const struct options *options, const struct tokenizer *tokenizer,
                       const struct preprocess_summary *summary) {
    struct buffer text = {0};
    struct json_writer json = {.out = &text};
    json_begin_object(&json);
    json_key(&json, "datasets");
    json_begin_array(&json);
    for (int64_t i = 0; i < options->json_keys.count; i++) {
        char *name = preprocess_output_name(options->output_prefix, options->json_keys.items[i]);
        json_cstring(&json, name);
        free(name);
    }
    json_end_array(&json);
    const struct {
        const char *key;
        int64_t value;
    } numbers[] = {
        {"documents", summary->documents},
        {"empty_documents", summary->empty_documents},
        {"tokens", summary->tokens},
        {"text_bytes", (int64_t)summary->text_bytes},
        {"bad_lines", summary->bad_lines},
        {"blank_lines", summary->blank_lines},
        {"repaired_lines", summary->repaired_lines},
        {"vocab_size", tokenizer_vocab_size(tokenizer)},
    };
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        json_key(&json, numbers[i].key);
        json_int(&json, numbers[i].value);
    }
    json_key(&json, "seconds");
    json_double(&json, summary->seconds);
    json_end_object(&json);
    puts(text.data);
    buffer_free(&text);
}

static void print_summary(const struct options *options, const struct tokenizer *tokenizer,
                          const struct preprocess_summary *summary) {
    for (int64_t i = 0; i < options->json_keys.count; i++) {
        char *name = preprocess_output_name(options->output_prefix, options->json_keys.items[i]);
        printf("wrote %s.bin and .idx\n", name);
        free(name);
    }
    const char *dtype = index_dtype_name(index_dtype_for_vocab(tokenizer_vocab_size(tokenizer)));
    printf("%" PRId64 " documents, %" PRId64 " tokens (%s), %.1f MB of JSON in %.1f s (%.1f MB/s)\n",
           summary->documents, summary->tokens, dtype, (double)summary->text_bytes / 1e6, summary->seconds,
           (double)summary->text_bytes / 1e6 / summary->seconds);
    if (summary->empty_documents)
        printf("%" PRId64 " documents without a token\n", summary->empty_documents);
    if (summary->bad_lines)
        printf("%" PRId64 " bad lines skipped\n", summary->bad_lines);
    if (summary->repaired_lines)
        printf("%" PRId64 " lines with ill-formed UTF-8 mended\n", summary->repaired_lines);
}

static int run(const struct options *options) {
    if (options->partitions > 1 && !options->keep_sequential_samples)
        return error_set_code(EXIT_CODE_USAGE,
                              "--partitions %" PRId64
                              " deals documents out to parts and so changes their order; leave it "
                              "out (--workers uses all processors) or add --keep-sequential-samples",
                              options->partitions);
    struct tokenizer *tokenizer;
    TRY(tokenizer_open_from_flags(&tokenizer, &options->tokenizer));
    struct preprocess_options work = {
        .inputs = options->input,
        .keys = options->json_keys,
        .output_prefix = options->output_prefix,
        .append_eod = options->append_eod,
        .workers = options->workers ? (int)options->workers : pool_available_processors(),
        .skip_bad_lines = options->skip_bad_lines,
        .replace_ill_formed = strcmp(options->invalid_utf8, "replace") == 0,
        .line_limit = (size_t)options->max_line_bytes,
        .log_interval = options->log_interval,
    };
    struct preprocess_summary summary;
    int status = preprocess(&work, tokenizer, &summary);
    if (status == 0 && options->json)
        print_json(options, tokenizer, &summary);
    else if (status == 0)
        print_summary(options, tokenizer, &summary);
    tokenizer_free(tokenizer);
    return status;
}

int cmd_preprocess(int argc, char **argv) {
    const struct flag_table tables[] = {
        {.flags = rows,
         .count = sizeof rows / sizeof rows[0],
         .given = OFFSET(given),
         .names = names,
         .names_count = sizeof names / sizeof names[0]},
        tokenizer_flag_table(OFFSET(tokenizer)),
    };
    const struct flag_command command = {
        .name = "preprocess",
        .summary = "Tokenizes JSON Lines into datasets that `bevatron train` and Megatron-LM read.",
        .tables = tables,
        .table_count = 2,
        .epilogue = "Example:\n"
                    "  bevatron preprocess --input 'corpus/*.jsonl.zst' --output-prefix data/corpus --append-eod \\\n"
                    "      --vocab-file vocab.json --merge-file merges.txt\n",
    };
    struct options options;
    int exit_code = EXIT_CODE_OK;
    int status = flags_parse(&command, &options, argc, argv);
    interrupt_watch();
    if (status == 0)
        status = run(&options);
    if (status < 0)
        exit_code = command_failed();
    flags_free(&command, &options);
    return exit_code;
}
