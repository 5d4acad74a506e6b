// For tests of readers: files that are written quickly, and read completely.
#ifndef TESTS_DATA_READING_H
#define TESTS_DATA_READING_H

#include "base/buffer.h"
#include "base/error.h"
#include "data/extract/reader.h"
#include "test.h"
#include <unistd.h>

// Writes a file without waiting for the disk, since there are thousands of them. Some file systems flush a file that is
// truncated and rewritten, but not a new one.
static inline void write_quickly(const char *path, const struct buffer *bytes, size_t count) {
    unlink(path);
    FILE *file = fopen(path, "wb");
    EXPECT(file && fwrite(bytes->data, 1, count, file) == count);
    EXPECT(fclose(file) == 0);
}

// All lines of a table, or what a file holds if the columns are NULL, read with this many threads in pieces of `step`
// bytes. 0, or -1 with an error.
static inline int read_table(const char *path, const struct table_columns *columns, int threads, size_t step,
                             struct buffer *out) {
    struct reader *reader;
    buffer_clear(out);
    TRY(reader_open_columns(&reader, path, threads, columns));
    int64_t got;
    do {
        buffer_reserve(out, step);
        got = reader_read(reader, out->data + out->length, step);
        if (got > 0)
            out->length += (size_t)got;
    } while (got > 0);
    if (out->data)
        out->data[out->length] = 0;
    reader_close(reader);
    return (int)got;
}

static inline int read_whole(const char *path, int threads, size_t step, struct buffer *out) {
    return read_table(path, NULL, threads, step, out);
}

#endif
