// Puts preprocessing together: the request, where an earlier run stopped, the run itself (preprocess_run.h), and the
// datasets under their final names (preprocess_publish.c).
#include "data/preprocess.h"
#include "data/extract/inputs.h"
#include "data/preprocess_run.h"
#include "data/sentence.h"
#include "data/tokenizer/tokenizer.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/progress.h"
#include "net/remote.h"
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    PIECE_BYTES = 1 << 20,        // text that one thread tokenizes at a time
    LEAST_PIECE_BYTES = 1 << 17,  // the same with many threads
    PIECES_BYTES = 64 << 20,      // target for all pieces together; each thread has two
    SHOWN_PROBLEMS = 10,
    SHARED_FROM = 8,  // threads, from which on writes to one file become a bottleneck
};

// Progress for the user: a progress bar or Megatron's lines, and the first bad lines. Rates are those of this run and
// exclude the work of an earlier, stopped run.
struct preprocess_progress {
    const char *bad_lines;            // name of the list of bad lines
    double started;                   // clock_seconds when the command began
    int64_t log_interval;             // documents between two lines; 0 for a progress bar
    struct progress bar;              // if there is one
    struct text_counts counts;        // of this run
    uint64_t done_bytes, left_bytes;  // of input, in this run: done, and left when it began; 0 if unknown
    int64_t next_log;                 // documents at which the next line is due
    int64_t bad_count;                // bad lines so far
};

struct preprocessing {
    const struct preprocess_options *options;
    const struct tokenizer *tokenizer;
    struct string_list files;
    bool *are_plain;  // (files) plain text, not JSON Lines
    uint64_t block_bytes;
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

static const char *const endings[] = {".jsonl", ".ndjson", ".json", ".parquet", ".arrow", ".feather", ".wet",
                                      ".warc",  ".tar",    ".tgz",  ".csv",     ".tsv",   NULL};

char *preprocess_output_name(const struct preprocess_options *options, const char *key) {
    return memory_printf("%s_%s_%s", options->output_prefix, key, options->split_sentences ? "sentence" : "document");
}

// ---- progress ----

// Never 0, so that rates are finite.
static double seconds_since(double started) {
    return fmax(clock_seconds() - started, 1e-9);
}

// Megatron's own line, for scripts that parse it, followed by further numbers. Its MB are 2^20 bytes.
static void log_line(const struct preprocess_progress *progress, double seconds) {
    const struct text_counts *counts = &progress->counts;
    double documents = (double)counts->documents / seconds, text = (double)counts->text_bytes / seconds / 1048576;
    struct buffer line = {0};
    buffer_printf(&line, "Processed %" PRId64 " documents (%.*f docs/s, %.*f MB/s). ", counts->documents,
                  documents < 100 ? 2 : 0, documents, text < 100 ? 1 : 0, text);
    progress_append_count(&line, (double)counts->tokens / seconds);
    buffer_append_string(&line, " tok/s");
    if (progress->left_bytes > progress->done_bytes && progress->done_bytes > 0) {
        double left = (double)(progress->left_bytes - progress->done_bytes);
        buffer_append_string(&line, ", ETA ");
        progress_append_duration(&line, seconds * left / (double)progress->done_bytes);
    }
    log_info("%s", buffer_string(&line));
    buffer_free(&line);
}

static void append_rates(struct buffer *note, const struct preprocess_progress *progress) {
    double seconds = seconds_since(progress->bar.started);
    progress_append_count(note, (double)progress->counts.documents / seconds);
    buffer_append_string(note, " docs/s, ");
    progress_append_count(note, (double)progress->counts.tokens / seconds);
    buffer_append_string(note, " tokens/s");
}

static void progress_start(struct preprocess_progress *progress, int64_t log_interval, uint64_t left_bytes) {
    progress->log_interval = log_interval > 0 ? log_interval : 0;
    progress->next_log = progress->log_interval;
    progress->left_bytes = left_bytes;
    if (progress->log_interval == 0)
        progress_begin(&progress->bar, "tokenizing", "MB", (double)left_bytes / 1e6);
}

static void add_progress(void *context, const struct text_counts *more, uint64_t input_bytes) {
    struct preprocess_progress *progress = context;
    text_counts_add(&progress->counts, more);
    progress->done_bytes += input_bytes;
    int64_t documents = progress->counts.documents;
    if (progress->log_interval == 0) {
        struct buffer note = {0};
        append_rates(&note, progress);
        progress_update(&progress->bar, (double)progress->done_bytes / 1e6, buffer_string(&note));
        buffer_free(&note);
    } else if (documents >= progress->next_log) {
        log_line(progress, seconds_since(progress->started));
        progress->next_log = (documents / progress->log_interval + 1) * progress->log_interval;
    }
}

static void show_bad_line(void *context, const char *problem) {
    struct preprocess_progress *progress = context;
    if (progress->bad_count++ < SHOWN_PROBLEMS)
        log_warn("skipped %s", problem);
    else if (progress->bad_count == SHOWN_PROBLEMS + 1)
        log_warn("further bad lines are only listed in %s", progress->bad_lines);
}

static void progress_stop(struct preprocess_progress *progress) {
    if (progress->log_interval > 0)
        return;
    struct buffer note = {0};
    append_rates(&note, progress);
    progress_end(&progress->bar, buffer_string(&note));
    buffer_free(&note);
}

// ---- the request ----

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

// An object counts as unchanged while its tag is the same.
static int check_remote_input(struct preprocessing *run, const char *url) {
    struct remote_object object;
    int status = remote_find(&object, url);
    if (status == 0)
        status = error_set("%s no longer exists; check the address", url);
    run->is_resumable = run->is_resumable && status > 0 && object.tag[0];
    if (status > 0)
        buffer_printf(&run->settings, "input %" PRId64 " bytes of %s: %s\n", (int64_t)object.size, object.tag, url);
    remote_object_free(&object);
    return status < 0 ? -1 : 0;
}

// Checks an input now, so that an unreadable one does not end hours of work, and records its kind.
static int check_input(struct preprocessing *run, const char *path) {
    struct stat status;
    if (strcmp(path, "-") == 0) {
        run->is_resumable = false;
        return 0;
    }
    if (url_is_remote(path))
        return check_remote_input(run, path);
    if (stat(path, &status) < 0)
        return error_set("cannot inspect %s: %s; check the path", path, strerror(errno));
    // Do not open a pipe just to check it: its writer would notice.
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

// Everything that the result depends on. --workers is not included, nor are --skip-bad-lines and --max-line-bytes,
// which do not affect finished work as long as no line was bad (see check_begun).
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
    for (int64_t i = 0; i < run->files.count; i++) {
        TRY(check_input(run, run->files.items[i]));
        if (run->are_plain[i])
            buffer_printf(out, "which is plain text, in blocks of %" PRIu64 "\n", run->block_bytes);
    }
    return 0;
}

static int check_target(const char *prefix, const char *suffix) {
    struct stat status;
    char *path = memory_printf("%s%s", prefix, suffix);
    int result = 0;
    if (stat(path, &status) == 0 && !S_ISREG(status.st_mode))
        result = error_set("cannot write %s: it is not a regular file; choose another --output-prefix", path);
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
            "--append-eod: this tokenizer has no end-of-document token; name one of its tokens with --eod-token TEXT");
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

// Input that an earlier run has consumed: whole files, plus the part of the file it was reading.
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
        .are_plain = run->are_plain,
        .block_bytes = run->block_bytes,
        .workers = run->workers,
        .threads = options->workers,
        .piece_bytes = piece_bytes(options),
        .line_limit = run->workers[0].line_limit,
        .store = &run->store,
        .journal = &run->journal,
        .is_journaled = run->is_resumable,
        .journal_seconds = options->journal_seconds,
        .progress = add_progress,
        .bad_line = show_bad_line,
        .context = &run->progress,
    };
    uint64_t total = inputs_bytes(&run->files), before = bytes_before(run);
    progress_start(&run->progress, options->log_interval, total > before ? total - before : 0);
    TRY(store_open(&run->store, run->journal.prefix, options->keys.count, run->state.bytes));
    // Not worth the memory with few workers.
    if (options->workers >= SHARED_FROM)
        store_share(&run->store);
    int status = preprocess_run(&work, &run->state);
    progress_stop(&run->progress);
    return status;
}

// No work worth resuming was done, but the list of bad lines says why.
static int refuse_nothing(struct preprocessing *run, const struct preprocess_publish *publish) {
    const char *others = run->files.count > 1 ? " and the other inputs" : "";
    run->journal.is_kept = false;
    if (run->state.counts.bad_lines == 0)
        return bad_data("%s%s: no documents%s", run->files.items[0], others,
                        run->are_plain[0] ? ", only blanks"
                                          : "; every line should be a JSON object with a text member");
    TRY(preprocess_publish_bad_lines(publish, &run->state));
    return bad_data("%s%s: no documents, only bad lines, listed in %s; every line should be a JSON object with a text "
                    "member",
                    run->files.items[0], others, run->bad_lines);
}

// An unfinished run can be resumed only if this run would have done the same so far.
static int check_begun(const struct preprocessing *run) {
    int64_t bad_lines = run->state.counts.bad_lines;
    if (bad_lines > 0 && !run->options->skip_bad_lines)
        return error_set_code(EXIT_CODE_USAGE,
                              "%s holds a run that skipped %" PRId64
                              " bad lines; resume it with --skip-bad-lines, or start over with --restart",
                              run->journal.folder, bad_lines);
    if (run->state.file > run->files.count)
        return error_set("cannot resume %s; start over with --restart", run->journal.folder);
    return 0;
}

// Whether a file begins with an entry of a list of bad lines, "FILE:LINE: what is wrong".
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
        TRY(index_files_check_output(run->targets[i], "replace it with --restart"));
    return file_check_output(run->bad_lines, "a list of bad lines", is_bad_line);
}

static int process(struct preprocessing *run, enum journal_phase phase) {
    char tokenizer[TOKENIZER_RECORD];
    tokenizer_record(run->tokenizer, tokenizer);
    const struct preprocess_publish publish = {
        .options = run->options,
        .journal = &run->journal,
        .dtype = run->workers[0].dtype,
        .targets = run->targets,
        .bad_lines = run->bad_lines,
        .tokenizer = tokenizer,
    };
    // A run that was killed while publishing may have left a .bin without its .idx.
    if (phase == JOURNAL_NEW && !run->options->restart)
        TRY(check_outputs(run));
    if (phase != JOURNAL_NEW) {
        TRY(check_begun(run));
        log_info("resuming a run that stopped after %" PRId64 " documents", run->state.counts.documents);
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
            log_warn("the unfinished output is kept in %s; the same command resumes it, --restart starts over",
                     run->journal.folder);
        journal_close(&run->journal, status == 0);
    }
    summary->counts = run->state.counts;
    preprocess_state_free(&run->state);
    return status;
}

static int find_formats(struct preprocessing *run) {
    run->are_plain = memory_alloc((size_t)run->files.count * sizeof *run->are_plain);
    for (int64_t i = 0; i < run->files.count; i++) {
        TRY(text_format_find(&run->are_plain[i], run->options->format, run->files.items[i]));
        if (run->are_plain[i] && run->options->keys.count > 1)
            return error_set_code(EXIT_CODE_USAGE,
                                  "%s is plain text, which has no members; give one name with --json-keys",
                                  run->files.items[i]);
    }
    return text_format_block(&run->block_bytes, &run->files, run->are_plain);
}

static int prepare(struct preprocessing *run) {
    TRY(check_keys(&run->options->keys));
    const char *const *accepted = run->options->format == TEXT_FORMAT_JSONL ? endings : text_format_endings;
    TRY(inputs_expand_folders(&run->files, &run->options->inputs, accepted));
    TRY(find_formats(run));
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
    free(run->are_plain);
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
