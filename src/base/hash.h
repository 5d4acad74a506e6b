// SHA-256 (FIPS 180-4) for manifests, using the processor's own instructions if it has them; CRC-32; CRC-32C, plain and
// masked as TensorBoard's record files need it; MD5 (RFC 1321) for the names of Megatron's index caches; and a fast
// 64-bit mixing hash for tables in memory.
#ifndef BASE_HASH_H
#define BASE_HASH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct sha256 {
    uint32_t state[8];
    uint64_t total_bytes;
    unsigned char block[64];
    size_t block_bytes;
};

void sha256_init(struct sha256 *hash);
void sha256_update(struct sha256 *hash, const void *bytes, size_t count);
void sha256_final(struct sha256 *hash, unsigned char digest[32]);
void sha256_hex(const unsigned char digest[32], char text[65]);
int sha256_file(const char *path, char text[65]);
// HMAC (RFC 2104) of the text: only those who know the key can compute it.
void hmac_sha256(const void *key, size_t key_bytes, const void *text, size_t text_bytes, unsigned char out[32]);

// Positions in a stream at which the running digest is wanted: the first 48 bits of the SHA-256 of the stream up to
// there. If two streams agree at one position and differ at the next, they differ in the bytes between them.
struct sha256_marks {
    const uint64_t *ends;  // ascending
    uint64_t *sums;        // set as the positions are passed
    size_t count, next;    // next: how many are set
};
void sha256_update_marked(struct sha256 *hash, const void *bytes, size_t count, struct sha256_marks *marks);
int sha256_file_marked(const char *path, char text[65], struct sha256_marks *marks);

void md5_hex(const void *bytes, size_t count, char text[33]);
uint32_t crc32_ieee(const void *bytes, size_t count);  // of zip files and zlib
uint32_t crc32c(const void *bytes, size_t count);
uint32_t crc32c_masked(const void *bytes, size_t count);
uint64_t hash_bytes(const void *bytes, size_t count, uint64_t seed);

// The two ways of adding whole 64-byte blocks to a SHA-256 state. Private to base/ and its tests.
void sha256_blocks_plain(uint32_t state[8], const unsigned char *blocks, size_t count);
// Returns false, having done nothing, if this processor has no instructions for it.
bool sha256_blocks_hardware(uint32_t state[8], const unsigned char *blocks, size_t count);

#endif
