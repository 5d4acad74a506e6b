// Decompresses raw deflate data (RFC 1951), as in the entries of zip archives, in one call.
#ifndef DATA_EXTRACT_INFLATE_H
#define DATA_EXTRACT_INFLATE_H

#include <stddef.h>

// Fills `to` completely. -1 if the data is damaged, has another length, or this build lacks zlib.
int inflate_bytes(const void *from, size_t from_bytes, void *to, size_t to_bytes);

#endif
