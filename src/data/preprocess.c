// Puts preprocessing together: what is asked for, where an earlier run stopped, the run itself (preprocess_run.h), and
// the datasets under their names (preprocess_publish.h).
#include "data/preprocess.h"
#include "data/bad_data.h"
#include "data/extract/inputs.h"
#include "data/preprocess_progress.h"
#include "data/preprocess_publish.h"
#include "data/preprocess_run.h"
#include "data/sentence_words.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/memory.h"
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    PIECE_BYTES = 1 << 20,        // text that one thread tokenizes at a time
    LEAST_PIECE_BYTES = 1 << 17,  // and if there are many threads
    PIECES_BYTES = 64 << 20,      // that all pieces together should not exceed; each thread has two
    SHARED_FROM = 8,              // threads, from which on they get into each other's way when they write a file
};

struct preprocessing {
    const struct preprocess_options *options;
    const struct tokenizer *tokenizer;
    struct string_list files;
    bool is_resumable;  // all inputs can be read again
    struct buffer settings;
    char **targets;   // (keys)
    char *bad_lines;  // name of their list
    struct text_worker *workers;
    struct journal journal;
    struct store store;
    struct preprocess_state state;
    struct preprocess_progress progress;
};

static const char *const endings[] = {".jsonl", ".ndjson", ".json", NULL};

char *preprocess_output_name(const struct preprocess_options *options, const char *key) {
    return memory_printf("%s_%s_%s", options->output_prefix, key, options->split_sentences ? "sentence" : "document");
}

// ---- what is asked for ----

static int check_keys(const struct string_list *keys) {
    if (keys->count == 0)
        return error_set_code(EXIT_CODE_USAGE, "--json-keys needs at least one name");
    for (int64_t i = 0; i < keys->count; i++) {
        const char *key = keys->items[i];
        if (!*key || strchr(key, '/'))
            return error_set_code(EXIT_CODE_USAGE,
                                  "--json-keys \"%s\" cannot be part of a file name; rename the member", key);
        for (int64_t j = 0; j < i; j++)
            if (strcmp(key, keys->items[j]) == 0)
                return error_set_code(EXIT_CODE_USAGE, "--json-keys names \"%s\" twice", key);
    }
    return 0;
}

// Looks at an input now, so that one that cannot be read does not end hours of work, and notes what it is.
static int check_input(struct preprocessing *run, const char *path) {
    struct stat status;
    if (strcmp(path, "-") == 0) {
        run->is_resumable = false;
        return 0;
    }
    if (stat(path, &status) < 0)
        return error_set("cannot look at %s: %s; check the path", path, strerror(errno));
    // A pipe is not opened in vain: its writer would notice.
    int descriptor = S_ISREG(status.st_mode) ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (descriptor < 0 && S_ISREG(status.st_mode))
        return error_set("cannot open %s: %s; check the path and its permissions", path, strerror(errno));
    if (descriptor >= 0)
        close(descriptor);
    run->is_resumable = run->is_resumable && S_ISREG(status.st_mode);
    buffer_printf(&run->settings, "input %" PRId64 " bytes of %" PRId64 ".%09ld: %s\n", (int64_t)status.st_size,
                  (int64_t)status.st_mtim.tv_sec, status.st_mtim.tv_nsec, path);
    return 0;
}

static const char *yes_no(bool value) {
    return value ? "yes" : "no";
}

// Everything that the result depends on. Not among it: --workers; --skip-bad-lines and --max-line-bytes, which change
// nothing in what is done already as long as no line was bad (see check_begun).
static int describe_settings(struct preprocessing *run) {
    const struct preprocess_options *options = run->options;
    struct buffer *out = &run->settings;
    buffer_printf(out, "bevatron %s preprocess\n", BEVATRON_VERSION);
    buffer_printf(out, "--append-eod %s\n--split-sentences %s\n--keep-newlines %s\n", yes_no(options->append_eod),
                  yes_no(options->split_sentences), yes_no(options->keep_newlines));
    buffer_printf(out, "--dedup %s\n--shuffle %s\n--seed %" PRIu64 "\n", options->dedup ? "exact" : "no",
                  yes_no(options->shuffle), options->shuffle ? options->seed : 0);
    if (options->split_sentences && options->language && options->language != &sentence_english)
        buffer_printf(out, "--lang %s\n", options->language->names);
    if (options->partitions > 1)
        buffer_printf(out, "--partitions %" PRId64 "\n", options->partitions);
    buffer_printf(out, "--invalid-utf8 %s\n", options->replace_ill_formed ? "replace" : "error");
    for (int64_t i = 0; i < options->keys.count; i++)
        buffer_printf(out, "--json-keys %s\n", options->keys.items[i]);
    buffer_printf(out, "%s", options->tokenizer ? options->tokenizer : "");
    run->is_resumable = true;
    for (int64_t i = 0; i < run->files.count; i++)
        TRY(check_input(run, run->files.items[i]));
    return 0;
}

static int check_target(const char *prefix, const char *suffix) {
    struct stat status;
    char *path = memory_printf("%s%s", prefix, suffix);
    int result = 0;
    if (stat(path, &status) == 0 && !S_ISREG(status.st_mode))
        result = error_set("cannot write %s: it is no regular file; choose another --output-prefix", path);
    free(path);
    return result;
}

static int name_targets(struct preprocessing *run) {
    const struct string_list *keys = &run->options->keys;
    run->targets = memory_alloc((size_t)keys->count * sizeof *run->targets);
    run->bad_lines = memory_printf("%s_bad_lines.txt", run->options->output_prefix);
    run->progress.bad_lines = run->bad_lines;
    for (int64_t i = 0; i < keys->count; i++)
        run->targets[i] = preprocess_output_name(run->options, keys->items[i]);
    for (int64_t i = 0; i < keys->count; i++) {
        TRY(check_target(run->targets[i], ".bin"));
        TRY(check_target(run->targets[i], ".idx"));
    }
    return 0;
}

static int create_workers(struct preprocessing *run) {
    const struct preprocess_options *options = run->options;
    const struct jsonl_options jsonl = {
        .keys = (const char *const *)options->keys.items,
        .key_count = options->keys.count,
        .skip_bad_lines = options->skip_bad_lines,
        .replace_ill_formed = options->replace_ill_formed,
        .refuse_surrogates = !options->replace_ill_formed,
    };
    if (options->append_eod && tokenizer_eod(run->tokenizer) < 0)
        return error_set_code(
            EXIT_CODE_USAGE,
            "--append-eod: this tokenizer has no token that ends a document; name one of its tokens with "
            "--eod-token TEXT");
    run->workers = memory_alloc((size_t)options->workers * sizeof *run->workers);
    for (int i = 0; i < options->workers; i++) {
        struct text_worker *worker = &run->workers[i];
        jsonl_parser_init(&worker->parser, &jsonl);
        worker->eod = options->append_eod ? tokenizer_eod(run->tokenizer) : -1;
        worker->dtype = index_dtype_for_vocab(tokenizer_vocab_size(run->tokenizer));
        worker->line_limit = options->line_limit ? options->line_limit : PREPROCESS_LINE_LIMIT;
        worker->split_sentences = options->split_sentences;
        worker->keep_newlines = options->keep_newlines;
        worker->language = options->language;
        TRY(tokenizer_encoder_create(&worker->encoder, run->tokenizer));
    }
    return 0;
}

// ---- the run ----

// Input that an earlier run has used up: whole files, and of a file it was in the middle of what its text takes.
static uint64_t bytes_before(const struct preprocessing *run) {
    struct string_list before = {.items = run->files.items, .count = run->state.file};
    return before.count > 0 ? inputs_bytes(&before) : 0;
}

static size_t piece_bytes(const struct preprocess_options *options) {
    if (options->chunk_bytes)
        return options->chunk_bytes;
    size_t share = (size_t)PIECES_BYTES / (2 * (size_t)options->workers);
    return share > PIECE_BYTES ? PIECE_BYTES : share < LEAST_PIECE_BYTES ? LEAST_PIECE_BYTES : share;
}

static int tokenize(struct preprocessing *run) {
    const struct preprocess_options *options = run->options;
    const struct preprocess_run work = {
        .files = &run->files,
        .workers = run->workers,
        .threads = options->workers,
        .piece_bytes = piece_bytes(options),
        .line_limit = run->workers[0].line_limit,
        .store = &run->store,
        .journal = &run->journal,
        .is_journaled = run->is_resumable,
        .journal_seconds = options->journal_seconds,
        .progress = preprocess_progress_add,
        .bad_line = preprocess_progress_bad_line,
        .context = &run->progress,
    };
    uint64_t total = inputs_bytes(&run->files), before = bytes_before(run);
    preprocess_progress_begin(&run->progress, options->log_interval, total > before ? total - before : 0);
    TRY(store_open(&run->store, run->journal.prefix, options->keys.count, run->state.bytes));
    // Fewer workers need not the memory of it.
    if (options->workers >= SHARED_FROM)
        store_share(&run->store);
    int status = preprocess_run(&work, &run->state);
    preprocess_progress_end(&run->progress);
    return status;
}

// Nothing was done that is worth continuing, but the list says why.
static int refuse_nothing(struct preprocessing *run, const struct preprocess_publish *publish) {
    const char *others = run->files.count > 1 ? " and the other inputs" : "";
    run->journal.is_kept = false;
    if (run->state.counts.bad_lines == 0)
        return bad_data("%s%s: no documents; every line should be a JSON object with a text member",
                        run->files.items[0], others);
    TRY(preprocess_publish_bad_lines(publish, &run->state));
    return bad_data("%s%s: no documents, only bad lines, listed in %s; every line should be a JSON object with a text "
                    "member",
                    run->files.items[0], others, run->bad_lines);
}

// What a begun run has done must be what this one would have.
static int check_begun(const struct preprocessing *run) {
    int64_t bad_lines = run->state.counts.bad_lines;
    if (bad_lines > 0 && !run->options->skip_bad_lines)
        return error_set_code(EXIT_CODE_USAGE,
                              "%s holds a run that has skipped %" PRId64
                              " bad lines; continue it with --skip-bad-lines, or give --restart to begin anew",
                              run->journal.folder, bad_lines);
    if (run->state.file > run->files.count)
        return error_set("%s cannot be continued; begin anew with --restart", run->journal.folder);
    return 0;
}

// Whether a file begins with a line of the list of bad lines, "FILE:LINE: what is wrong".
static bool is_bad_line(const char *begin, size_t length) {
    const char *end = memchr(begin, '\n', length);
    for (const char *at = begin; at && (at = memchr(at, ':', (size_t)((end ? end : begin + length) - at))); at++) {
        size_t digits = strspn(at + 1, "0123456789");
        if (digits > 0 && strncmp(at + 1 + digits, ": ", 2) == 0)
            return true;
    }
    return false;
}

static int check_outputs(const struct preprocessing *run) {
    for (int64_t i = 0; i < run->options->keys.count; i++)
        TRY(index_files_check_output(run->targets[i]));
    return file_check_output(run->bad_lines, "a list of bad lines", is_bad_line);
}

static int process(struct preprocessing *run, enum journal_phase phase) {
    const struct preprocess_publish publish = {
        .journal = &run->journal,
        .dtype = run->workers[0].dtype,
        .targets = run->targets,
        .bad_lines = run->bad_lines,
        .dedup = run->options->dedup,
        .shuffle = run->options->shuffle,
        .seed = run->options->seed,
        .partitions = run->options->partitions,
    };
    // A run that was killed while it published its files may have left a .bin without its .idx.
    if (phase == JOURNAL_NEW && !run->options->restart)
        TRY(check_outputs(run));
    if (phase != JOURNAL_NEW) {
        TRY(check_begun(run));
        log_info("continuing a run that was stopped after %" PRId64 " documents", run->state.counts.documents);
    }
    if (phase != JOURNAL_PUBLISH) {
        TRY(tokenize(run));
        if (run->state.counts.documents == 0)
            return refuse_nothing(run, &publish);
        TRY(preprocess_finish(&publish, &run->store, &run->state));
    }
    return preprocess_publish(&publish, &run->state);
}

static int process_in_folder(struct preprocessing *run, struct preprocess_summary *summary) {
    const struct journal_options options = {
        .output_prefix = run->options->output_prefix,
        .keys = run->options->keys.count,
        .settings = buffer_string(&run->settings),
        .restart = run->options->restart,
    };
    enum journal_phase phase;
    preprocess_state_init(&run->state, run->options->keys.count);
    int status = journal_open(&run->journal, &options, &phase, &run->state);
    if (status == 0) {
        summary->documents_kept = run->state.counts.documents;
        status = process(run, phase);
        store_close(&run->store);
        if (status < 0 && run->journal.is_kept)
            log_warn("what is done is kept in %s; the same command continues it, --restart begins anew",
                     run->journal.folder);
        journal_close(&run->journal, status == 0);
    }
    summary->counts = run->state.counts;
    preprocess_state_free(&run->state);
    return status;
}

static int prepare(struct preprocessing *run) {
    TRY(check_keys(&run->options->keys));
    TRY(inputs_expand_folders(&run->files, &run->options->inputs, endings));
    TRY(describe_settings(run));
    TRY(name_targets(run));
    return create_workers(run);
}

static void finish(struct preprocessing *run) {
    for (int i = 0; run->workers && i < run->options->workers; i++) {
        tokenizer_encoder_free(run->workers[i].encoder);
        jsonl_parser_free(&run->workers[i].parser);
    }
    for (int64_t i = 0; run->targets && i < run->options->keys.count; i++)
        free(run->targets[i]);
    free(run->workers);
    free(run->targets);
    free(run->bad_lines);
    buffer_free(&run->settings);
    string_list_free(&run->files);
}

int preprocess(const struct preprocess_options *options, const struct tokenizer *tokenizer,
               struct preprocess_summary *summary) {
    *summary = (struct preprocess_summary){0};
    CHECK(options->workers >= 1);
    double started = clock_seconds();
    struct preprocessing run = {.options = options, .tokenizer = tokenizer, .progress.started = started};
    int status = prepare(&run);
    if (status == 0)
        status = process_in_folder(&run, summary);
    summary->seconds = clock_seconds() - started;
    if (status == 0 && summary->counts.bad_lines > 0)
        summary->bad_lines = memory_string(run.bad_lines);
    finish(&run);
    return status;
}
