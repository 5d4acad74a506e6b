// Compresses one piece of output into a separate gzip member or zstd frame. Many threads can pack pieces, and every
// reader of these formats takes the concatenated pieces as one file. There is one file per format, or its stand-in
// pack_gzip_none.c if the library was missing at build time.
#ifndef DATA_EXTRACT_PACK_H
#define DATA_EXTRACT_PACK_H

#include "base/buffer.h"

// Appends the packed bytes to `out`. Safe to call from several threads at once.
int pack_gzip(struct buffer *out, const void *bytes, size_t count);
int pack_zstd(struct buffer *out, const void *bytes, size_t count);

#endif
