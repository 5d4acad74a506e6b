// A reader with a thread of its own: the next parts of a compressed file are decompressed while those before are worked
// on. Parts are few, which bounds memory.
#ifndef DATA_EXTRACT_READ_AHEAD_H
#define DATA_EXTRACT_READ_AHEAD_H

#include "data/extract/reader.h"

struct read_ahead;

// Takes the reader over, which nobody else may use any more. NULL if no thread can be started: the reader is the
// caller's then, as before.
struct read_ahead *read_ahead_start(struct reader *reader);
void read_ahead_close(struct read_ahead *ahead);  // closes the reader too; NULL is fine

// As the functions of a reader, for what has been handed out.
int64_t read_ahead_read(struct read_ahead *ahead, void *out, size_t capacity);
uint64_t read_ahead_input_bytes(const struct read_ahead *ahead);
uint64_t read_ahead_memory(const struct read_ahead *ahead);

#endif
