// Lines from one or several files, in chunks of a few megabytes that hold whole lines of one file. One thread reads
// chunks; any thread may process them.
//
// A line ends at \n, or at the end of its file. Its length is limited. A byte order mark at the beginning of a file is
// not part of the text.
#ifndef DATA_EXTRACT_LINES_H
#define DATA_EXTRACT_LINES_H

#include "base/buffer.h"
#include "data/extract/line_file.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct line_options {
    const char *const *paths;  // (path_count) "-" is standard input; must outlive the reader
    int64_t path_count;
    size_t chunk_bytes;                   // target size; 0 for 1 MiB
    size_t line_limit;                    // longest line in bytes; 0 for 1 GiB
    const struct table_columns *columns;  // see struct line_file_options
};

struct line_chunk {
    struct buffer text;    // whole lines; kept and reused between calls
    const char *path;      // of the file they come from, or "standard input"
    const char *format;    // of that file: see reader_format
    int64_t first_line;    // number of the first line in its file, from 1
    uint64_t input_bytes;  // read from all files by the end of this chunk, counted as stored on disk: for progress
};

struct line_reader;

void line_reader_open(struct line_reader **lines, const struct line_options *options);
void line_reader_close(struct line_reader *lines);  // NULL is fine

// 1 with the next chunk, 0 after the last, -1 on error.
int line_reader_next(struct line_reader *lines, struct line_chunk *chunk);

// Iterates over the lines of a chunk: zero the cursor except `chunk`; true while there is a line.
struct line_cursor {
    const struct line_chunk *chunk;
    size_t position;
    const char *line;  // without its \n
    size_t length;
    bool has_newline;
    int64_t number;  // in the file, from 1
};
bool line_cursor_next(struct line_cursor *cursor);

// Called with an error that was caused by the text of a chunk: see reader_blame_damage. Always returns -1.
int line_chunk_blame(const struct line_chunk *chunk);

// Sets the error of a line above the limit; returns -1.
int line_too_long(size_t limit);

#endif
