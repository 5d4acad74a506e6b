// bevatron preprocess: JSON Lines to .bin/.idx, with the flags of Megatron's preprocess_data.py.
#include "cli/commands.h"
#include "cli/tokenizer_flags.h"
#include "config/flag_rows.h"
#include "data/index/index.h"
#include "data/preprocess.h"
#include "data/sentence.h"
#include "data/tokenizer/tokenizer.h"
#include "base/error.h"
#include "base/interrupt.h"
#include "base/json.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/pool.h"
#include "net/remote.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

struct preprocess_command {
    struct flag_given given;
    struct string_list input;
    struct string_list json_keys;
    char *endpoint_url;
    char *input_format;
    char *output_prefix;
    bool append_eod;
    bool split_sentences;
    bool keep_newlines;
    char *language;
    char *dedup;
    bool shuffle;
    int64_t seed;
    bool restart;
    int64_t chunk_bytes;
    double journal_interval;
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

#define FLAG_STRUCT struct preprocess_command

static const char *const utf8_choices[] = {"error", "replace", NULL};
static const char *const dedup_choices[] = {"none", "exact", NULL};
static const char *const format_choices[] = {"jsonl", "text", "auto", NULL};

static const struct flag rows[] = {
    GROUP("Input"),
    LIST(
        "--input", input, "FILE…",
        "files, plain or compressed (.gz, .bz2, .xz, .zst, detected by content); patterns are expanded, a folder means "
        "all files of JSON Lines, JSON, Parquet, Arrow, WET, tar, CSV and TSV below it (also .txt, .text and .md if "
        "--input-format allows text; no "
        "READMEs and licences), - is standard input; s3:// objects, patterns and prefixes and https:// files are "
        "streamed",
        .required = true, .repeats_add = true),
    TEXT("--endpoint-url", endpoint_url, NULL, "URL", ENDPOINT_URL_HELP),
    CHOICE("--input-format", input_format, "jsonl", format_choices,
           "text: plain text, cut at line ends into documents of up to 64 KiB, of small texts less; auto: by name and "
           "content, as train reads "
           "--data-path"),
    LIST("--json-keys", json_keys, "NAME…",
         "members to tokenize: strings, or arrays of strings (one sequence each); each member gets its own dataset",
         .initial = "text"),
    SWITCH(
        "--skip-bad-lines", skip_bad_lines,
        "count, list and skip lines that are not a JSON object with these members; default: the first one is an error"),
    CHOICE("--invalid-utf8", invalid_utf8, "error", utf8_choices,
           "what to do with ill-formed UTF-8 and lone surrogates: treat the line as bad, or replace them by U+FFFD and "
           "count them"),
    INT("--max-line-bytes", max_line_bytes, "67108864", 1, 1e15,
        "longer lines are bad lines; a line needs up to eight times its length in memory"),
    GROUP("Output"),
    TEXT("--output-prefix", output_prefix, NULL, "PREFIX",
         "write PREFIX_KEY_document.bin and .idx for every key; PREFIX.unfinished/ holds unfinished work, which the "
         "same command resumes",
         .required = true),
    SWITCH("--restart", restart, "delete PREFIX.unfinished/ and start over; also replaces an existing dataset"),
    SWITCH("--append-eod", append_eod, "append the end-of-document token to each document"),
    SWITCH("--split-sentences", split_sentences,
           "make every sentence a sequence, for BERT and T5; writes PREFIX_KEY_sentence"),
    SWITCH("--keep-newlines", keep_newlines, "with --split-sentences: keep the white space after a sentence"),
    TEXT("--lang", language, "english", "NAME",
         "with --split-sentences: language of abbreviations and ordinals, e.g. german or de; not needed for Cyrillic, "
         "Greek, Thai, Lao, Khmer, Chinese and Japanese"),
    CHOICE("--dedup", dedup, "none", dedup_choices, "exact: drop documents whose tokens equal those of an earlier one"),
    SWITCH("--shuffle", shuffle, "shuffle the documents; the order depends only on --seed"),
    INT("--seed", seed, "1234", 0, 0x1p53, "seed of --shuffle"),
    INT("--workers", workers, NULL, 1, 4096,
        "threads; does not change the output. Default: all CPUs. With one worker, a second thread decompresses input"),
    INT("--log-interval", log_interval, "0", 0, 1e15,
        "documents between Megatron's progress lines, which replace the progress bar"),
    SWITCH("--json", json, "print the summary as JSON"),
    INT("--chunk-bytes", chunk_bytes, "0", 0, 1 << 28,
        "bytes of text per work item; 0 chooses by the number of workers. Does not change the output", ADVANCED),
    REAL("--journal-interval", journal_interval, "5", 0, 1e6,
         "seconds between journal entries; a killed run loses at most this much work", ADVANCED),
    INT("--partitions", partitions, "1", 1, 1e9,
        "write documents in Megatron's --partitions order: dealt in turn to this many parts, one part after another. "
        "Does not affect speed",
        ADVANCED),
    SWITCH("--keep-sequential-samples", keep_sequential_samples, "with --partitions: keep the documents in input order",
           ADVANCED),
};

static const struct flag_names names[] = {
    {.names = "--make-vocab-size-divisible-by= --tensor-model-parallel-size= --legacy-tokenizer --rank= "
              "--padded-vocab-size= --no-pad-vocab-size --tokenizer-metadata= --tokenizer-hf-no-use-fast "
              "--trust-remote-code "
              "--null-tokenizer-pad-id= --use-gigatoken",
     .message = "accepted, without effect here"},
    {.names = "--dataset-impl=mmap", .message = "is not supported: datasets are of the kind mmap", .refused = true},
    {.names = "--workers-to-check=* --max-documents=", .message = "accepted, without effect here"},
    {.names = "--tokenizer-special-tokens=* --tokenizer-sentencepiece-legacy --chat-template= "
              "--no-tokenizer-sentencepiece-ignore-extra-whitespaces",
     .message = "is not supported, and would change tokens",
     .refused = true},
    {.names = "--find-optimal-num-workers",
     .message = "is not supported: --workers has no best value to find, all processors is right",
     .refused = true},
};

static int64_t peak_memory_bytes(void) {
    struct rusage usage;
    return getrusage(RUSAGE_SELF, &usage) == 0 ? (int64_t)usage.ru_maxrss * 1024 : 0;
}

static void print_json(const struct preprocess_options *work, const struct tokenizer *tokenizer,
                       const struct preprocess_summary *summary) {
    const struct text_counts *counts = &summary->counts;
    OWNED_BY(buffer_free) struct buffer text = {0};
    struct json_writer json = {.out = &text};
    json_begin_object(&json);
    json_key(&json, "datasets");
    json_begin_array(&json);
    for (int64_t i = 0; i < work->keys.count; i++) {
        OWNED char *name = preprocess_output_name(work, work->keys.items[i]);
        json_cstring(&json, name);
    }
    json_end_array(&json);
    const struct {
        const char *key;
        int64_t value;
    } numbers[] = {
        {"documents", counts->documents},
        {"empty_documents", counts->empty_documents},
        {"duplicates", counts->duplicates},
        {"tokens", counts->tokens},
        {"longest_document", counts->longest_tokens},
        {"text_bytes", counts->text_bytes},
        {"bad_lines", counts->bad_lines},
        {"blank_lines", counts->blank_lines},
        {"repaired_lines", counts->repaired_lines},
        {"documents_kept", summary->documents_kept},
        {"vocab_size", tokenizer_vocab_size(tokenizer)},
        {"peak_memory_bytes", peak_memory_bytes()},
    };
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++)
        json_put_int(&json, numbers[i].key, numbers[i].value);
    json_put_double(&json, "seconds", summary->seconds);
    json_end_object(&json);
    puts(text.data);
}

static void print_summary(const struct preprocess_options *work, const struct tokenizer *tokenizer,
                          const struct preprocess_summary *summary) {
    const struct text_counts *counts = &summary->counts;
    for (int64_t i = 0; i < work->keys.count; i++) {
        OWNED char *name = preprocess_output_name(work, work->keys.items[i]);
        printf("wrote %s.bin and .idx\n", name);
    }
    const char *dtype = index_dtype_name(index_dtype_for_vocab(tokenizer_vocab_size(tokenizer)));
    printf("%" PRId64 " documents, %" PRId64 " tokens (%s), %.1f MB of JSON in %.1f s (%.1f MB/s)\n", counts->documents,
           counts->tokens, dtype, (double)counts->text_bytes / 1e6, summary->seconds,
           (double)counts->text_bytes / 1e6 / summary->seconds);
    if (counts->tokens > 0 && counts->duplicates == 0)
        printf("%.2f bytes of JSON a token, ", (double)counts->text_bytes / (double)counts->tokens);
    if (counts->tokens > 0)
        printf("longest document %" PRId64 " tokens, peak memory %.0f MB\n", counts->longest_tokens,
               (double)peak_memory_bytes() / 1e6);
    if (summary->documents_kept)
        printf("%" PRId64 " documents were done by an earlier run that was stopped\n", summary->documents_kept);
    if (counts->empty_documents)
        printf("%" PRId64 " documents without a token\n", counts->empty_documents);
    if (counts->duplicates)
        printf("%" PRId64 " duplicates left out\n", counts->duplicates);
    if (counts->bad_lines)
        printf("%" PRId64 " bad lines skipped, listed in %s\n", counts->bad_lines, summary->bad_lines);
    if (counts->repaired_lines)
        printf("%" PRId64 " lines with ill-formed UTF-8 repaired\n", counts->repaired_lines);
}

// The language of --lang; a usage error that lists them if there is none.
static int find_language(const struct preprocess_command *options, const struct sentence_language **language) {
    *language = sentence_language_find(options->language);
    if (*language)
        return 0;
    OWNED_BY(buffer_free) struct buffer known = {0};
    const struct sentence_language *other;
    for (size_t i = 0; (other = sentence_language_at(i)); i++)
        buffer_printf(&known, "%s%.*s", i ? ", " : "", (int)strcspn(other->names, " "), other->names);
    error_set_code(
        EXIT_CODE_USAGE,
        "--lang %s is not supported; choose one of %s; Thai, Lao, Khmer, Chinese and Japanese text needs no --lang",
        options->language, buffer_string(&known));
    return -1;
}

static void warn_of_no_effect(const struct preprocess_command *options) {
    if (options->shuffle && options->partitions > 1)
        log_warn("--partitions has no effect with --shuffle, which reorders the documents");
    if (options->keep_newlines && !options->split_sentences)
        log_warn("--keep-newlines has no effect without --split-sentences");
    if (flag_is_given(&options->given, "--lang") && !options->split_sentences)
        log_warn("--lang has no effect without --split-sentences");
}

static enum text_format text_format_of(const char *name) {
    return strcmp(name, "text") == 0   ? TEXT_FORMAT_PLAIN
           : strcmp(name, "auto") == 0 ? TEXT_FORMAT_AUTO
                                       : TEXT_FORMAT_JSONL;
}

static int run_with(const struct preprocess_command *options, const struct tokenizer *tokenizer,
                    const char *description) {
    struct preprocess_options work = {
        .inputs = options->input,
        .format = text_format_of(options->input_format),
        .keys = options->json_keys,
        .output_prefix = options->output_prefix,
        .append_eod = options->append_eod,
        .split_sentences = options->split_sentences,
        .keep_newlines = options->keep_newlines,
        .dedup = strcmp(options->dedup, "exact") == 0,
        .shuffle = options->shuffle,
        .seed = (uint64_t)options->seed,
        .partitions = options->keep_sequential_samples || options->shuffle ? 1 : options->partitions,
        .workers = options->workers ? (int)options->workers : pool_available_processors(),
        .skip_bad_lines = options->skip_bad_lines,
        .replace_ill_formed = strcmp(options->invalid_utf8, "replace") == 0,
        .line_limit = (size_t)options->max_line_bytes,
        .log_interval = options->log_interval,
        .restart = options->restart,
        .tokenizer = description,
        .chunk_bytes = (size_t)options->chunk_bytes,
        .journal_seconds = options->journal_interval,
    };
    if (options->split_sentences)
        TRY(find_language(options, &work.language));
    struct preprocess_summary summary;
    TRY(preprocess(&work, tokenizer, &summary));
    if (options->json)
        print_json(&work, tokenizer, &summary);
    else
        print_summary(&work, tokenizer, &summary);
    free(summary.bad_lines);
    return 0;
}

static int run_preprocessing(void *context) {
    const struct preprocess_command *options = context;
    interrupt_watch();
    remote_set_endpoint(options->endpoint_url);
    OWNED_BY(tokenizer_drop) struct tokenizer *tokenizer = NULL;
    OWNED_BY(buffer_free) struct buffer description = {0};
    warn_of_no_effect(options);
    TRY(tokenizer_open_from_flags(&tokenizer, &options->tokenizer));
    struct tokenizer_options identity = tokenizer_options_from_flags(&options->tokenizer);
    tokenizer_describe(&description, &identity);
    return run_with(options, tokenizer, buffer_string(&description));
}

// Their names in fairseq, NeMo, nanotron, datatrove and scripts around Hugging Face's datasets.
static const struct flag_synonym synonyms[] = {
    {"--output --output-dir --output-file --output-folder --out --destdir --out-dir", "--output-prefix",
     "the files are called PREFIX_text_document.bin and .idx"},
    {"--data --dataset --data-dir --input-dir --input-file --input-path --trainpref --files", "--input",
     "files of JSON Lines, also compressed"},
    {"--num-proc --num-workers --n-workers --num-processes --threads --nproc --jobs", "--workers", NULL},
    {"--key --keys --text-key --text-column --text-column-name --column --json-key --field", "--json-keys", NULL},
    {"--eod --append-eos --add-eos --append-end-of-document", "--append-eod", NULL},
    {"--tokenizer --tokenizer-name --tokenizer-name-or-path --tokenizer-path --tokenizer-file --tokenizer-library",
     "--tokenizer-type and --tokenizer-model", "e.g. HuggingFaceTokenizer and a tokenizer.json"},
    {"--srcdict --dict --dict-file --vocab", "--vocab-file", "or --tokenizer-type FairseqTokenizer --tokenizer-model"},
    {0},
};

char *preprocess_journal(const void *given_options) {
    const struct preprocess_command *options = given_options;
    for (int64_t i = 0; i < options->input.count; i++)
        if (strcmp(options->input.items[i], "-") == 0)
            return NULL;
    return options->restart ? NULL : memory_printf("%s.unfinished/journal", options->output_prefix);
}

const struct command cmd_preprocess = {
    .flags = {.name = "preprocess",
              .argument_flag = "--input",
              .summary = "Tokenizes JSON Lines into datasets that `bevatron train` and Megatron-LM read.",
              .epilogue =
                  "Example:\n"
                  "  bevatron preprocess --input 'corpus/*.jsonl.zst' --output-prefix data/corpus --append-eod \\\n"
                  "      --vocab-file vocab.json --merge-file merges.txt\n"},
    .tables = {{FLAG_TABLE(rows), .names = names, .names_count = sizeof names / sizeof names[0], .synonyms = synonyms}},
    .shared = tokenizer_flag_table,
    .shared_at = OFFSET(tokenizer),
    .options_bytes = sizeof(struct preprocess_command),
    .run = run_preprocessing,
};
