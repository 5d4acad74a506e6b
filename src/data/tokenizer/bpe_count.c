// Counts the pieces of a corpus: one thread reads chunks of lines, all threads split and count, each into its own
// table, and the tables are added up at the end.
#include "data/tokenizer/bpe_train.h"
#include "data/extract/inputs.h"
#include "data/extract/jsonl.h"
#include "data/pipeline.h"
#include "data/tokenizer/splitter.h"
#include "base/error.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/progress.h"
#include "base/utf8.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

struct count_worker {
    struct byte_table words;
    struct jsonl_parser parser;
};

struct counting {
    const struct bpe_corpus *corpus;
    struct line_reader *lines;
    struct count_worker *workers;  // (threads)
    const struct string_list *files;
    bool *are_plain;          // (files)
    uint64_t stride, chunks;  // see read_chunk
    struct splitter *splitter;
    struct bpe_corpus_summary *summary;
    struct progress progress;
};

// Splits the text by GPT-2's pattern and counts the pieces.
static void count_text(struct byte_table *words, const struct splitter *splitter, const char *text, size_t length) {
    const unsigned char *at = (const unsigned char *)text, *end = at + length;
    uint32_t ends[SPLIT_MOST];
    unsigned char state = 0;
    while (at < end) {
        int count = split_pieces(splitter, at, (size_t)(end - at), ends, &state);
        for (int i = 0; i < count; i++) {
            uint32_t begin = i > 0 ? ends[i - 1] : 0;
            byte_table_get(words, at + begin, ends[i] - begin)->value++;
        }
        at += ends[count - 1];
    }
}

// The chunk's path is one of the strings in the list of files, or stands for standard input.
static bool is_plain(const struct counting *run, const char *path) {
    int64_t i = 0;
    while (i < run->files->count && run->files->items[i] != path)
        i++;
    return i < run->files->count ? run->are_plain[i] : run->corpus->format != TEXT_FORMAT_JSONL;
}

// In a large corpus, takes the first of every `stride` chunks.
static int read_chunk(void *context, void *item) {
    struct counting *run = context;
    int status;
    do
        status = line_reader_next(run->lines, item);
    while (status > 0 && run->chunks++ % run->stride != 0);
    return status;
}

static int count_chunk(void *context, void *item, int thread) {
    struct counting *run = context;
    const struct line_chunk *chunk = item;
    struct count_worker *worker = &run->workers[thread];
    bool is_text = is_plain(run, chunk->path);
    struct line_cursor cursor = {.chunk = chunk};
    while (line_cursor_next(&cursor)) {
        if (is_text) {
            count_text(&worker->words, run->splitter, cursor.line, cursor.length + cursor.has_newline);
            continue;
        }
        int status = jsonl_parse(&worker->parser, &cursor);
        TRY(status);
        for (int64_t key = 0; status > 0 && key < run->corpus->keys.count; key++) {
            const struct json_text *text = &worker->parser.found[key];
            const char *at = text->text.data;
            for (size_t i = 0; i < text->count; at += text->lengths[i++])
                count_text(&worker->words, run->splitter, at, text->lengths[i]);
        }
    }
    return 0;
}

static int note_chunk(void *context, void *item) {
    struct counting *run = context;
    const struct line_chunk *chunk = item;
    run->summary->text_bytes += chunk->text.length;
    progress_update(&run->progress, (double)chunk->input_bytes / 1e6, NULL);
    return 0;
}

static void free_chunk(void *item) {
    buffer_free(&((struct line_chunk *)item)->text);
}

static int run_pipeline(struct counting *run, const struct string_list *files) {
    struct pipeline pipeline = {
        .threads = run->corpus->threads,
        .item_bytes = sizeof(struct line_chunk),
        .context = run,
        .produce = read_chunk,
        .work = count_chunk,
        .consume = note_chunk,
        .free_item = free_chunk,
    };
    progress_begin(&run->progress, "counting", "MB", (double)inputs_bytes(files) / 1e6);
    int status = pipeline_run(&pipeline);
    progress_end(&run->progress, NULL);
    return status;
}

static int count_files(struct byte_table *words, struct counting *run, const struct string_list *files) {
    const struct bpe_corpus *corpus = run->corpus;
    const struct table_columns columns = {(const char *const *)corpus->keys.items, corpus->keys.count};
    struct line_options lines = {
        .paths = (const char *const *)files->items,
        .path_count = files->count,
        .line_limit = corpus->line_limit,
        .columns = corpus->format == TEXT_FORMAT_PLAIN ? NULL : &columns,
    };
    struct jsonl_options jsonl = {
        .keys = (const char *const *)corpus->keys.items,
        .key_count = corpus->keys.count,
        .skip_bad_lines = corpus->skip_bad_lines,
    };
    run->workers = memory_alloc((size_t)corpus->threads * sizeof *run->workers);
    for (int i = 0; i < corpus->threads; i++)
        jsonl_parser_init(&run->workers[i].parser, &jsonl);
    line_reader_open(&run->lines, &lines);
    int status = run_pipeline(run, files);
    line_reader_close(run->lines);
    for (int i = 0; i < corpus->threads; i++) {
        struct count_worker *worker = &run->workers[i];
        if (status == 0)
            byte_table_sum(words, &worker->words);
        if (worker->parser.problem)
            log_warn("skipped %s", worker->parser.problem);
        run->summary->bad_lines += worker->parser.bad_lines;
        byte_table_free(&worker->words);
        jsonl_parser_free(&worker->parser);
    }
    free(run->workers);
    return status;
}

static int find_formats(struct counting *run, const struct string_list *files) {
    uint64_t bytes = inputs_bytes(files), enough = run->corpus->enough_bytes;
    run->files = files;
    run->stride = enough > 0 && bytes > enough ? (bytes + enough - 1) / enough : 1;
    run->are_plain = memory_alloc((size_t)files->count * sizeof *run->are_plain);
    for (int64_t i = 0; i < files->count; i++)
        TRY(text_format_find(&run->are_plain[i], run->corpus->format, files->items[i]));
    return 0;
}

// A sample says nothing about the rest of the text.
static bool has_text(const struct byte_table *words, bool is_sample) {
    for (int64_t i = 0; i < words->count; i++)
        if (is_sample || !utf8_is_blank(byte_table_text(words, &words->strings[i]), words->strings[i].length))
            return true;
    return false;
}

int bpe_count_corpus(struct byte_table *words, const struct bpe_corpus *corpus, struct bpe_corpus_summary *summary) {
    *summary = (struct bpe_corpus_summary){0};
    struct string_list files = {0};
    struct counting run = {
        .corpus = corpus, .summary = summary, .splitter = splitter_create(split_pattern_by_name("gpt2"))};
    int status = inputs_expand(&files, &corpus->inputs);
    if (status == 0)
        status = find_formats(&run, &files);
    if (status == 0)
        status = count_files(words, &run, &files);
    if (status == 0 && !has_text(words, run.stride > 1))
        status = bad_data("%s%s: no text to train on%s", files.items[0], files.count > 1 ? " and the other inputs" : "",
                          words->count > 0 ? ", only blanks" : "");
    string_list_free(&files);
    free(run.are_plain);
    splitter_free(run.splitter);
    return status;
}
