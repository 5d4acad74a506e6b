// layer: data
// A file of hostile bytes, compressed or not, read as lines and as JSON Lines: no line may be longer than the limit or
// contain a line end, and their numbers increase by one.
#include "fuzz.h"

#include "data/extract/jsonl.h"
#include "data/extract/lines.h"
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { LINE_LIMIT = 4096, READ_LIMIT = 1 << 22 };

static void walk(const struct line_chunk *chunk, struct jsonl_parser *parser) {
    struct line_cursor cursor = {.chunk = chunk};
    int64_t expected = chunk->first_line;
    while (line_cursor_next(&cursor)) {
        if (cursor.number != expected++ || cursor.length > LINE_LIMIT || memchr(cursor.line, '\n', cursor.length))
            abort();
        if (jsonl_parse(parser, &cursor) < 0)
            abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    int descriptor = memfd_create("fuzz", 0);
    if (descriptor < 0 || write(descriptor, data, size) != (ssize_t)size)
        abort();
    char path[64];
    snprintf(path, sizeof path, "/proc/self/fd/%d", descriptor);
    const char *paths[] = {path}, *keys[] = {"text", "title"};
    struct jsonl_parser parser;
    struct jsonl_options jsonl = {.keys = keys, .key_count = 2, .skip_bad_lines = true, .replace_ill_formed = size % 2};
    jsonl_parser_init(&parser, &jsonl);
    struct line_reader *lines;
    struct line_chunk chunk = {0};
    line_reader_open(&lines, &(struct line_options){paths, 1, 1 + size % 5000, LINE_LIMIT});
    size_t total = 0;
    while (total < READ_LIMIT && line_reader_next(lines, &chunk) > 0) {
        total += chunk.text.length;
        walk(&chunk, &parser);
    }
    line_reader_close(lines);
    jsonl_parser_free(&parser);
    buffer_free(&chunk.text);
    close(descriptor);
    return 0;
}
