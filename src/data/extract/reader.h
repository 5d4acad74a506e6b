// A stream of plain bytes from a file, an object in S3, a web address or standard input, decompressed on the way. The
// first bytes of a file decide its format, not its name (CSV, which could be any text, is told by its name). Truncated
// or damaged data is an error with file and byte, never a silent end.
#ifndef DATA_EXTRACT_READER_H
#define DATA_EXTRACT_READER_H

#include "data/table/table.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct reader;

// "-" is standard input; s3:// and https:// are streamed (net/remote.h).
int reader_open(struct reader **reader, const char *path);
// reader_open with up to `threads` threads if the format allows it (bzip2, or several frames of zstd or blocks of
// xz).
int reader_open_threads(struct reader **reader, const char *path, int threads);
// reader_open_threads that reads tables, too: their rows as JSON Lines with these columns (table/table.h). With no
// columns it opens a table, which then is empty.
int reader_open_columns(struct reader **reader, const char *path, int threads, const struct table_columns *columns);
void reader_close(struct reader *reader);  // NULL is fine

// Reads up to capacity bytes into out: returns how many, 0 at the end, -1 on error.
int64_t reader_read(struct reader *reader, void *out, size_t capacity);

// Before the first read: skips to byte `offset` without reading the bytes before it. 1, 0 if this input must be read
// through instead (compressed, a file, a pipe), -1 on error.
int reader_seek(struct reader *reader, uint64_t offset);

// Reads on in a thread of its own: it decompresses the next parts of a file while the caller works on earlier ones.
// The small number of parts bounds memory. Does nothing if no thread can be started.
void reader_read_ahead(struct reader *reader);

// Bytes read from the file so far, as stored there (compressed): for progress.
uint64_t reader_input_bytes(const struct reader *reader);
// Bytes that the decompressor uses now; 0 if few. Known after the first read.
uint64_t reader_memory(const struct reader *reader);
// Called with an error that was caused by the text of a file in that format (reader_format; NULL if plain). A damaged
// compressed file yields wrong text before its checksum fails, so a file of up to 1 GiB is read to its end: if that
// fails, its error replaces this one. For a larger file or a pipe the error says that it may be damaged. Always
// returns -1.
int reader_blame_damage(const char *path, const char *format);
const char *reader_format(const struct reader *reader);  // "plain", "gzip", … or "Parquet"
bool reader_is_table(const struct reader *reader);       // known after the first read

#endif
