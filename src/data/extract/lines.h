// Lines of files: cut into pieces for many threads, or read in order by one.
#ifndef DATA_EXTRACT_LINES_H
#define DATA_EXTRACT_LINES_H

#include "base/buffer.h"
#include "data/table/table.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// ---- pieces of a file ----

// A file cut into pieces of whole lines. line_file_next cuts, one thread at a time; line_piece_fill reads the text of a
// piece, on any number of threads. A plain file is cut by arithmetic and read by the threads that fill its pieces;
// anything else (compressed, a pipe) is read while it is cut.
//
// A piece [begin, end) of a file's text holds the lines that begin in it. A line ends at \n, or at the end of its file.
// A line longer than the limit is not in the text but reported by too_long. It is the last line of its piece. It also
// ends a stream, in which it may never end, unless such lines are skipped.

struct line_file;

struct line_piece {
    struct buffer text;      // kept and reused between calls; lines begin at `first`
    size_t first;            // bytes of text before the first line of this piece
    uint64_t begin, end;     // bytes of the file's text, decompressed
    uint64_t origin;         // offset of text.data[0] in the file's text
    uint64_t block_bytes;    // of the file: see struct line_file_options
    uint64_t input_bytes;    // of the file on disk, consumed by the end of this piece
    bool too_long;           // another line follows those in text, longer than the limit
    const char *format;      // of the file: see reader_format
    struct line_file *file;  // still to be read by line_piece_fill; NULL if the text is already there
};

struct line_file_options {
    const char *path;    // "-" is standard input
    int threads;         // that may help to decompress
    bool reads_ahead;    // read a compressed file in a separate thread
    size_t piece_bytes;  // the size to aim for; a multiple of the blocks, if there are any
    // Size of the blocks of the text; a piece has all lines that begin in a block or none of them. 0: no blocks.
    uint64_t block_bytes;
    const struct table_columns *columns;  // of tables, whose rows are lines then; NULL for text as it is
    size_t line_limit;                    // longest line in bytes
    bool skips_long;                      // continue with further pieces after a line that is too long
    uint64_t begin;                       // where the first piece begins: must be the end of a piece of this file
    // Called before the text of a piece outgrows the usual size, with its new size; may wait until there is enough
    // memory. May be NULL.
    void (*charge)(void *context, struct line_piece *piece, size_t bytes);
    void *context;
};

int line_file_open(struct line_file **file, const struct line_file_options *options);
void line_file_close(struct line_file *file);  // NULL is fine; unfilled pieces keep what they need

bool line_file_is_plain(const struct line_file *file);    // cutting does not read
uint64_t line_file_memory(const struct line_file *file);  // approximate memory of the decompressor

// 1 with the next piece, 0 after the last, -1 on error.
int line_file_next(struct line_file *file, struct line_piece *piece);
int line_piece_fill(struct line_piece *piece);
void line_piece_free(struct line_piece *piece);

// ---- chunks of several files ----

// Lines from one or several files, in chunks of a few megabytes that hold whole lines of one file. One thread reads
// chunks; any thread may process them.
//
// A line ends at \n, or at the end of its file. Its length is limited. A byte order mark at the beginning of a file is
// not part of the text.

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
