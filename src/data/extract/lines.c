// Numbered lines from several files, one after another: pieces for callers that read with one thread.
#include "data/extract/lines.h"
#include "base/error.h"
#include "data/extract/reader.h"
#include "base/memory.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static const char standard_input[] = "standard input";

struct line_reader {
    struct line_options options;
    struct line_file *file;  // the current one, NULL before the first
    int64_t next_path;
    struct line_piece piece;
    int64_t line;         // number of the next line
    uint64_t past_bytes;  // of files before the current one
    uint64_t file_bytes;  // of the current one
};

void line_reader_open(struct line_reader **lines, const struct line_options *options) {
    *lines = memory_alloc(sizeof **lines);
    (*lines)->options = *options;
    if (!(*lines)->options.chunk_bytes)
        (*lines)->options.chunk_bytes = (size_t)1 << 20;
    if (!(*lines)->options.line_limit)
        (*lines)->options.line_limit = (size_t)1 << 30;
}

void line_reader_close(struct line_reader *lines) {
    if (!lines)
        return;
    line_file_close(lines->file);
    line_piece_free(&lines->piece);
    free(lines);
}

// The name of the file in messages.
static const char *present_path(const struct line_reader *lines) {
    const char *path = lines->options.paths[lines->next_path - 1];
    return strcmp(path, "-") == 0 ? standard_input : path;
}

int line_too_long(size_t limit) {
    return bad_data(
        "the line is longer than %zu bytes; if this is a file of lines, raise the limit with --max-line-bytes", limit);
}

int line_chunk_blame(const struct line_chunk *chunk) {
    return reader_blame_damage(chunk->path == standard_input ? "-" : chunk->path, chunk->format);
}

// Counts the lines of the chunk and checks their lengths.
static int check_lines(const struct line_reader *lines, const struct line_chunk *chunk, int64_t *count) {
    struct line_cursor cursor = {.chunk = chunk};
    *count = 0;
    bool is_long = false;
    while (!is_long && line_cursor_next(&cursor)) {
        is_long = cursor.length > lines->options.line_limit;
        *count += !is_long;
    }
    if (!is_long && !lines->piece.too_long)
        return 0;
    line_too_long(lines->options.line_limit);
    return error_context("%s:%" PRId64, chunk->path, lines->line + *count);
}

static int open_next(struct line_reader *lines) {
    const struct line_file_options options = {
        .path = lines->options.paths[lines->next_path],
        .threads = 1,
        .piece_bytes = lines->options.chunk_bytes,
        .line_limit = lines->options.line_limit,
        .columns = lines->options.columns,
    };
    TRY(line_file_open(&lines->file, &options));
    lines->next_path++;
    lines->line = 1;
    lines->file_bytes = 0;
    return 0;
}

static void close_present(struct line_reader *lines) {
    lines->past_bytes += lines->file_bytes;
    line_file_close(lines->file);
    lines->file = NULL;
}

// Swaps the text: the piece gets the chunk's old memory.
static void take_text(struct line_reader *lines, struct line_chunk *chunk) {
    struct buffer text = lines->piece.text;
    size_t first = lines->piece.first;
    lines->piece.text = chunk->text;
    chunk->text = text;
    if (first > 0) {
        memmove(chunk->text.data, chunk->text.data + first, chunk->text.length - first + 1);
        chunk->text.length -= first;
    }
}

int line_reader_next(struct line_reader *lines, struct line_chunk *chunk) {
    for (;;) {
        if (!lines->file) {
            if (lines->next_path == lines->options.path_count)
                return 0;
            TRY(open_next(lines));
        }
        int status = line_file_next(lines->file, &lines->piece);
        TRY(status);
        if (status == 0) {
            close_present(lines);
            continue;
        }
        TRY(line_piece_fill(&lines->piece));
        take_text(lines, chunk);
        lines->file_bytes = lines->piece.input_bytes;
        chunk->path = present_path(lines);
        chunk->format = lines->piece.format;
        chunk->first_line = lines->line;
        chunk->input_bytes = lines->past_bytes + lines->file_bytes;
        int64_t count;
        TRY(check_lines(lines, chunk, &count));
        lines->line += count;
        if (chunk->text.length)
            return 1;
    }
}

bool line_cursor_next(struct line_cursor *cursor) {
    const struct buffer *text = &cursor->chunk->text;
    cursor->number = cursor->position == 0 ? cursor->chunk->first_line : cursor->number + 1;
    if (cursor->position >= text->length)
        return false;
    cursor->line = text->data + cursor->position;
    const char *end = memchr(cursor->line, '\n', text->length - cursor->position);
    cursor->has_newline = end != NULL;
    cursor->length = end ? (size_t)(end - cursor->line) : text->length - cursor->position;
    cursor->position += cursor->length + cursor->has_newline;
    return true;
}
