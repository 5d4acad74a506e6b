// bevatron tokenizer train, dictionary: makes tokenizers from text.
#include "base/error.h"
#include "base/file.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/pool.h"
#include "net/remote.h"
#include "cli/commands.h"
#include "config/flag_rows.h"
#include "data/extract/inputs.h"
#include "data/extract/lines.h"
#include "data/tokenizer/bpe_train.h"
#include "data/tokenizer/fairseq.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// ---- dictionary ----

// bevatron tokenizer dictionary: makes a fairseq dictionary of a text's words, as fairseq-preprocess does.

struct dictionary_options {
    struct flag_given given;
    struct string_list input;
    char *endpoint_url;
    char *output;
    int64_t threshold;
    int64_t most_words;
    int64_t multiple;
    int64_t max_line_bytes;
};

#define FLAG_STRUCT struct dictionary_options

static const struct flag dictionary_rows[] = {
    GROUP("Dictionary"),
    LIST("--input", input, "FILE…",
         "text, plain or compressed; patterns are expanded, s3:// and https:// are streamed, - is standard input",
         .required = true, .repeats_add = true),
    TEXT("--endpoint-url", endpoint_url, NULL, "URL", ENDPOINT_URL_HELP),
    TEXT("--output", output, NULL, "FILE", "dict.txt to write", .required = true),
    INT("--threshold", threshold, "0", 0, 1e15, "drop words that occur less often (fairseq: --thresholdsrc)"),
    INT("--nwords", most_words, "0", 0, INT32_MAX,
        "maximum number of symbols, including the four special ones; 0 for all (fairseq: --nwordssrc)"),
    INT("--padding-factor", multiple, "8", 1, 1 << 20, "pad the size to a multiple of this with filler words"),
    INT("--max-line-bytes", max_line_bytes, "1073741824", 1, 1e15,
        "a longer line is an error; memory grows with this limit"),
};

// No word crosses a line end, and chunks are whole lines.
static int count_words(struct byte_table *words, const struct dictionary_options *options) {
    OWNED_BY(string_list_free) struct string_list files = {0};
    struct line_reader *lines = NULL;
    struct line_chunk chunk = {0};
    int status = inputs_expand(&files, &options->input);
    if (status == 0) {
        const struct line_options reading = {
            .paths = (const char *const *)files.items,
            .path_count = files.count,
            .line_limit = (size_t)options->max_line_bytes,
        };
        line_reader_open(&lines, &reading);
        while ((status = line_reader_next(lines, &chunk)) > 0)
            fairseq_count_words(words, chunk.text.data, chunk.text.length);
    }
    line_reader_close(lines);
    buffer_free(&chunk.text);
    return status;
}

static int run_dictionary(void *opaque) {
    const struct dictionary_options *options = opaque;
    OWNED_BY(byte_table_free) struct byte_table words = {0};
    OWNED_BY(buffer_free) struct buffer text = {0};
    remote_set_endpoint(options->endpoint_url);
    TRY(file_check_output(options->output, "a dictionary", fairseq_dictionary_begins));
    TRY(file_make_parent(options->output));
    TRY(count_words(&words, options));
    struct fairseq_build build = {options->threshold, options->most_words, options->multiple};
    fairseq_build_dictionary(&words, &build, &text);
    TRY(file_write_all(options->output, buffer_string(&text), text.length));
    int64_t count = 0;
    for (size_t i = 0; i < text.length; i++)
        count += text.data[i] == '\n';
    printf("wrote %s: %" PRId64 " symbols with the special ones, of %" PRId64 " different words\n", options->output,
           count + FAIRSEQ_SPECIALS, words.count);
    return 0;
}

const struct command cmd_tokenizer_dictionary = {
    .flags = {.name = "tokenizer dictionary",
              .summary = "Counts the words of a text and writes a fairseq dictionary, for FairseqTokenizer.",
              .epilogue = "Example:\n  bevatron tokenizer dictionary --input wiki.train.bpe --output dict.txt\n"},
    .tables = {{FLAG_TABLE(dictionary_rows)}},
    .options_bytes = sizeof(struct dictionary_options),
    .run = run_dictionary,
};

// ---- train ----

struct tokenizer_train_options {
    struct flag_given given;
    struct string_list input;
    char *endpoint_url;
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

#undef FLAG_STRUCT
#define FLAG_STRUCT struct tokenizer_train_options

static const char *const format_choices[] = {"auto", "text", "jsonl", NULL};

static const struct flag train_rows[] = {
    GROUP("Training"),
    LIST("--input", input, "FILE…",
         "text or JSON Lines, plain or compressed; patterns are expanded, s3:// and https:// are streamed, - is "
         "standard "
         "input",
         .required = true, .repeats_add = true),
    TEXT("--endpoint-url", endpoint_url, NULL, "URL", ENDPOINT_URL_HELP),
    CHOICE(
        "--input-format", input_format, "auto", format_choices,
        "auto: .jsonl, .ndjson and .json files, and those that begin with an object, are JSON Lines; other files are "
        "text, one document per line"),
    LIST("--json-keys", json_keys, "NAME…", "members of JSON lines that hold text", .initial = "text"),
    SWITCH("--skip-bad-lines", skip_bad_lines, "count and skip bad JSON lines"),
    INT("--max-line-bytes", max_line_bytes, "1073741824", 1, 1e15,
        "a longer line is an error; memory grows with this limit"),
    INT("--vocab-size", vocab_size, NULL, 257, INT32_MAX, "total number of tokens: 256 bytes, merges and <|endoftext|>",
        .required = true),
    INT("--min-frequency", min_frequency, "2", 1, 1e15, "do not merge pairs that occur less often"),
    INT("--workers", workers, NULL, 1, 4096, "threads; does not change the result. Default: all CPUs"),
    TEXT("--output-prefix", output_prefix, NULL, "PREFIX",
         "write PREFIX-vocab.json, PREFIX-merges.txt and PREFIX-tokenizer.json"),
    TEXT("--save", save, NULL, "FOLDER", "write FOLDER/vocab.json, FOLDER/merges.txt and FOLDER/tokenizer.json"),
};

static const struct flag_synonym train_synonyms[] = {
    {"--output --output-dir --output-folder --out --out-dir --save-dir", "--save", "a folder"},
    {"--data --dataset --files --data-path --corpus --input-file", "--input", NULL},
    {"--n-vocab --vocab --num-tokens", "--vocab-size", NULL},
    {0},
};

struct outputs {
    char *vocab_file, *merge_file, *json_file;
    char *folder;     // folder of the files
    int new_folders;  // number of folders on its path that were created
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

// After a failure: removes the folders created for the files, unless they contain something else.
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

// Names the files, and checks before the work whether they can be written.
static int prepare_outputs(struct outputs *outputs, const struct tokenizer_train_options *options) {
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
    TRY(bpe_save(merges, &(struct bpe_files){outputs->vocab_file, outputs->merge_file, outputs->json_file}));
    printf("wrote %s (%" PRId64 " tokens), %s (%" PRId64 " merges) and %s\n", outputs->vocab_file,
           merges->token_count + 1, outputs->merge_file, merges->count, outputs->json_file);
    return 0;
}

static int train_on(const struct tokenizer_train_options *options, const struct byte_table *words,
                    const struct outputs *outputs) {
    struct bpe_train_options training = {
        .vocab_size = options->vocab_size,
        .min_frequency = options->min_frequency,
        .show_progress = true,
    };
    OWNED_BY(bpe_merges_free) struct bpe_merges merges = {0};
    TRY(bpe_train(&merges, words, &training));
    if (merges.token_count + 1 < options->vocab_size)
        log_warn("no more pairs occur %" PRId64 " times: the vocabulary has %" PRId64 " tokens, not %" PRId64
                 "; use more text or a smaller --min-frequency",
                 options->min_frequency, merges.token_count + 1, options->vocab_size);
    return save_trained(outputs, &merges);
}

static int run_train(void *opaque) {
    const struct tokenizer_train_options *options = opaque;
    if (!options->output_prefix == !options->save)
        return error_set_code(EXIT_CODE_USAGE, "give either --output-prefix or --save");
    remote_set_endpoint(options->endpoint_url);
    struct bpe_corpus corpus = {
        .inputs = options->input,
        .format = strcmp(options->input_format, "text") == 0    ? TEXT_FORMAT_PLAIN
                  : strcmp(options->input_format, "jsonl") == 0 ? TEXT_FORMAT_JSONL
                                                                : TEXT_FORMAT_AUTO,
        .keys = options->json_keys,
        .skip_bad_lines = options->skip_bad_lines,
        .line_limit = (size_t)options->max_line_bytes,
        .threads = options->workers ? (int)options->workers : pool_available_processors(),
    };
    OWNED_BY(byte_table_free) struct byte_table words = {0};
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
    free_outputs(&outputs);
    return status;
}

const struct command cmd_tokenizer_train = {
    .flags = {.name = "tokenizer train",
              .argument_flag = "--input",
              .summary =
                  "Trains a byte-level BPE tokenizer like GPT-2's. The merges equal those of Hugging Face's trainer.",
              .epilogue = "Example:\n  bevatron tokenizer train --input 'corpus/*.jsonl' --vocab-size 32000 "
                          "--output-prefix corpus\n"},
    .tables = {{FLAG_TABLE(train_rows), .synonyms = train_synonyms}},
    .options_bytes = sizeof(struct tokenizer_train_options),
    .run = run_train,
};
