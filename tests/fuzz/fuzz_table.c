// layer: data
// A table of hostile bytes, read with one thread and with several: every line is an object with the columns. The same
// bytes as the kinds that are told by their name: every line of CSV is such an object, blank, or a bad row.
#include "fuzz.h"

#include "data/extract/jsonl.h"
#include "data/extract/reader.h"
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { READ_LIMIT = 1 << 22 };

struct bytes {
    const uint8_t *data;
    size_t left, step;
};

static int64_t read_some(void *context, void *out, size_t capacity) {
    struct bytes *bytes = context;
    size_t count = bytes->left < bytes->step ? bytes->left : bytes->step;
    count = count < capacity ? count : capacity;
    memcpy(out, bytes->data, count);
    bytes->data += count;
    bytes->left -= count;
    return (int64_t)count;
}

static void read_as(const struct table_kind *kind, const uint8_t *data, size_t size, struct jsonl_parser *parser) {
    struct bytes bytes = {data, size, 1 + size % 61};
    const struct table_input input = {.name = "fuzz",
                                      .columns = {parser->options.keys, parser->options.key_count},
                                      .descriptor = -1,
                                      .read = read_some,
                                      .context = &bytes};
    struct buffer lines = {0}, problem = {0};
    void *state;
    if (kind->open(&state, &input) < 0)
        return;
    while (lines.length < READ_LIMIT && kind->next(state, &lines) > 0)
        ;
    kind->close(state);
    const char *at = buffer_string(&lines), *end = at + lines.length, *stop;
    for (; at < end && (stop = memchr(at, '\n', (size_t)(end - at))); at = stop + 1)
        if (jsonl_find(parser, at, (size_t)(stop - at)) < 0 && (kind == &table_csv || kind == &table_tsv) &&
            !table_is_bad_row(at, (size_t)(stop - at), &problem))
            abort();
    buffer_free(&lines);
    buffer_free(&problem);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    int descriptor = memfd_create("fuzz", 0);
    if (descriptor < 0 || write(descriptor, data, size) != (ssize_t)size)
        abort();
    char path[64];
    snprintf(path, sizeof path, "/proc/self/fd/%d", descriptor);
    static const char *const keys[] = {"text", "tags"};
    const struct table_columns columns = {keys, 1 + size % 2};
    struct jsonl_parser parser;
    jsonl_parser_init(&parser,
                      &(struct jsonl_options){.keys = keys, .key_count = columns.count, .replace_ill_formed = true});
    struct reader *reader;
    struct buffer lines = {0};
    int64_t got = 1;
    if (reader_open_columns(&reader, path, 1 + size % 3, &columns) == 0) {
        for (buffer_reserve(&lines, READ_LIMIT); got > 0 && lines.length < READ_LIMIT;) {
            got = reader_read(reader, lines.data + lines.length, READ_LIMIT - lines.length);
            lines.length += got > 0 ? (size_t)got : 0;
        }
        const char *format = reader_format(reader);
        bool is_table = strcmp(format, "Parquet") == 0 || strcmp(format, "Arrow") == 0;
        reader_close(reader);
        const char *at = lines.data, *end = lines.data + lines.length, *stop;
        for (; is_table && (stop = memchr(at, '\n', (size_t)(end - at))); at = stop + 1)
            if (jsonl_find(&parser, at, (size_t)(stop - at)) < 0)
                abort();
    }
    const struct table_kind *const kinds[] = {&table_csv, &table_tsv, &table_json, &table_warc, &table_tar};
    for (int i = 0; i < 5; i++)
        read_as(kinds[i], data, size, &parser);
    buffer_free(&lines);
    jsonl_parser_free(&parser);
    close(descriptor);
    return 0;
}
