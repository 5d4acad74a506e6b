// A file of text that many threads help to make: plain, or compressed where its name ends in .gz or .zst. It stands
// under its name when it is whole (base/file.h). "-" is standard output, plain.
#ifndef DATA_EXTRACT_OUTPUT_H
#define DATA_EXTRACT_OUTPUT_H

#include "base/file.h"

struct output {
    struct file_writer file;
    bool is_stdout;
    int (*pack)(struct buffer *out, const void *bytes, size_t count);  // NULL for plain
    uint64_t written_bytes;
};

int output_open(struct output *output, const char *path);
// What is to be written for these bytes; any thread, several at a time.
int output_pack(const struct output *output, struct buffer *packed, struct buffer *plain);
// One thread at a time, in order.
int output_write(struct output *output, const struct buffer *packed);
int output_commit(struct output *output);
void output_abort(struct output *output);  // nothing is left; safe on a zeroed or finished one

#endif
