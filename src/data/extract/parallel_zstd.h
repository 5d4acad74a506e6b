// Decompresses a zstd file of several frames (pzstd, seekable files, files put one after another) with several threads,
// in order. Frames are found by their block headers, so no table is needed; skippable frames are passed over. A frame
// that is too large to be kept whole is decompressed piece by piece by the reading thread. One file, or its stand-in
// parallel_zstd_none.c in a build without libzstd.
#ifndef DATA_EXTRACT_PARALLEL_ZSTD_H
#define DATA_EXTRACT_PARALLEL_ZSTD_H

#include <stddef.h>
#include <stdint.h>

struct parallel_zstd;

// Opens nothing (*zstd is NULL, without an error) where threads cannot help: no regular file, or no two small frames.
int parallel_zstd_open(struct parallel_zstd **zstd, int descriptor, const char *name, int threads);
void parallel_zstd_close(struct parallel_zstd *zstd);  // NULL is fine
// As reader_read.
int64_t parallel_zstd_read(struct parallel_zstd *zstd, void *out, size_t capacity);
uint64_t parallel_zstd_input_bytes(const struct parallel_zstd *zstd);

#endif
