// HMAC (RFC 2104) with SHA-256.
#include "base/hash.h"
#include <string.h>

enum { BLOCK_BYTES = 64, DIGEST_BYTES = 32 };

void hmac_sha256(const void *key, size_t key_bytes, const void *text, size_t text_bytes, unsigned char out[32]) {
    unsigned char block[BLOCK_BYTES] = {0}, inner[DIGEST_BYTES];
    struct sha256 hash;
    if (key_bytes > BLOCK_BYTES) {
        sha256_init(&hash);
        sha256_update(&hash, key, key_bytes);
        sha256_final(&hash, block);
    } else if (key_bytes > 0) {
        memcpy(block, key, key_bytes);
    }
    for (size_t i = 0; i < BLOCK_BYTES; i++)
        block[i] ^= 0x36;
    sha256_init(&hash);
    sha256_update(&hash, block, BLOCK_BYTES);
    sha256_update(&hash, text, text_bytes);
    sha256_final(&hash, inner);
    for (size_t i = 0; i < BLOCK_BYTES; i++)
        block[i] ^= 0x36 ^ 0x5C;
    sha256_init(&hash);
    sha256_update(&hash, block, BLOCK_BYTES);
    sha256_update(&hash, inner, DIGEST_BYTES);
    sha256_final(&hash, out);
    explicit_bzero(block, sizeof block);
}
