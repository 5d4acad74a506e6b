// Compresses one piece of output into a gzip member or a zstd frame of its own: pieces can be packed by many threads
// and written one after another, and every reader of these formats takes them as one file. One file per format, or its
// stand-in pack_gzip_none.c where the library was missing at build time.
#ifndef DATA_EXTRACT_PACK_H
#define DATA_EXTRACT_PACK_H

#include "base/buffer.h"

// Appends the packed bytes to out. Safe to call from several threads at once.
int pack_gzip(struct buffer *out, const void *bytes, size_t count);
int pack_zstd(struct buffer *out, const void *bytes, size_t count);

#endif
