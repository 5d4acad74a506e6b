// Converts tokens between int32 and the integer types of .bin files. The bytes of a file are not aligned.
#ifndef DATA_INDEX_DTYPE_H
#define DATA_INDEX_DTYPE_H

#include "data/index/index.h"

bool index_dtype_is_integer(enum index_dtype dtype);

// Converts count tokens from file bytes. Returns the position of the first that does not fit in an int32, or count if
// all do; from that position on, out is not written.
int64_t index_decode(enum index_dtype dtype, const unsigned char *bytes, int64_t count, int32_t *out);

// Converts count tokens to count * index_dtype_bytes(dtype) file bytes. Returns the position of the first that does not
// fit in the dtype, or count if all do; if not, out is undefined.
int64_t index_encode(enum index_dtype dtype, const int32_t *tokens, int64_t count, unsigned char *out);

// Position of the first token outside [0, limit), count if there is none.
int64_t index_find_outside(const int32_t *tokens, int64_t count, int64_t limit);

#endif
