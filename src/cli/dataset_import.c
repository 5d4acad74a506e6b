// bevatron dataset merge, import: datasets from other datasets and from those of other programs.
#include "base/error.h"
#include "base/file.h"
#include "base/interrupt.h"
#include "base/json.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/pool.h"
#include "base/words.h"
#include "cli/commands.h"
#include "cli/tokenizer_flags.h"
#include "config/flag_rows.h"
#include "data/extract/inputs.h"
#include "data/import.h"
#include "data/index/index.h"
#include "data/tokenizer/fairseq.h"
#include "net/remote.h"
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// ---- merge ----

// bevatron dataset merge: joins datasets into one: those of a folder, in the order of their names as in Megatron's
// merge_datasets.py, or those named, in that order.

struct dataset_merge_options {
    struct flag_given given;
    struct string_list prefixes;
    char *input;
    char *output_prefix;
};

#define FLAG_STRUCT struct dataset_merge_options

static const struct flag merge_rows[] = {
    TEXT("--input", input, NULL, "FOLDER", "join all datasets of this folder, in order of their names"),
    TEXT("--output-prefix", output_prefix, NULL, "PREFIX", "write PREFIX.bin and PREFIX.idx", .required = true),
};

// The names of all .bin and .idx files of a folder, without extension; a pair gives two equal names.
static int list_names(const char *folder, struct string_list *found) {
    DIR *stream = opendir(folder);
    if (!stream)
        return error_set("cannot list %s: %s; give a folder of datasets", folder, strerror(errno));
    for (struct dirent *entry; (errno = 0, entry = readdir(stream));) {
        char *dot = strrchr(entry->d_name, '.');
        if (!dot || dot == entry->d_name || (strcmp(dot, ".idx") != 0 && strcmp(dot, ".bin") != 0))
            continue;
        *dot = 0;
        string_list_add(found, entry->d_name);
    }
    int error = errno;
    closedir(stream);
    if (error != 0)
        return error_set("cannot list all of %s: %s; check the disk", folder, strerror(error));
    if (found->count == 0)
        return error_set("there is no dataset (.bin with .idx) in %s", folder);
    qsort(found->items, (size_t)found->count, sizeof *found->items, words_compare);
    return 0;
}

// Adds the datasets of a folder. A .bin or .idx alone stays in the list, so that index_open reports it.
static int list_folder(const char *folder, struct string_list *prefixes) {
    OWNED_BY(string_list_free) struct string_list found = {0};
    int result = list_names(folder, &found);
    for (int64_t i = 0; i < found.count; i++) {
        if (i > 0 && strcmp(found.items[i], found.items[i - 1]) == 0)
            continue;
        OWNED char *prefix = file_join(folder, found.items[i]);
        string_list_add(prefixes, prefix);
    }
    return result;
}

// The tokenizer's record, if all datasets have the same.
static void common_tokenizer(const struct string_list *prefixes, struct buffer *record) {
    OWNED_BY(buffer_free) struct buffer other = {0};
    index_tokenizer_read(prefixes->items[0], record);
    for (int64_t i = 1; i < prefixes->count; i++) {
        buffer_clear(&other);
        index_tokenizer_read(prefixes->items[i], &other);
        if (strcmp(buffer_string(&other), buffer_string(record)) != 0)
            buffer_clear(record);
    }
}

static int run_merge(void *context) {
    struct dataset_merge_options *options = context;
    interrupt_watch();
    if (options->input && options->prefixes.count > 0)
        return error_set_code(EXIT_CODE_USAGE, "give either --input FOLDER or the datasets by name, not both");
    if (!options->input && options->prefixes.count == 0)
        return error_set_code(EXIT_CODE_USAGE, "nothing to merge; give --input FOLDER or the datasets by name");
    if (options->input)
        TRY(list_folder(options->input, &options->prefixes));
    TRY(index_files_check_output(options->output_prefix, INDEX_REMOVE_FIRST));
    TRY(index_merge(options->output_prefix, options->prefixes.items, options->prefixes.count));
    OWNED_BY(buffer_free) struct buffer tokenizer = {0};
    common_tokenizer(&options->prefixes, &tokenizer);
    TRY(index_sums_write(options->output_prefix, options->output_prefix, buffer_string(&tokenizer)));
    struct index_reader *reader;
    TRY(index_open(&reader, options->output_prefix));
    log_status(NULL);  // the result starts on a new line
    printf("merged %" PRId64 " datasets into %s: %" PRId64 " documents, %" PRId64 " tokens (%s)\n",
           options->prefixes.count, options->output_prefix, reader->document_count, reader->token_count,
           index_dtype_name(reader->dtype));
    index_close(reader);
    return 0;
}

const struct command cmd_dataset_merge = {
    .flags =
        {.name = "dataset merge",
         .summary = "Joins datasets of the same dtype into one; documents keep their order.",
         .epilogue =
             "Example:\n"
             "  bevatron dataset merge data/part1_text_document data/part2_text_document --output-prefix data/all\n",
         .positional_name = "PREFIX…",
         .positional_minimum = 0,
         .positional_maximum = INT32_MAX,
         .positional_offset = OFFSET(prefixes)},
    .tables = {{FLAG_TABLE(merge_rows)}},
    .options_bytes = sizeof(struct dataset_merge_options),
    .run = run_merge,
    .phase = "joining the datasets",
};

// ---- import ----

struct dataset_import_options {
    struct flag_given given;
    struct string_list prefixes;
    struct string_list text;
    char *endpoint_url;
    struct string_list llmc;
    struct string_list nanogpt;
    char *output_prefix;
    char *dictionary;
    char *documents;
    int64_t eos;
    int64_t workers;
    int64_t max_line_bytes;
    bool json;
    struct tokenizer_flags tokenizer;
};

#undef FLAG_STRUCT
#define FLAG_STRUCT struct dataset_import_options

static const char *const document_choices[] = {"blank-lines", "lines", NULL};

static const struct flag import_rows[] = {
    GROUP("Import"),
    LIST("--text", text, "FILE…",
         "read text instead of a dataset: one sequence per line, plain or compressed, also from s3:// and https://; "
         "needs a tokenizer",
         .repeats_add = true),
    TEXT("--endpoint-url", endpoint_url, NULL, "URL", ENDPOINT_URL_HELP),
    LIST("--llmc", llmc, "FILE…",
         "read llm.c shards instead of a dataset (fineweb_train_000001.bin …), in order, into one dataset",
         .repeats_add = true),
    LIST("--nanogpt", nanogpt, "FILE…",
         "read nanoGPT's tokens instead of a dataset (train.bin, val.bin): 16-bit ids without a header",
         .repeats_add = true),
    TEXT("--output-prefix", output_prefix, NULL, "PREFIX",
         "write PREFIX.bin, PREFIX.idx and, if there is a dictionary, PREFIX.dict.txt", .required = true),
    TEXT("--dictionary", dictionary, NULL, "FILE", "dict.txt that was used; default: the one beside the input, if any"),
    CHOICE("--documents", documents, "blank-lines", document_choices,
           "where documents end: at empty lines (items of </s> only), or after every line"),
    INT("--eos-id", eos, "2", 0, INT32_MAX,
        "id that ends every line; default: fairseq's </s>, with --text the tokenizer's end of document, with --llmc "
        "and --nanogpt the id between documents (50256 for GPT-2, 128000 for Llama-3)"),
    INT("--workers", workers, NULL, 1, 4096, "threads for --text; does not change the output. Default: all CPUs"),
    INT("--max-line-bytes", max_line_bytes, "1073741824", 1, 1e15,
        "a longer line of --text is an error; memory grows with this limit"),
    SWITCH("--json", json, "print the summary as JSON"),
};

// Files of tokens; empty for other inputs.
static const struct string_list *shards_of(const struct dataset_import_options *options) {
    return options->nanogpt.count > 0 ? &options->nanogpt : &options->llmc;
}

// dict.txt beside the input, to be freed; NULL if there is none.
static char *dictionary_beside(const char *prefix) {
    char *folder = file_parent(prefix), *path = file_join(folder, "dict.txt");
    free(folder);
    if (file_exists(path))
        return path;
    free(path);
    return NULL;
}

struct dictionary {
    bool is_there;
    int64_t size;
    struct file_writer copy;  // finished, but not published
};

// Identifies the dictionary, to be freed; NULL for none.
static char *dictionary_path(const struct dataset_import_options *options) {
    const struct tokenizer_flags *tokenizer = &options->tokenizer;
    if (options->dictionary)
        return memory_string(options->dictionary);
    if (shards_of(options)->count > 0)
        return NULL;
    if (options->text.count == 0)
        return dictionary_beside(options->prefixes.items[0]);
    return strcmp(tokenizer->type, "FairseqTokenizer") == 0 ? memory_string(tokenizer->model_file) : NULL;
}

// Reads the dictionary and prepares its copy.
static int prepare_dictionary(const struct dataset_import_options *options, struct dictionary *dictionary) {
    *dictionary = (struct dictionary){.copy.descriptor = -1};
    OWNED char *path = dictionary_path(options);
    if (!path)
        return 0;
    OWNED_BY(buffer_free) struct buffer text = {0};
    struct vocabulary parsed;
    TRY(file_read_all(path, (size_t)1 << 30, &text));
    TRY(fairseq_dictionary_parse(&parsed, buffer_string(&text), text.length, path));
    dictionary->is_there = true;
    dictionary->size = parsed.size;
    vocabulary_free(&parsed);
    OWNED char *name = memory_printf("%s.dict.txt", options->output_prefix);
    TRY(file_check_output(name, "a dictionary", fairseq_dictionary_begins));
    TRY(file_make_parent(name));
    TRY(file_create(&dictionary->copy, name));
    TRY(file_write(&dictionary->copy, buffer_string(&text), text.length));
    return file_finish(&dictionary->copy);
}

static void print_json(const struct dataset_import_options *options, const struct dictionary *dictionary,
                       const struct import_summary *summary) {
    OWNED_BY(buffer_free) struct buffer text = {0};
    struct json_writer json = {.out = &text};
    const struct {
        const char *key;
        int64_t value;
    } numbers[] = {{"documents", summary->documents},
                   {"sequences", summary->sequences},
                   {"tokens", summary->tokens},
                   {"blank_lines", summary->separators},
                   {"largest_id", summary->largest_id}};
    json_begin_object(&json);
    json_put_string(&json, "dataset", options->output_prefix);
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++)
        json_put_int(&json, numbers[i].key, numbers[i].value);
    json_put_string(&json, "dtype", index_dtype_name(summary->dtype));
    if (dictionary->is_there)
        json_put_int(&json, "dictionary_size", dictionary->size);
    json_end_object(&json);
    log_status(NULL);  // the result starts on a new line
    puts(buffer_string(&text));
}

static void print_plain(const struct dataset_import_options *options, const struct dictionary *dictionary,
                        const struct import_summary *summary) {
    log_status(NULL);  // the result starts on a new line
    printf("wrote %s.bin and .idx: %" PRId64 " documents, %" PRId64 " sequences, %" PRId64 " tokens (%s), %" PRId64
           " empty lines\n",
           options->output_prefix, summary->documents, summary->sequences, summary->tokens,
           index_dtype_name(summary->dtype), summary->separators);
    if (dictionary->is_there)
        printf("wrote %s.dict.txt: %" PRId64 " symbols, the four special ones included\n", options->output_prefix,
               dictionary->size);
    else if (options->prefixes.count > 0)
        printf("no dictionary was found next to the input; the largest id is %" PRId32 "\n", summary->largest_id);
}

// fairseq's 2 is an ordinary token in other vocabularies: in GPT-2's it is #.
static int choose_end(const struct dataset_import_options *options, const struct tokenizer *tokenizer,
                      struct import_options *work) {
    if (flag_is_given(&options->given, "--eos-id"))
        return 0;
    work->eos = tokenizer_eod(tokenizer);
    if (work->eos < 0)
        return error_set_code(EXIT_CODE_USAGE, "this tokenizer has no end-of-text token; give its id with --eos-id");
    return 0;
}

static int import_lines(const struct dataset_import_options *options, struct import_options *work,
                        struct import_summary *summary) {
    struct import_text text = {
        .threads = options->workers ? (int)options->workers : pool_available_processors(),
        .line_limit = (size_t)options->max_line_bytes,
    };
    OWNED_BY(tokenizer_drop) struct tokenizer *tokenizer = NULL;
    char record[TOKENIZER_RECORD];
    TRY(tokenizer_open_from_flags(&tokenizer, &options->tokenizer));
    tokenizer_record(tokenizer, record);
    text.tokenizer = tokenizer;
    work->tokenizer = record;
    work->vocab_size = tokenizer_vocab_size(tokenizer);
    int status = choose_end(options, tokenizer, work);
    if (status == 0)
        status = inputs_expand(&text.files, &options->text);
    if (status == 0)
        status = import_text(&text, work, summary);
    work->tokenizer = NULL;
    string_list_free(&text.files);
    return status;
}

static int import_shards(const struct dataset_import_options *options, struct import_options *work,
                         struct import_summary *summary) {
    OWNED_BY(string_list_free) struct string_list files = {0};
    if (!flag_is_given(&options->given, "--eos-id"))
        work->eos = -1;
    work->is_nanogpt = options->nanogpt.count > 0;
    TRY(inputs_expand(&files, shards_of(options)));
    return import_llmc(&files, work, summary);
}

static int check_inputs(const struct dataset_import_options *options) {
    int kinds = (options->text.count > 0) + (options->prefixes.count > 0) + (options->llmc.count > 0) +
                (options->nanogpt.count > 0);
    if (kinds > 1)
        return error_set_code(EXIT_CODE_USAGE, "give only one of a fairseq dataset, --text, --llmc and --nanogpt");
    if (kinds == 0)
        return error_set_code(EXIT_CODE_USAGE, "nothing to import; give the prefix of a fairseq dataset (e.g. "
                                               "data-bin/train), --text FILE, --llmc FILE or --nanogpt FILE");
    const char *prefix = options->prefixes.count > 0 ? options->prefixes.items[0] : NULL;
    size_t length = prefix ? strlen(prefix) : 0;
    if (length > 4 && strcmp(prefix + length - 4, ".bin") == 0 && file_exists(prefix))
        return error_set_code(EXIT_CODE_USAGE,
                              "%s is a file; give a fairseq dataset without .bin, an llm.c shard with --llmc, or "
                              "nanoGPT's tokens with --nanogpt",
                              prefix);
    return 0;
}

static int run_import(void *context) {
    const struct dataset_import_options *options = context;
    interrupt_watch();
    remote_set_endpoint(options->endpoint_url);
    struct dictionary dictionary;
    struct import_summary summary;
    TRY(check_inputs(options));
    int status = prepare_dictionary(options, &dictionary);
    struct import_options work = {
        .output = options->output_prefix,
        .vocab_size = dictionary.size,
        .eos = (int32_t)options->eos,
        .lines_are_documents = strcmp(options->documents, "lines") == 0,
    };
    if (status == 0)
        status = options->text.count > 0         ? import_lines(options, &work, &summary)
                 : shards_of(options)->count > 0 ? import_shards(options, &work, &summary)
                                                 : import_fairseq(options->prefixes.items[0], &work, &summary);
    if (status == 0 && dictionary.is_there)
        status = file_publish(&dictionary.copy);
    file_abort(&dictionary.copy);
    if (status == 0 && options->json)
        print_json(options, &dictionary, &summary);
    else if (status == 0)
        print_plain(options, &dictionary, &summary);
    return status;
}

const struct command cmd_dataset_import = {
    .flags = {.name = "dataset import",
              .summary =
                  "Converts the output of fairseq-preprocess (--dataset-impl mmap, cached or lazy), its input text, "
                  "llm.c shards or nanoGPT's tokens to a dataset.",
              .positional_name = "PREFIX",
              .positional_minimum = 0,
              .positional_maximum = 1,
              .positional_offset = OFFSET(prefixes),
              .epilogue =
                  "Example:\n"
                  "  bevatron dataset import data-bin/wikitext-103/train --output-prefix data/wikitext-103-train\n"
                  "  bevatron dataset import --text wiki.train.raw --output-prefix data/wikitext-103-train \\\n"
                  "      --tokenizer-type FairseqTokenizer --tokenizer-model dict.txt \\\n"
                  "      --vocab-file encoder.json --merge-file vocab.bpe\n"
                  "  bevatron dataset import --llmc 'edu_fineweb100B/fineweb_train_*.bin' --output-prefix data/edu\n"
                  "  bevatron dataset import --nanogpt data/openwebtext/train.bin --output-prefix data/train\n"},
    .tables = {{FLAG_TABLE(import_rows)}},
    .shared = tokenizer_flag_table,
    .shared_at = OFFSET(tokenizer),
    .options_bytes = sizeof(struct dataset_import_options),
    .run = run_import,
    .phase = "importing the dataset",
};
