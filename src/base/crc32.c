// CRC-32 of zip, zlib and Ethernet (reflected 0xEDB88320), eight bytes at a time.
#include "base/hash.h"

static uint32_t get_little(const unsigned char *bytes) {
    return (uint32_t)bytes[0] | (uint32_t)bytes[1] << 8 | (uint32_t)bytes[2] << 16 | (uint32_t)bytes[3] << 24;
}

uint32_t crc32_ieee(const void *data, size_t count) {
    enum { SLICES = 8 };
    const unsigned char *bytes = data;
    uint32_t table[SLICES][256];
    for (uint32_t i = 0; i < 256; i++) {
        uint32_t value = i;
        for (int bit = 0; bit < 8; bit++)
            value = value & 1 ? (value >> 1) ^ 0xEDB88320u : value >> 1;
        table[0][i] = value;
    }
    for (int slice = 1; slice < SLICES; slice++)
        for (int i = 0; i < 256; i++)
            table[slice][i] = (table[slice - 1][i] >> 8) ^ table[0][table[slice - 1][i] & 255];
    uint32_t crc = UINT32_MAX;
    for (; count >= SLICES; count -= SLICES, bytes += SLICES) {
        uint32_t low = get_little(bytes) ^ crc, high = get_little(bytes + 4);
        crc = table[7][low & 255] ^ table[6][low >> 8 & 255] ^ table[5][low >> 16 & 255] ^ table[4][low >> 24] ^
              table[3][high & 255] ^ table[2][high >> 8 & 255] ^ table[1][high >> 16 & 255] ^ table[0][high >> 24];
    }
    for (; count > 0; count--, bytes++)
        crc = (crc >> 8) ^ table[0][(crc ^ *bytes) & 255];
    return ~crc;
}
