// A stream of plain bytes out of a file or standard input, decompressed on the way. What a file is, is told by its
// first bytes and not by its name. Data that is cut short or damaged is an error with file and byte, never a silent
// end.
#ifndef DATA_EXTRACT_READER_H
#define DATA_EXTRACT_READER_H

#include <stddef.h>
#include <stdint.h>

struct reader;

// "-" is standard input.
int reader_open(struct reader **reader, const char *path);
// The same, with the help of up to so many threads where the format allows it (bzip2, zstd of several frames,
// xz of several blocks).
int reader_open_threads(struct reader **reader, const char *path, int threads);
void reader_close(struct reader *reader);  // NULL is fine

// Up to capacity bytes into out: returns how many, 0 at the end, -1 on error.
int64_t reader_read(struct reader *reader, void *out, size_t capacity);

// Bytes taken from the file so far, compressed as they are there: for progress.
uint64_t reader_input_bytes(const struct reader *reader);
// Bytes that decompressing takes at present; 0 if that is little. It is known once something was read.
uint64_t reader_memory(const struct reader *reader);
// Called with an error that the text of a file of that format (reader_format; NULL if plain) has caused. A damaged
// compressed file gives wrong text before its checksum tells, so a file of up to 1 GiB is read to its end: if that
// fails, this is the error. A larger one, or a pipe, is said to be suspect. Always returns -1.
int reader_blame_damage(const char *path, const char *format);
const char *reader_format(const struct reader *reader);  // "plain", "gzip", …

#endif
