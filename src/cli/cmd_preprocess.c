// bevatron preprocess: JSON Lines to .bin/.idx, with the flags of Megatron's preprocess_data.py.
#include "cli/commands.h"
#include "cli/tokenizer_flags.h"
#include "config/flag.h"
#include "data/index/index.h"
#include "data/preprocess.h"
#include "data/sentence_words.h"
#include "base/error.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/interrupt.h"
#include "base/json.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/pool.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

struct options {
    struct flag_given given;
    struct string_list input;
    struct string_list json_keys;
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

#define OFFSET(member) offsetof(struct options, member)

static const char *const utf8_choices[] = {"error", "replace", NULL};
static const char *const dedup_choices[] = {"none", "exact", NULL};

static const struct flag rows[] = {
    {.name = "Input", .type = FLAG_GROUP},
    {.name = "--input",
     .type = FLAG_STRING_LIST,
     .offset = OFFSET(input),
     .value_name = "FILE…",
     .required = true,
     .repeats_add = true,
     .help = "JSON Lines, plain or compressed (.gz, .bz2, .xz, .zst, told by content); patterns are expanded, a folder "
             "stands for all .jsonl, .ndjson and .json files below it, - is standard input"},
    {.name = "--json-keys",
     .type = FLAG_STRING_LIST,
     .offset = OFFSET(json_keys),
     .value_name = "NAME…",
     .initial = "text",
     .help = "members to tokenize: strings, or arrays of strings (one sequence each); every one gets its own dataset"},
    {.name = "--skip-bad-lines",
     .type = FLAG_BOOL,
     .offset = OFFSET(skip_bad_lines),
     .help = "count and list lines that are no JSON object with the wanted members, and go on; without it the first is "
             "an error"},
    {.name = "--invalid-utf8",
     .type = FLAG_CHOICE,
     .offset = OFFSET(invalid_utf8),
     .initial = "error",
     .choices = utf8_choices,
     .help = "what ill-formed UTF-8 and lone surrogates are: a bad line, or replaced by U+FFFD and counted"},
    {.name = "--max-line-bytes",
     .type = FLAG_INT,
     .offset = OFFSET(max_line_bytes),
     .initial = "67108864",
     .minimum = 1,
     .maximum = 1e15,
     .help = "a longer line is a bad one; memory grows with it, up to about eight times for each line of that length"},
    {.name = "Output", .type = FLAG_GROUP},
    {.name = "--output-prefix",
     .type = FLAG_STRING,
     .offset = OFFSET(output_prefix),
     .value_name = "PREFIX",
     .required = true,
     .help = "writes PREFIX_KEY_document.bin and .idx for every key; until they are whole, PREFIX.unfinished/ holds "
             "what is done, and the same command continues it"},
    {.name = "--restart",
     .type = FLAG_BOOL,
     .offset = OFFSET(restart),
     .help = "drop what a stopped run has left in PREFIX.unfinished/ and begin anew"},
    {.name = "--append-eod",
     .type = FLAG_BOOL,
     .offset = OFFSET(append_eod),
     .help = "put the end-of-document token after each document"},
    {.name = "--split-sentences",
     .type = FLAG_BOOL,
     .offset = OFFSET(split_sentences),
     .help = "every sentence is a sequence of its own, for BERT and T5: writes PREFIX_KEY_sentence"},
    {.name = "--keep-newlines",
     .type = FLAG_BOOL,
     .offset = OFFSET(keep_newlines),
     .help = "with --split-sentences: white space after a sentence belongs to it"},
    {.name = "--lang",
     .type = FLAG_STRING,
     .offset = OFFSET(language),
     .value_name = "NAME",
     .initial = "english",
     .help = "with --split-sentences: whose abbreviations and ordinals are known, e.g. german or de; Cyrillic, Greek, "
             "Thai, "
             "Lao, Khmer, Chinese and Japanese text need no name"},
    {.name = "--dedup",
     .type = FLAG_CHOICE,
     .offset = OFFSET(dedup),
     .initial = "none",
     .choices = dedup_choices,
     .help = "exact: leave out documents whose tokens equal those of an earlier one"},
    {.name = "--shuffle",
     .type = FLAG_BOOL,
     .offset = OFFSET(shuffle),
     .help = "put the documents into a random order, which depends on --seed alone"},
    {.name = "--seed",
     .type = FLAG_INT,
     .offset = OFFSET(seed),
     .initial = "1234",
     .minimum = 0,
     .maximum = 0x1p53,
     .help = "of --shuffle"},
    {.name = "--workers",
     .type = FLAG_INT,
     .offset = OFFSET(workers),
     .minimum = 1,
     .maximum = 4096,
     .help =
         "threads; the output does not depend on it. Without it, all processors. Beside a single one, another reads "
         "compressed input"},
    {.name = "--log-interval",
     .type = FLAG_INT,
     .offset = OFFSET(log_interval),
     .initial = "0",
     .minimum = 0,
     .maximum = 1e15,
     .help = "documents between Megatron's progress lines, in place of the progress bar"},
    {.name = "--json", .type = FLAG_BOOL, .offset = OFFSET(json), .help = "print the summary as JSON"},
    {.name = "--chunk-bytes",
     .type = FLAG_INT,
     .offset = OFFSET(chunk_bytes),
     .initial = "0",
     .minimum = 0,
     .maximum = 1 << 28,
     .help = "text of one piece of work; 0 chooses by the number of workers. The output does not depend on it",
     .advanced = true},
    {.name = "--journal-interval",
     .type = FLAG_DOUBLE,
     .offset = OFFSET(journal_interval),
     .initial = "5",
     .minimum = 0,
     .maximum = 1e6,
     .help = "seconds between two notes of how far the work is; a killed run loses no more than that",
     .advanced = true},
    {.name = "--partitions",
     .type = FLAG_INT,
     .offset = OFFSET(partitions),
     .initial = "1",
     .minimum = 1,
     .maximum = 1e9,
     .help = "for Megatron's order: documents are dealt out in turn to this many parts, which come one after another; "
             "speed does not need it",
     .advanced = true},
    {.name = "--keep-sequential-samples",
     .type = FLAG_BOOL,
     .offset = OFFSET(keep_sequential_samples),
     .help = "with --partitions: documents keep their order all the same",
     .advanced = true},
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
    struct buffer text = {0};
    struct json_writer json = {.out = &text};
    json_begin_object(&json);
    json_key(&json, "datasets");
    json_begin_array(&json);
    for (int64_t i = 0; i < work->keys.count; i++) {
        char *name = preprocess_output_name(work, work->keys.items[i]);
        json_cstring(&json, name);
        free(name);
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

static void print_summary(const struct preprocess_options *work, const struct tokenizer *tokenizer,
                          const struct preprocess_summary *summary) {
    const struct text_counts *counts = &summary->counts;
    for (int64_t i = 0; i < work->keys.count; i++) {
        char *name = preprocess_output_name(work, work->keys.items[i]);
        printf("wrote %s.bin and .idx\n", name);
        free(name);
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
        printf("%" PRId64 " documents were done before, by a run that was stopped\n", summary->documents_kept);
    if (counts->empty_documents)
        printf("%" PRId64 " documents without a token\n", counts->empty_documents);
    if (counts->duplicates)
        printf("%" PRId64 " duplicates left out\n", counts->duplicates);
    if (counts->bad_lines)
        printf("%" PRId64 " bad lines skipped, listed in %s\n", counts->bad_lines, summary->bad_lines);
    if (counts->repaired_lines)
        printf("%" PRId64 " lines with ill-formed UTF-8 mended\n", counts->repaired_lines);
}

// A line for a file that the tokenizer is made of: what it holds, so that a copy elsewhere is the same. One that cannot
// be read is none of the tokenizer's, which is open already.
static void describe_file(struct buffer *out, const char *flag, const char *path) {
    char hex[65];
    if (!path)
        return;
    char *inner = file_is_folder(path) ? file_join(path, "tokenizer.json") : memory_string(path);
    if (sha256_file(inner, hex) == 0) {
        buffer_printf(out, "%s with SHA-256 %s\n", flag, hex);
    } else {
        error_clear();
        buffer_printf(out, "%s %s\n", flag, path);
    }
    free(inner);
}

static void describe_tokenizer(struct buffer *out, const struct tokenizer_flags *flags) {
    buffer_printf(out, "--tokenizer-type %s\n", flags->type);
    describe_file(out, "--vocab-file", flags->vocab_file);
    describe_file(out, "--merge-file", flags->merge_file);
    describe_file(out, "--tokenizer-model", flags->model_file);
    buffer_printf(out, "--vocab-size %" PRId64 "\n--null-tokenizer-eod-id %" PRId64 "\n--vocab-extra-ids %" PRId64 "\n",
                  flags->vocab_size, flags->null_eod_id, flags->extra_ids);
    buffer_printf(out, "--no-legacy-tokenizer %d\n--tokenizer-hf-no-include-special-tokens %d\n", flags->as_today,
                  flags->hf_without_specials);
    buffer_printf(out, "--tiktoken-pattern %s\n--tiktoken-num-special-tokens %" PRId64 "\n",
                  flags->tiktoken_pattern ? flags->tiktoken_pattern : "", flags->tiktoken_specials);
    if (flags->eod_token)
        buffer_printf(out, "--eod-token %s\n", flags->eod_token);
}

// The language of --lang; a usage error that lists them if there is none.
static int find_language(const struct options *options, const struct sentence_language **language) {
    *language = sentence_language_find(options->language);
    if (*language)
        return 0;
    struct buffer known = {0};
    const struct sentence_language *other;
    for (size_t i = 0; (other = sentence_language_at(i)); i++)
        buffer_printf(&known, "%s%.*s", i ? ", " : "", (int)strcspn(other->names, " "), other->names);
    error_set_code(EXIT_CODE_USAGE,
                   "--lang %s is not a language whose sentences are known; choose one of %s; Thai, Lao, Khmer, Chinese "
                   "and Japanese text needs no --lang",
                   options->language, buffer_string(&known));
    buffer_free(&known);
    return -1;
}

static void warn_of_no_effect(const struct options *options) {
    if (options->shuffle && options->partitions > 1)
        log_warn("--partitions has no effect with --shuffle, which gives documents an order of its own");
    if (options->keep_newlines && !options->split_sentences)
        log_warn("--keep-newlines has no effect without --split-sentences");
    if (flag_is_given(&options->given, "--lang") && !options->split_sentences)
        log_warn("--lang has no effect without --split-sentences");
}

static int run_with(const struct options *options, const struct tokenizer *tokenizer, const char *description) {
    struct preprocess_options work = {
        .inputs = options->input,
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

static int run(void *context) {
    const struct options *options = context;
    interrupt_watch();
    struct tokenizer *tokenizer;
    struct buffer description = {0};
    warn_of_no_effect(options);
    TRY(tokenizer_open_from_flags(&tokenizer, &options->tokenizer));
    describe_tokenizer(&description, &options->tokenizer);
    int status = run_with(options, tokenizer, buffer_string(&description));
    buffer_free(&description);
    tokenizer_free(tokenizer);
    return status;
}

// What fairseq, NeMo, nanotron, datatrove and scripts around Hugging Face's datasets call them.
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

enum { TABLES = 2 };

static struct flag_command flag_command(struct flag_table tables[TABLES]) {
    tables[0] = (struct flag_table){.flags = rows,
                                    .count = sizeof rows / sizeof rows[0],
                                    .given = OFFSET(given),
                                    .names = names,
                                    .names_count = sizeof names / sizeof names[0],
                                    .synonyms = synonyms};
    tables[1] = tokenizer_flag_table(OFFSET(tokenizer));
    return (struct flag_command){
        .name = "preprocess",
        .argument_flag = "--input",
        .summary = "Tokenizes JSON Lines into datasets that `bevatron train` and Megatron-LM read.",
        .tables = tables,
        .table_count = TABLES,
        .epilogue = "Example:\n"
                    "  bevatron preprocess --input 'corpus/*.jsonl.zst' --output-prefix data/corpus --append-eod \\\n"
                    "      --vocab-file vocab.json --merge-file merges.txt\n",
    };
}

// Where the work has got to, from which the same command continues; NULL if it would begin anew.
static char *journal_of(const struct options *options) {
    for (int64_t i = 0; i < options->input.count; i++)
        if (strcmp(options->input.items[i], "-") == 0)
            return NULL;
    return options->restart ? NULL : memory_printf("%s.unfinished/journal", options->output_prefix);
}

int preprocess_check(const struct preprocess_reader *reader, int argc, char **argv, char **journal) {
    struct flag_table tables[TABLES];
    const struct flag_command command = flag_command(tables);
    struct options options;
    int status = flags_parse(&command, &options, argc, argv);
    if (status == 0)
        reader->read(reader->context, &command, &options);
    *journal = status == 0 ? journal_of(&options) : NULL;
    flags_free(&command, &options);
    return status;
}

int cmd_preprocess(int argc, char **argv) {
    struct flag_table tables[TABLES];
    const struct flag_command command = flag_command(tables);
    struct options options;
    return command_run(&(struct command_call){.flags = &command, .options = &options, .run = run}, argc, argv);
}
