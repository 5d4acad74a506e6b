// A fast hash for tables in memory: eight bytes at a time through a 64 x 64 -> 128 bit multiplication whose halves are
// folded together. It is not for files: it may change between versions of the program.
#include "base/hash.h"

#include <string.h>

static const uint64_t odd_1 = 0x9E3779B97F4A7C15u, odd_2 = 0xD6E8FEB86659FD93u, odd_3 = 0xC2B2AE3D27D4EB4Fu;

static inline uint64_t fold(uint64_t a, uint64_t b) {
    unsigned __int128 product = (unsigned __int128)a * b;
    return (uint64_t)product ^ (uint64_t)(product >> 64);
}

static inline uint64_t load(const unsigned char *at, size_t count) {
    uint64_t word = 0;
    memcpy(&word, at, count);
    return word;
}

uint64_t hash_bytes(const void *bytes, size_t count, uint64_t seed) {
    const unsigned char *at = bytes;
    uint64_t state = seed ^ odd_1;
    size_t left = count;
    for (; left > 16; left -= 16, at += 16)
        state = fold(load(at, 8) ^ odd_2, load(at + 8, 8) ^ state);
    uint64_t low, high;
    if (left >= 8) {
        low = load(at, 8);
        high = load(at + left - 8, 8);
    } else if (left >= 4) {
        low = load(at, 4);
        high = load(at + left - 4, 4);
    } else if (left > 0) {
        low = (uint64_t)at[0] << 16 | (uint64_t)at[left / 2] << 8 | at[left - 1];
        high = 0;
    } else {
        low = high = 0;
    }
    state = fold(low ^ odd_2, high ^ state);
    return fold(state ^ odd_3, (uint64_t)count ^ odd_1);
}
