// Cuts byte streams into chunks of whole lines. What follows the last line end of a chunk is carried over to the next.
#include "data/extract/lines.h"
#include "data/extract/reader.h"
#include "data/bad_data.h"
#include "base/error.h"
#include "base/memory.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static const char byte_order_mark[] = "\xEF\xBB\xBF";

struct line_reader {
    struct line_options options;
    struct reader *reader;  // of the present file, NULL before the first
    int64_t next_path;
    struct buffer rest;   // begun line
    int64_t line;         // number of the line that `rest` begins
    uint64_t past_bytes;  // of files before the present one
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
    reader_close(lines->reader);
    buffer_free(&lines->rest);
    free(lines);
}

static const char *present_path(const struct line_reader *lines) {
    const char *path = lines->options.paths[lines->next_path - 1];
    return strcmp(path, "-") == 0 ? "standard input" : path;
}

static int too_long(const struct line_reader *lines, int64_t line) {
    return bad_data("%s:%" PRId64
                    ": the line is longer than %zu bytes; is this a file of lines? If so, raise the limit "
                    "with --max-line-bytes",
                    present_path(lines), line, lines->options.line_limit);
}

// Counts the lines of text, of which the last may lack its line end, and checks their lengths.
static int check_lines(const struct line_reader *lines, const char *text, size_t length, int64_t *count) {
    const char *at = text, *end = text + length;
    for (*count = 0; at < end; ++*count) {
        const char *stop = memchr(at, '\n', (size_t)(end - at));
        stop = stop ? stop : end;
        if ((size_t)(stop - at) > lines->options.line_limit)
            return too_long(lines, lines->line + *count);
        at = stop + 1;
    }
    return 0;
}

// Reads once more into text. Returns what reader_read does.
static int64_t read_more(struct line_reader *lines, struct buffer *text) {
    size_t want = lines->options.chunk_bytes;
    buffer_reserve(text, want);
    int64_t got = reader_read(lines->reader, text->data + text->length, want);
    if (got > 0) {
        text->length += (size_t)got;
        text->data[text->length] = 0;
    }
    return got;
}

static void drop_byte_order_mark(struct line_reader *lines, struct buffer *text) {
    size_t length = sizeof byte_order_mark - 1;
    if (lines->line == 1 && text->length >= length && memcmp(text->data, byte_order_mark, length) == 0) {
        memmove(text->data, text->data + length, text->length - length + 1);
        text->length -= length;
    }
}

// Reads until text has a line end and is large enough, or the file ends; *whole is the length of its whole lines.
static int read_lines(struct line_reader *lines, struct buffer *text, size_t *whole, bool *ended) {
    size_t searched = 0;
    *whole = 0;
    *ended = false;
    while (!*ended && (*whole == 0 || text->length < lines->options.chunk_bytes)) {
        int64_t got = read_more(lines, text);
        if (got < 0)
            return -1;
        *ended = got == 0;
        const char *last = memrchr(text->data + searched, '\n', text->length - searched);
        if (last)
            *whole = (size_t)(last - text->data) + 1;
        searched = text->length;
        if (*whole == 0 && text->length > lines->options.line_limit)
            return too_long(lines, lines->line);
    }
    if (*ended)
        *whole = text->length;
    return 0;
}

static int open_next(struct line_reader *lines) {
    TRY(reader_open(&lines->reader, lines->options.paths[lines->next_path]));
    lines->next_path++;
    lines->line = 1;
    return 0;
}

static void close_present(struct line_reader *lines) {
    lines->past_bytes += reader_input_bytes(lines->reader);
    reader_close(lines->reader);
    lines->reader = NULL;
}

int line_reader_next(struct line_reader *lines, struct line_chunk *chunk) {
    for (;;) {
        if (!lines->reader) {
            if (lines->next_path == lines->options.path_count)
                return 0;
            TRY(open_next(lines));
        }
        buffer_clear(&chunk->text);
        buffer_append(&chunk->text, lines->rest.data, lines->rest.length);
        buffer_clear(&lines->rest);
        size_t whole;
        bool ended;
        TRY(read_lines(lines, &chunk->text, &whole, &ended));
        buffer_append(&lines->rest, chunk->text.data + whole, chunk->text.length - whole);
        chunk->text.length = whole;
        chunk->text.data[whole] = 0;
        int64_t count;
        TRY(check_lines(lines, chunk->text.data, whole, &count));
        drop_byte_order_mark(lines, &chunk->text);
        chunk->path = present_path(lines);
        chunk->first_line = lines->line;
        chunk->input_bytes = lines->past_bytes + reader_input_bytes(lines->reader);
        lines->line += count;
        if (ended)
            close_present(lines);
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
