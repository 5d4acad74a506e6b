// Decompresses a bzip2 file with several threads, block by block, in order. Checksums of blocks and streams are
// verified as in libbz2. There is one implementation, or its stand-in parallel_bzip2_none.c in a build without libbz2.
#ifndef DATA_EXTRACT_PARALLEL_BZIP2_H
#define DATA_EXTRACT_PARALLEL_BZIP2_H

#include <stddef.h>
#include <stdint.h>

struct parallel_bzip2;

struct parallel_bzip2_options {
    int descriptor;     // the caller closes it
    const char *name;   // for messages; must outlive the reader
    const void *begin;  // (begin_bytes) of the file, already read
    size_t begin_bytes;
    int threads;
};

int parallel_bzip2_open(struct parallel_bzip2 **bzip2, const struct parallel_bzip2_options *options);
void parallel_bzip2_close(struct parallel_bzip2 *bzip2);  // NULL is fine
// Like reader_read.
int64_t parallel_bzip2_read(struct parallel_bzip2 *bzip2, void *out, size_t capacity);
uint64_t parallel_bzip2_input_bytes(const struct parallel_bzip2 *bzip2);

#endif
