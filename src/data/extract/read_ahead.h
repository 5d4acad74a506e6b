// A reader with a thread of its own: it decompresses the next parts of a file while the caller works on earlier ones.
// The small number of parts bounds memory.
#ifndef DATA_EXTRACT_READ_AHEAD_H
#define DATA_EXTRACT_READ_AHEAD_H

#include "data/extract/reader.h"

struct read_ahead;

// Takes over the reader, which the caller must not use afterwards. NULL if no thread can be started: then the caller
// keeps the reader.
struct read_ahead *read_ahead_start(struct reader *reader);
void read_ahead_close(struct read_ahead *ahead);  // closes the reader too; NULL is fine

// Like the functions of a reader, for the delivered bytes.
int64_t read_ahead_read(struct read_ahead *ahead, void *out, size_t capacity);
uint64_t read_ahead_input_bytes(const struct read_ahead *ahead);
uint64_t read_ahead_memory(const struct read_ahead *ahead);

#endif
