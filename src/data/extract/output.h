// A text file that many threads help to write: plain, or compressed if its name ends in .gz or .zst. It appears under
// its name when it is complete (base/file.h). "-" is standard output, plain.
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
// The bytes to write for these plain bytes; may be called by several threads at once.
int output_pack(const struct output *output, struct buffer *packed, struct buffer *plain);
// Called by one thread at a time, in order.
int output_write(struct output *output, const struct buffer *packed);
int output_commit(struct output *output);
void output_abort(struct output *output);  // leaves nothing; safe on a zeroed or finished one

#endif
