// Tokens between int32 and the integer types that a .bin file may hold. The bytes of a file need no alignment.
#ifndef DATA_INDEX_DTYPE_H
#define DATA_INDEX_DTYPE_H

#include "data/index/index.h"

bool index_dtype_is_integer(enum index_dtype dtype);

// Converts count tokens from file bytes. Returns the position of the first that no int32 can hold, count where all are
// well; from there on, out is not written.
int64_t index_decode(enum index_dtype dtype, const unsigned char *bytes, int64_t count, int32_t *out);

// Converts count tokens to file bytes, count * index_dtype_bytes(dtype) of them. Returns the position of the first
// that the dtype cannot hold, count where all are well; where not, out is undefined.
int64_t index_encode(enum index_dtype dtype, const int32_t *tokens, int64_t count, unsigned char *out);

// Position of the first token outside [0, limit), count if there is none.
int64_t index_find_outside(const int32_t *tokens, int64_t count, int64_t limit);

#endif
