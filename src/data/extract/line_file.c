// Cuts files into pieces of lines. The pieces of a plain file are equal parts of its bytes: filling one means finding
// the first line that begins in it, and reading past its end until its last line is complete. In a stream, the bytes
// after the last line end of a piece are carried over to the next.
#include "data/extract/lines.h"
#include "data/extract/reader.h"
#include "base/error.h"
#include "base/file.h"
#include "base/memory.h"
#include "net/url.h"
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char byte_order_mark[] = "\xEF\xBB\xBF";
enum {
    MARK_BYTES = sizeof byte_order_mark - 1,
    LARGEST_STEP = 1 << 20,
    LEAST_AHEAD = 1 << 18,
    ENDLESS_BYTES = 1 << 30
};

struct line_file {
    struct line_file_options options;
    char *name;
    const char *format;
    atomic_int users;  // the opener, and pieces not filled yet
    // For a plain file:
    int descriptor;  // -1 for a stream
    uint64_t size;
    // For a stream:
    struct reader *reader;
    struct buffer rest;  // the beginning of an incomplete line
    bool ended;
    bool is_file;       // a regular file, which ends
    uint64_t position;  // where the next piece begins
};

static void release(struct line_file *file) {
    if (atomic_fetch_sub(&file->users, 1) != 1)
        return;
    if (file->descriptor >= 0)
        close(file->descriptor);
    reader_close(file->reader);
    buffer_free(&file->rest);
    free(file->name);
    free(file);
}

static void charge(const struct line_file *file, struct line_piece *piece, size_t bytes) {
    if (file->options.charge && bytes > 2 * file->options.piece_bytes)
        file->options.charge(file->options.context, piece, bytes);
}

// ---- opening ----

// Skips the part that an earlier run has read.
static int skip_to(struct line_file *file, uint64_t begin) {
    int result = reader_seek(file->reader, begin);
    if (result != 0)
        return result < 0 ? -1 : 0;
    struct buffer text = {0};
    buffer_reserve(&text, LARGEST_STEP);
    for (uint64_t left = begin; result == 0 && left > 0;) {
        int64_t got = reader_read(file->reader, text.data, left < LARGEST_STEP ? (size_t)left : LARGEST_STEP);
        if (got == 0)
            result = error_set("%s ends before byte %" PRIu64 ", up to which it was already read; it may have changed",
                               file->name, begin);
        else if (got < 0)
            result = -1;
        left -= got > 0 ? (uint64_t)got : 0;
    }
    buffer_free(&text);
    return result;
}

// A plain regular file needs no reader. Any other input without a format (a pipe) is read as a stream.
static int open_plain(struct line_file *file) {
    struct stat status;
    const char *path = file->options.path;
    if (strcmp(path, "-") == 0 || url_is_remote(path) || strcmp(reader_format(file->reader), "plain") != 0)
        return 0;
    int descriptor = file_open_input(path, &status);
    TRY(descriptor);
    if (!S_ISREG(status.st_mode)) {
        close(descriptor);
        return 0;
    }
    file->descriptor = descriptor;
    file->size = (uint64_t)status.st_size;
    reader_close(file->reader);
    file->reader = NULL;
    return 0;
}

// A thread that waits for a pipe cannot be stopped, so only files are read ahead. For a small file, starting a thread
// takes longer than reading it.
static void start_ahead(struct line_file *file) {
    struct stat status;
    bool is_input = strcmp(file->options.path, "-") == 0;
    if (!file->reader || (is_input ? fstat(STDIN_FILENO, &status) : stat(file->options.path, &status)) < 0)
        return;
    file->is_file = S_ISREG(status.st_mode);
    if (file->is_file && !is_input && file->options.reads_ahead && status.st_size >= LEAST_AHEAD)
        reader_read_ahead(file->reader);
}

int line_file_open(struct line_file **opened, const struct line_file_options *options) {
    *opened = NULL;
    struct line_file *file = memory_alloc(sizeof *file);
    file->options = *options;
    file->descriptor = -1;
    atomic_init(&file->users, 1);
    file->name = memory_string(strcmp(options->path, "-") == 0 ? "standard input" : options->path);
    file->position = options->begin;
    int status = reader_open_columns(&file->reader, options->path, options->threads, options->columns);
    if (status == 0) {
        file->format = reader_format(file->reader);
        status = open_plain(file);
    }
    if (status == 0 && file->reader)
        status = skip_to(file, options->begin);
    if (status < 0) {
        release(file);
        return -1;
    }
    start_ahead(file);
    *opened = file;
    return 0;
}

void line_file_close(struct line_file *file) {
    if (file)
        release(file);
}

bool line_file_is_plain(const struct line_file *file) {
    return file->descriptor >= 0;
}

uint64_t line_file_memory(const struct line_file *file) {
    return file->reader ? reader_memory(file->reader) : 0;
}

static void drop_byte_order_mark(struct line_piece *piece) {
    if (piece->begin == 0 && piece->text.length >= MARK_BYTES && piece->first == 0 &&
        memcmp(piece->text.data, byte_order_mark, MARK_BYTES) == 0)
        piece->first = MARK_BYTES;
}

// ---- plain files ----

// Appends up to count bytes at `offset` of the file to the text; fewer only at the end of the file.
static int read_at(const struct line_file *file, struct buffer *text, uint64_t offset, size_t count) {
    if (offset >= file->size)
        return 0;
    count = file->size - offset < count ? (size_t)(file->size - offset) : count;
    buffer_reserve(text, count);
    size_t got = file_read_at(file->descriptor, text->data + text->length, count, offset);
    text->length += got;
    if (got < count)
        return error_set("cannot read %s at byte %" PRIu64 ": %s; check the file and the disk", file->name,
                         offset + got, errno ? strerror(errno) : "it was truncated");
    text->data[text->length] = 0;
    return 0;
}

// The text ends inside its last line, which begins at `line`: reads on until the line is complete or too long.
static int finish_line(struct line_piece *piece, uint64_t offset, size_t line) {
    const struct line_file *file = piece->file;
    struct buffer *text = &piece->text;
    size_t step = 1 << 14;
    while (offset < file->size) {
        if (text->length - line > file->options.line_limit) {
            text->length = line;
            piece->too_long = true;
            return 0;
        }
        size_t before = text->length;
        charge(file, piece, text->length + step);
        TRY(read_at(file, text, offset, step));
        offset += text->length - before;
        const char *end = memchr(text->data + before, '\n', text->length - before);
        if (end) {
            text->length = (size_t)(end - text->data) + 1;
            return 0;
        }
        step = 2 * step < LARGEST_STEP ? 2 * step : LARGEST_STEP;
    }
    return 0;
}

static int fill_plain(struct line_piece *piece) {
    const struct line_file *file = piece->file;
    struct buffer *text = &piece->text;
    // One extra byte in front tells whether a line begins exactly where the piece does.
    uint64_t from = piece->begin > 0 ? piece->begin - 1 : 0;
    size_t count = (size_t)(piece->end - from);
    piece->origin = from;
    TRY(read_at(file, text, from, count));
    if (piece->begin > 0) {
        const char *end = memchr(text->data, '\n', text->length);
        piece->first = end ? (size_t)(end - text->data) + 1 : text->length;
    }
    if (piece->first < text->length && text->data[text->length - 1] != '\n') {
        const char *last = memrchr(text->data + piece->first, '\n', text->length - piece->first);
        TRY(finish_line(piece, piece->end, last ? (size_t)(last - text->data) + 1 : piece->first));
    }
    text->data[text->length] = 0;
    drop_byte_order_mark(piece);
    return 0;
}

static int cut_plain(struct line_file *file, struct line_piece *piece) {
    if (file->position >= file->size)
        return 0;
    uint64_t left = file->size - file->position;
    piece->begin = file->position;
    piece->end = piece->begin + (left < file->options.piece_bytes ? left : file->options.piece_bytes);
    piece->input_bytes = file->position = piece->end;
    piece->file = file;
    atomic_fetch_add(&file->users, 1);
    return 1;
}

int line_piece_fill(struct line_piece *piece) {
    if (!piece->file)
        return 0;
    int status = fill_plain(piece);
    release(piece->file);
    piece->file = NULL;
    return status;
}

void line_piece_free(struct line_piece *piece) {
    if (piece->file)
        release(piece->file);
    buffer_free(&piece->text);
    *piece = (struct line_piece){0};
}

// ---- streams ----

static int read_more(struct line_file *file, struct line_piece *piece) {
    struct buffer *text = &piece->text;
    size_t want = file->options.piece_bytes;
    charge(file, piece, text->length + want);
    buffer_reserve(text, want);
    int64_t got = reader_read(file->reader, text->data + text->length, want);
    if (got < 0)
        return -1;
    file->ended = got == 0;
    text->length += (size_t)got;
    text->data[text->length] = 0;
    return 0;
}

// Skips the rest of a line that is too long; the text after it belongs to the next piece. A pipe or a device may never
// end it.
static int skip_line(struct line_file *file, uint64_t *skipped) {
    struct buffer *rest = &file->rest;
    while (!file->ended) {
        if (!file->is_file && *skipped > ENDLESS_BYTES + file->options.line_limit)
            return bad_data("%s: the line at byte %" PRIu64 " does not end within %" PRIu64
                            " bytes; is this a stream of lines?",
                            file->name, file->position, *skipped);
        buffer_clear(rest);
        buffer_reserve(rest, LARGEST_STEP);
        int64_t got = reader_read(file->reader, rest->data, LARGEST_STEP);
        if (got < 0)
            return -1;
        file->ended = got == 0;
        const char *end = got > 0 ? memchr(rest->data, '\n', (size_t)got) : NULL;
        size_t passed = end ? (size_t)(end - rest->data) + 1 : (size_t)got;
        *skipped += passed;
        if (end) {
            rest->length = (size_t)got - passed;
            memmove(rest->data, rest->data + passed, rest->length);
            rest->data[rest->length] = 0;
            return 0;
        }
    }
    buffer_clear(rest);
    return 0;
}

// The text has complete lines up to byte `whole`; the line that starts there continues.
static int end_stream_piece(struct line_file *file, struct line_piece *piece, size_t whole) {
    struct buffer *text = &piece->text;
    size_t begun = text->length - whole;
    uint64_t used = whole;
    buffer_clear(&file->rest);
    if (begun > file->options.line_limit) {
        piece->too_long = true;
        used += begun;
        if (file->options.skips_long)
            TRY(skip_line(file, &used));
        else
            file->ended = true;
    } else {
        buffer_append(&file->rest, text->data + whole, begun);
    }
    text->length = whole;
    if (text->data)
        text->data[whole] = 0;
    piece->begin = piece->origin = file->position;
    piece->end = file->position += used;
    piece->input_bytes = reader_input_bytes(file->reader);
    drop_byte_order_mark(piece);
    return 0;
}

// Given `whole` bytes of complete lines: the bytes before the last line that is the first to begin in its block; 0 if
// there is none. The lines from there on may be only a part of their block.
static size_t whole_blocks(const struct line_file *file, const struct buffer *text, size_t whole) {
    uint64_t block = file->options.block_bytes;
    for (uint64_t end = (file->position + whole) / block * block; end > file->position; end -= block) {
        size_t before = (size_t)(end - file->position) - 1;
        const char *line = memchr(text->data + before, '\n', whole - before);
        if (line)
            return (size_t)(line - text->data) + 1;
    }
    return 0;
}

static int cut_stream(struct line_file *file, struct line_piece *piece) {
    struct buffer *text = &piece->text;
    if (file->ended && file->rest.length == 0)
        return 0;
    buffer_append(text, file->rest.data, file->rest.length);
    buffer_clear(&file->rest);
    size_t whole = 0, searched = 0;
    for (;;) {
        const char *last =
            text->length > searched ? memrchr(text->data + searched, '\n', text->length - searched) : NULL;
        whole = last ? (size_t)(last - text->data) + 1 : whole;
        searched = text->length;
        if (file->ended && text->length - whole <= file->options.line_limit)
            whole = text->length;
        bool is_large = whole > 0 && text->length >= file->options.piece_bytes;
        size_t taken = is_large && file->options.block_bytes > 0 ? whole_blocks(file, text, whole) : whole;
        bool is_long = text->length - whole > file->options.line_limit;
        if (file->ended || (is_large && taken > 0) || is_long) {
            whole = file->ended || is_long ? whole : taken;
            break;
        }
        TRY(read_more(file, piece));
    }
    TRY(end_stream_piece(file, piece, whole));
    return text->length > 0 || piece->too_long;
}

int line_file_next(struct line_file *file, struct line_piece *piece) {
    CHECK(!piece->file);
    buffer_clear(&piece->text);
    piece->first = 0;
    piece->too_long = false;
    piece->format = file->format;
    piece->block_bytes = file->options.block_bytes;
    return file->descriptor >= 0 ? cut_plain(file, piece) : cut_stream(file, piece);
}
