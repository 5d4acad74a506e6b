// The cache of tokenized text. See text_cache.h.
#include "data/text_cache.h"
#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/phase.h"
#include "data/extract/inputs.h"
#include "data/preprocess.h"
#include "data/tokenizer/bpe_train.h"
#include "net/url.h"
#include <glob.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

// More text does not give a better vocabulary, and its words take memory.
static const uint64_t enough_bytes = (uint64_t)2 << 30;
enum { MIN_FREQUENCY = 2, FORMAT = 1 };

// ---- sources ----

static bool has_file(const char *name, const char *ending) {
    char *path = memory_printf("%s%s", name, ending);
    bool exists = file_exists(path);
    free(path);
    return exists;
}

static bool matches(const char *pattern) {
    glob_t found;
    bool is_match = strpbrk(pattern, "*?[") && glob(pattern, GLOB_NOSORT, NULL, &found) == 0;
    if (is_match)
        globfree(&found);
    return is_match;
}

// Datasets are read from disk, so a remote name is text if it looks like text. A web address with a query is refused:
// the query may hold secrets, and names of data are logged.
static bool is_remote_text(const char *name) {
    bool is_many = url_is_s3(name) && (name[strlen(name) - 1] == '/' || strpbrk(name, "*?["));
    return is_many || ending_is_among(name, text_format_endings);
}

bool text_source_exists(const char *name) {
    if (url_is_remote(name))
        return is_remote_text(name);
    static const char *const of_dataset[] = {".bin", ".idx"};
    size_t length = strlen(name);
    for (size_t i = 0; i < 2; i++)
        // The name of one of a dataset's two files does not mean text.
        if (has_file(name, of_dataset[i]) || (length > 4 && strcmp(name + length - 4, of_dataset[i]) == 0))
            return false;
    return file_exists(name) || matches(name);
}

char *text_source_default_root(const char *name) {
    if (url_is_remote(name))
        return NULL;
    char *folder = file_is_folder(name) ? memory_string(name) : file_parent(name);
    // The folders of a pattern may contain wildcards too.
    while (strpbrk(folder, "*?[")) {
        char *above = file_parent(folder);
        free(folder);
        folder = above;
    }
    char *root = file_join(folder, ".bevatron-cache");
    free(folder);
    return root;
}

int text_source_list(struct text_source *source, const char *name) {
    *source = (struct text_source){.name = name};
    struct string_list names = {0};
    string_list_add(&names, source->name);
    int status = inputs_expand_folders(&source->files, &names, text_format_endings);
    string_list_free(&names);
    TRY(status);
    size_t count = (size_t)source->files.count;
    source->prints = memory_alloc(count * sizeof *source->prints);
    source->are_plain = memory_alloc(count * sizeof *source->are_plain);
    for (size_t i = 0; i < count; i++)
        TRY(text_format_find(&source->are_plain[i], TEXT_FORMAT_AUTO, source->files.items[i]));
    return 0;
}

static const char *base_name(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash && slash[1] ? slash + 1 : path;
}

// The path of a source's prints, derived from its full path.
static char *prints_path(const char *root, const char *name) {
    char *full = realpath(name, NULL), *entry = cache_entry_name(base_name(name), full ? full : name),
         *path = memory_printf("%s/%s.prints.json", root, entry);
    free(full);
    free(entry);
    return path;
}

// The print of a file in an older list; usually the order is the same.
static const struct file_print *find_print(const struct file_print_list *list, const char *path, int64_t guess) {
    if (guess < list->count && strcmp(list->items[guess].path, path) == 0)
        return &list->items[guess];
    for (int64_t i = 0; i < list->count; i++)
        if (strcmp(list->items[i].path, path) == 0)
            return &list->items[i];
    return NULL;
}

// Reuses the prints of unchanged files and reads the others; *is_new if there were any.
static int take_prints(struct text_source *source, const struct file_print_list *known, bool *is_new) {
    struct phase *phase =
        phase_begin_amount("computing a fingerprint of the text", "MB", (double)inputs_bytes(&source->files) / 1e6);
    int status = 0;
    for (int64_t i = 0; status == 0 && i < source->files.count; i++) {
        const char *path = source->files.items[i];
        const struct file_print *old = find_print(known, path, i);
        int same = old ? file_print_check(old, path) : 0;
        if (same < 0)
            status = -1;
        else if (same == 1 && file_print_is_untouched(old, path))
            file_print_copy(&source->prints[i], old);
        else
            status = file_print_take(&source->prints[i], path, path);
        *is_new = *is_new || !old || same == 0 || !file_print_is_untouched(old, path);
        phase_advance(phase, (int64_t)(source->prints[i].bytes / 1000000));
    }
    phase_end(phase);
    return status;
}

static void load_prints(struct file_print_list *known, const struct text_source *source,
                        const struct text_cache *cache) {
    *known = (struct file_print_list){0};
    for (int64_t i = 0; i < cache->roots.count && known->count == 0; i++) {
        char *path = prints_path(cache->roots.items[i], source->name);
        file_print_list_free(known);
        if (file_exists(path) && file_print_list_read(known, path) < 0)
            error_clear();
        free(path);
    }
}

// If the prints cannot be stored, the text is read again next time; building a dataset reports the missing cache.
static void store_prints(const struct text_source *source, const struct text_cache *cache) {
    struct file_print_list list = {
        .about = (char *)(uintptr_t) "", .items = source->prints, .count = source->files.count};
    char *root;
    if (cache_entry_choose_root(&root, &cache->roots) == 0) {
        char *path = prints_path(root, source->name);
        if (file_print_list_write(&list, path) < 0)
            log_debug("%s", error_message());
        free(path);
        free(root);
    }
    error_clear();
}

int text_source_open(struct text_source *source, const char *name, const struct text_cache *cache) {
    struct file_print_list known;
    bool is_new = false;
    int status = text_source_list(source, name);
    if (status == 0) {
        load_prints(&known, source, cache);
        status = take_prints(source, &known, &is_new);
        file_print_list_free(&known);
    }
    if (status == 0 && is_new)
        store_prints(source, cache);
    if (status < 0)
        text_source_close(source);
    return status;
}

void text_source_close(struct text_source *source) {
    for (int64_t i = 0; source->prints && i < source->files.count; i++)
        file_print_free(&source->prints[i]);
    free(source->prints);
    free(source->are_plain);
    string_list_free(&source->files);
    *source = (struct text_source){0};
}

static void describe_source(struct buffer *out, const struct text_source *source) {
    for (int64_t i = 0; i < source->files.count; i++) {
        char hex[65];
        file_print_digest(&source->prints[i], hex);
        buffer_printf(out, "%s of %" PRIu64 " bytes, %s\n",
                      source->are_plain[i] ? "plain text in 256 blocks" : "JSON Lines", source->prints[i].bytes, hex);
    }
}

static void describe_key(struct buffer *out, const char *key) {
    struct json_writer json = {.out = out};
    buffer_append_string(out, "member ");
    json_cstring(&json, key);
    buffer_append_string(out, ", ");
}

// The content that was read must match the entry's name.
static int check_unchanged(const struct text_source *source) {
    for (int64_t i = 0; i < source->files.count; i++)
        if (!file_print_is_untouched(&source->prints[i], source->files.items[i]))
            return error_set_code(EXIT_CODE_BAD_DATA, "%s was changed while it was read; run the command again",
                                  source->files.items[i]);
    return 0;
}

// The remedy of bad lines is a flag of other commands.
static void explain_flags(const char *what) {
    static const char *const flags[] = {"--skip-bad-lines", "--invalid-utf8", "--input-format", "--max-line-bytes"};
    for (size_t i = 0; i < sizeof flags / sizeof flags[0]; i++)
        if (error_exit_code() == EXIT_CODE_BAD_DATA && strstr(error_message(), flags[i])) {
            error_context("cannot %s (%s is a flag of `bevatron preprocess`; give the dataset that it writes as "
                          "--data-path)",
                          what, flags[i]);
            return;
        }
}

// ---- the tokenizer ----

struct tokenizer_work {
    const struct text_cache *cache;
    struct text_sources sources;
    int64_t vocab_size;
};

static int save_merges(const struct bpe_merges *merges, const char *folder) {
    char *vocab = file_join(folder, "vocab.json"), *merge = file_join(folder, "merges.txt"),
         *json = file_join(folder, "tokenizer.json");
    int status = bpe_save(merges, &(struct bpe_files){vocab, merge, json});
    free(vocab);
    free(merge);
    free(json);
    return status;
}

static int train_tokenizer(const struct tokenizer_work *work, const struct bpe_corpus *corpus, const char *folder) {
    struct byte_table words = {0};
    struct bpe_corpus_summary summary;
    struct bpe_merges merges = {0};
    int status = bpe_count_corpus(&words, corpus, &summary);
    if (status == 0)
        status = bpe_train(&merges, &words,
                           &(struct bpe_train_options){
                               .vocab_size = work->vocab_size, .min_frequency = MIN_FREQUENCY, .show_progress = true});
    if (status == 0 && merges.token_count + 1 < work->vocab_size)
        log_info("note: the text gives a vocabulary of %" PRId64 " tokens, not %" PRId64, merges.token_count + 1,
                 work->vocab_size);
    if (status == 0)
        status = save_merges(&merges, folder);
    bpe_merges_free(&merges);
    byte_table_free(&words);
    return status;
}

static int build_tokenizer(void *context, const char *folder) {
    const struct tokenizer_work *work = context;
    struct bpe_corpus corpus = {
        .format = TEXT_FORMAT_AUTO, .threads = work->cache->threads, .enough_bytes = enough_bytes};
    string_list_add(&corpus.keys, work->cache->key);
    for (int64_t i = 0; i < work->sources.count; i++)
        for (int64_t k = 0; k < work->sources.items[i].files.count; k++)
            string_list_add(&corpus.inputs, work->sources.items[i].files.items[k]);
    log_info("training a tokenizer of %" PRId64 " tokens in %s", work->vocab_size, folder);
    int status = train_tokenizer(work, &corpus, folder);
    for (int64_t i = 0; status == 0 && i < work->sources.count; i++)
        status = check_unchanged(&work->sources.items[i]);
    if (status < 0)
        explain_flags("train a tokenizer on the text");
    string_list_free(&corpus.keys);
    string_list_free(&corpus.inputs);
    return status;
}

int text_cache_tokenizer(char **folder, const struct text_cache *cache, struct text_sources sources,
                         int64_t vocab_size) {
    static const char *const files[] = {"vocab.json", "merges.txt", "tokenizer.json", NULL};
    struct tokenizer_work work = {.cache = cache, .sources = sources, .vocab_size = vocab_size};
    struct buffer description = {0};
    buffer_printf(&description, "byte-level BPE of %" PRId64 " tokens, version %d, from\n", vocab_size, FORMAT);
    if (strcmp(cache->key, "text") != 0)
        describe_key(&description, cache->key);
    for (int64_t i = 0; i < sources.count; i++)
        describe_source(&description, &sources.items[i]);
    char *name = cache_entry_name("tokenizer", buffer_string(&description));
    int status = cache_entry_open(folder, &(struct cache_entry){.roots = &cache->roots,
                                                                .name = name,
                                                                .description = buffer_string(&description),
                                                                .files = files,
                                                                .doing = "training a tokenizer on the same text",
                                                                .build = build_tokenizer,
                                                                .context = &work});
    free(name);
    buffer_free(&description);
    return status;
}

// ---- datasets ----

struct dataset_work {
    const struct text_cache *cache;
    const struct text_source *source;
    const struct text_dataset *dataset;
};

static void say_summary(const struct dataset_work *work, const struct preprocess_summary *summary, const char *folder) {
    const struct text_counts *counts = &summary->counts;
    log_info("tokenized %s: %" PRId64 " documents, %" PRId64 " tokens in %.1f s, kept in %s", work->source->name,
             counts->documents, counts->tokens, summary->seconds, folder);
}

// A remark that every run on this text logs, stored beside the dataset.
static const char remark_name[] = "remark.txt";

static int write_remark(const struct preprocess_summary *summary, const char *folder) {
    char *path = file_join(folder, remark_name), *text = NULL;
    int64_t lines = summary->counts.repaired_lines;
    int status = file_remove_tree(path);
    if (status == 0 && lines > 0) {
        text = memory_printf("%" PRId64 " lines that are not UTF-8; such bytes were replaced by U+FFFD", lines);
        status = file_write_all(path, text, strlen(text));
    }
    free(text);
    free(path);
    return status;
}

static void say_remark(const char *name, const char *folder) {
    enum { MOST_BYTES = 4096 };
    struct buffer text = {0};
    char *path = file_join(folder, remark_name);
    if (file_exists(path) && file_read_all(path, MOST_BYTES, &text) == 0)
        log_warn("%s has %s", name, buffer_string(&text));
    error_clear();
    buffer_free(&text);
    free(path);
}

// Resumes a stopped attempt, unless it had other settings or was finished: the files may have changed since.
static int tokenize(struct preprocess_options *options, const struct dataset_work *work,
                    struct preprocess_summary *summary) {
    int status = preprocess(options, work->dataset->tokenizer, summary);
    if (status == 0 || error_exit_code() != EXIT_CODE_USAGE)
        return status;
    options->restart = true;
    return preprocess(options, work->dataset->tokenizer, summary);
}

static int build_dataset(void *context, const char *folder) {
    const struct dataset_work *work = context;
    char *prefix = file_join(folder, "data");
    struct preprocess_options options = {.inputs = work->source->files,
                                         .format = TEXT_FORMAT_AUTO,
                                         .output_prefix = prefix,
                                         .append_eod = work->dataset->append_eod,
                                         .split_sentences = work->dataset->split_sentences,
                                         .partitions = 1,
                                         .workers = work->cache->threads,
                                         .replace_ill_formed = true,
                                         .tokenizer = work->dataset->identity,
                                         .journal_seconds = PREPROCESS_JOURNAL_SECONDS};
    string_list_add(&options.keys, work->cache->key);
    struct preprocess_summary summary = {0};
    int status = tokenize(&options, work, &summary);
    if (status == 0)
        status = check_unchanged(work->source);
    if (status == 0)
        status = write_remark(&summary, folder);
    if (status == 0)
        say_summary(work, &summary, folder);
    else
        explain_flags("tokenize the text");
    string_list_free(&options.keys);
    free(summary.bad_lines);
    free(prefix);
    return status;
}

int text_cache_dataset(char **prefix, const struct text_cache *cache, const struct text_source *source,
                       const struct text_dataset *dataset) {
    struct dataset_work work = {.cache = cache, .source = source, .dataset = dataset};
    struct buffer description = {0};
    const char *kind = dataset->split_sentences ? "sentence" : "document";
    char *data_name = memory_printf("data_%s_%s", cache->key, kind), *index_name = memory_printf("%s.idx", data_name),
         *tokens_name = memory_printf("%s.bin", data_name);
    const char *const files[] = {index_name, tokens_name, NULL};
    char *folder, *doing = memory_printf("tokenizing %s", source->name);
    buffer_append_string(&description, cache_dataset_words);
    describe_key(&description, cache->key);
    buffer_printf(&description, "version %d%s%s, from\n", FORMAT, dataset->append_eod ? ", with ends of documents" : "",
                  dataset->split_sentences ? ", split into sentences" : "");
    describe_source(&description, source);
    buffer_append_string(&description, dataset->identity);
    char *name = cache_entry_name(base_name(source->name), buffer_string(&description));
    int status = cache_entry_open(&folder, &(struct cache_entry){.roots = &cache->roots,
                                                                 .name = name,
                                                                 .description = buffer_string(&description),
                                                                 .files = files,
                                                                 .doing = doing,
                                                                 .build = build_dataset,
                                                                 .context = &work});
    *prefix = status == 0 ? file_join(folder, data_name) : NULL;
    if (status == 0)
        say_remark(source->name, folder);
    free(data_name);
    free(index_name);
    free(tokens_name);
    free(folder);
    free(name);
    free(doing);
    buffer_free(&description);
    return status;
}
