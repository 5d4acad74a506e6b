// Decompresses a zstd file of several frames (pzstd, seekable files, concatenated files) with several threads, in
// order. Frames are found by their block headers, so no seek table is needed; skippable frames are skipped. The reading
// thread decompresses a frame piece by piece if it is too large to be held in memory. There is one implementation, or
// its stand-in parallel_zstd_none.c in a build without libzstd.
#ifndef DATA_EXTRACT_PARALLEL_ZSTD_H
#define DATA_EXTRACT_PARALLEL_ZSTD_H

#include <stddef.h>
#include <stdint.h>

struct parallel_zstd;

// Opens nothing (*zstd is NULL, without an error) if threads cannot help: not a regular file, or fewer than two small
// frames at its beginning.
int parallel_zstd_open(struct parallel_zstd **zstd, int descriptor, const char *name, int threads);
void parallel_zstd_close(struct parallel_zstd *zstd);  // NULL is fine
// Like reader_read.
int64_t parallel_zstd_read(struct parallel_zstd *zstd, void *out, size_t capacity);
uint64_t parallel_zstd_input_bytes(const struct parallel_zstd *zstd);

#endif
