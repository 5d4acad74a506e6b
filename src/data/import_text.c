// Tokenizes lines of text into sequences with several threads: fairseq's multiprocessing_bpe_encoder (--keep-empty) and
// fairseq-preprocess in one step.
#include "data/import.h"

#include "base/error.h"
#include "base/memory.h"
#include "base/utf8.h"
#include "data/bad_data.h"
#include "data/extract/lines.h"
#include "data/import_sink.h"
#include "data/pipeline.h"
#include <inttypes.h>
#include <stdlib.h>

// A few megabytes of lines, one item of the pipeline.
struct text_piece {
    struct line_chunk chunk;
    struct token_list tokens;
    int64_t *ends;  // (count) where each line's tokens end
    int64_t count, capacity;
};

struct text_import {
    const struct import_options *options;
    struct line_reader *lines;
    struct tokenizer_encoder **encoders;  // (threads)
    struct import_sink sink;
};

static int produce(void *context, void *item) {
    struct text_import *import = context;
    struct text_piece *piece = item;
    return line_reader_next(import->lines, &piece->chunk);
}

static void add_end(struct text_piece *piece) {
    if (piece->count == piece->capacity) {
        piece->capacity = piece->capacity ? 2 * piece->capacity : 1024;
        piece->ends = memory_realloc(piece->ends, (size_t)piece->capacity * sizeof *piece->ends);
    }
    piece->ends[piece->count++] = piece->tokens.count;
}

static int work(void *context, void *item, int thread) {
    struct text_import *import = context;
    struct text_piece *piece = item;
    struct line_cursor cursor = {.chunk = &piece->chunk};
    piece->tokens.count = piece->count = 0;
    while (line_cursor_next(&cursor)) {
        size_t good = utf8_check(cursor.line, cursor.length);
        if (good < cursor.length) {
            bad_data("%s: line %" PRId64 ": byte %zu is not UTF-8; convert the file (iconv) first", piece->chunk.path,
                     cursor.number, good);
            return line_chunk_blame(&piece->chunk);
        }
        if (tokenizer_encode(import->encoders[thread], cursor.line, cursor.length, &piece->tokens) < 0)
            return error_context("%s: line %" PRId64, piece->chunk.path, cursor.number);
        token_list_append(&piece->tokens, import->options->eos);
        add_end(piece);
    }
    return 0;
}

static int consume(void *context, void *item) {
    struct text_import *import = context;
    const struct text_piece *piece = item;
    int64_t begin = 0;
    for (int64_t i = 0; i < piece->count; i++) {
        TRY(import_sink_add(&import->sink, piece->tokens.ids + begin, piece->ends[i] - begin));
        begin = piece->ends[i];
    }
    return 0;
}

static int run_text_import(struct text_import *import, int threads) {
    int count = 2 * threads, status = 0;
    struct text_piece *pieces = memory_alloc((size_t)count * sizeof *pieces);
    void **items = memory_alloc((size_t)count * sizeof *items);
    for (int i = 0; i < count; i++)
        items[i] = &pieces[i];
    struct pipeline pipeline = {.threads = threads,
                                .items = count,
                                .item = items,
                                .context = import,
                                .produce = produce,
                                .work = work,
                                .consume = consume};
    status = pipeline_run(&pipeline);
    for (int i = 0; i < count; i++) {
        buffer_free(&pieces[i].chunk.text);
        token_list_free(&pieces[i].tokens);
        free(pieces[i].ends);
    }
    free(items);
    free(pieces);
    return status;
}

int import_text(const struct import_text *text, const struct import_options *options, struct import_summary *summary) {
    struct text_import import = {.options = options};
    struct line_options lines = {
        .paths = (const char *const *)text->files.items,
        .path_count = text->files.count,
        .line_limit = text->line_limit,
    };
    import.encoders = memory_alloc((size_t)text->threads * sizeof *import.encoders);
    int status = 0;
    for (int i = 0; status == 0 && i < text->threads; i++)
        status = tokenizer_encoder_create(&import.encoders[i], text->tokenizer);
    if (status == 0)
        status = import_sink_open(&import.sink, options, index_dtype_for_vocab(options->vocab_size), summary);
    if (status == 0) {
        line_reader_open(&import.lines, &lines);
        status = import_sink_close(&import.sink, run_text_import(&import, text->threads));
        line_reader_close(import.lines);
    }
    for (int i = 0; i < text->threads; i++)
        tokenizer_encoder_free(import.encoders[i]);
    free(import.encoders);
    return status;
}
