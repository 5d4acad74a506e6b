// The two ways of adding whole 64-byte blocks to a SHA-256 state. Private to base/ and its tests.
#ifndef BASE_SHA256_BLOCKS_H
#define BASE_SHA256_BLOCKS_H

#include "base/hash.h"
#include <stdbool.h>

extern const uint32_t sha256_constants[64];

void sha256_blocks_plain(uint32_t state[8], const unsigned char *blocks, size_t count);
// Returns false, having done nothing, if this processor has no instructions for it.
bool sha256_blocks_hardware(uint32_t state[8], const unsigned char *blocks, size_t count);

#endif
