// Reading, tokenizing and writing run at the same time, in a pipeline of batches: a batch is a chunk of whole lines
// and, once worked on, its tokens. Batches are written in the order in which they were read, so the output does not
// depend on the number of workers. In flight are two batches per worker.
#include "data/preprocess.h"
#include "data/bad_data.h"
#include "data/extract/inputs.h"
#include "data/index/index.h"
#include "data/pipeline.h"
#include "data/text_batch.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/progress.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CHUNK_BYTES = 1 << 20, SHOWN_PROBLEMS = 3 };

struct preprocessing {
    const struct preprocess_options *options;
    const struct tokenizer *tokenizer;
    struct line_reader *lines;
    struct text_worker *workers;    // (options->workers)
    struct index_writer **writers;  // (keys)
    struct preprocess_summary *summary;
    struct progress progress;
    double started;
    int64_t next_log;  // at this many documents
    int problems_shown;
};

char *preprocess_output_name(const char *output_prefix, const char *key) {
    return memory_printf("%s_%s_document", output_prefix, key);
}

// ---- the three steps of the pipeline ----

static int read_batch(void *context, void *item) {
    struct preprocessing *run = context;
    struct text_batch *batch = item;
    return line_reader_next(run->lines, &batch->chunk);
}

static int tokenize_batch(void *context, void *item, int thread) {
    struct preprocessing *run = context;
    return text_batch_tokenize(item, &run->workers[thread]);
}

// Megatron's own line, for scripts that watch for it, or the progress bar.
static void show_progress(struct preprocessing *run, uint64_t input_bytes) {
    struct preprocess_summary *summary = run->summary;
    double seconds = clock_seconds() - run->started;
    double bytes_rate = (double)summary->text_bytes / seconds;
    if (run->options->log_interval <= 0) {
        char note[96];
        snprintf(note, sizeof note, "%" PRId64 " documents, %.1f MB/s of text", summary->documents, bytes_rate / 1e6);
        progress_update(&run->progress, (double)input_bytes / 1e6, note);
    } else if (summary->documents >= run->next_log) {
        log_info("Processed %" PRId64 " documents (%.6g docs/s, %.6g MB/s).", summary->documents,
                 (double)summary->documents / seconds, bytes_rate / 1048576);
        run->next_log = (summary->documents / run->options->log_interval + 1) * run->options->log_interval;
    }
}

static int write_batch(void *context, void *item) {
    struct preprocessing *run = context;
    struct text_batch *batch = item;
    struct preprocess_summary *summary = run->summary;
    TRY(text_batch_write(batch, run->writers));
    for (int64_t key = 0; key < batch->keys; key++)
        summary->tokens += batch->columns[key].tokens.count;
    summary->documents += batch->columns[0].documents.count;
    summary->empty_documents += batch->empty_documents;
    summary->bad_lines += batch->bad_lines;
    summary->blank_lines += batch->blank_lines;
    summary->repaired_lines += batch->repaired_lines;
    summary->text_bytes += batch->chunk.text.length;
    if (batch->problem && run->problems_shown++ < SHOWN_PROBLEMS)
        log_warn("skipped %s", batch->problem);
    show_progress(run, batch->chunk.input_bytes);
    return 0;
}

static int run_pipeline(struct preprocessing *run) {
    struct pipeline pipeline = {
        .threads = run->options->workers,
        .items = 2 * run->options->workers,
        .context = run,
        .produce = read_batch,
        .work = tokenize_batch,
        .consume = write_batch,
    };
    pipeline.item = memory_alloc((size_t)pipeline.items * sizeof *pipeline.item);
    for (int i = 0; i < pipeline.items; i++)
        pipeline.item[i] = text_batch_create(run->options->keys.count);
    int status = pipeline_run(&pipeline);
    for (int i = 0; i < pipeline.items; i++)
        text_batch_free(pipeline.item[i]);
    free(pipeline.item);
    return status;
}

// ---- beginning and end ----

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

static int open_writers(struct preprocessing *run) {
    enum index_dtype dtype = index_dtype_for_vocab(tokenizer_vocab_size(run->tokenizer));
    for (int64_t key = 0; key < run->options->keys.count; key++) {
        char *name = preprocess_output_name(run->options->output_prefix, run->options->keys.items[key]);
        int status = index_writer_open(&run->writers[key], name, dtype);
        free(name);
        TRY(status);
    }
    return 0;
}

static int create_workers(struct preprocessing *run) {
    const struct preprocess_options *options = run->options;
    struct jsonl_options jsonl = {
        .keys = (const char *const *)options->keys.items,
        .key_count = options->keys.count,
        .skip_bad_lines = options->skip_bad_lines,
        .replace_ill_formed = options->replace_ill_formed,
    };
    run->workers = memory_alloc((size_t)options->workers * sizeof *run->workers);
    if (options->append_eod && tokenizer_eod(run->tokenizer) < 0)
        return error_set_code(EXIT_CODE_USAGE,
                              "--append-eod: this tokenizer has no token that ends a document; leave the flag out");
    for (int i = 0; i < options->workers; i++) {
        jsonl_parser_init(&run->workers[i].parser, &jsonl);
        run->workers[i].eod = options->append_eod ? tokenizer_eod(run->tokenizer) : -1;
        TRY(tokenizer_encoder_create(&run->workers[i].encoder, run->tokenizer));
    }
    return 0;
}

static void finish(struct preprocessing *run) {
    for (int i = 0; i < run->options->workers; i++) {
        tokenizer_encoder_free(run->workers[i].encoder);
        jsonl_parser_free(&run->workers[i].parser);
    }
    free(run->workers);
    for (int64_t key = 0; key < run->options->keys.count; key++)
        index_writer_abort(run->writers[key]);
    free(run->writers);
    line_reader_close(run->lines);
}

static int process(struct preprocessing *run, const struct string_list *files) {
    bool bar = run->options->log_interval <= 0;
    TRY(open_writers(run));
    run->started = clock_seconds();
    run->next_log = run->options->log_interval;
    if (bar)
        progress_begin(&run->progress, "tokenizing", "MB", (double)inputs_bytes(files) / 1e6);
    int status = run_pipeline(run);
    if (bar)
        progress_end(&run->progress, NULL);
    TRY(status);
    if (run->summary->documents == 0)
        return bad_data("%s%s: no documents; every line should be a JSON object with a text member", files->items[0],
                        files->count > 1 ? " and the other inputs" : "");
    TRY(index_writers_commit(run->writers, run->options->keys.count));
    run->summary->seconds = clock_seconds() - run->started;
    return 0;
}

int preprocess(const struct preprocess_options *options, const struct tokenizer *tokenizer,
               struct preprocess_summary *summary) {
    *summary = (struct preprocess_summary){0};
    CHECK(options->workers >= 1);
    TRY(check_keys(&options->keys));
    struct string_list files = {0};
    if (inputs_expand(&files, &options->inputs) < 0) {
        string_list_free(&files);
        return -1;
    }
    struct preprocessing run = {.options = options, .tokenizer = tokenizer, .summary = summary};
    run.writers = memory_alloc((size_t)options->keys.count * sizeof(struct index_writer *));
    struct line_options lines = {
        .paths = (const char *const *)files.items,
        .path_count = files.count,
        .chunk_bytes = CHUNK_BYTES,
        .line_limit = options->line_limit,
    };
    line_reader_open(&run.lines, &lines);
    int status = create_workers(&run);
    if (status == 0)
        status = process(&run, &files);
    finish(&run);
    string_list_free(&files);
    return status;
}
