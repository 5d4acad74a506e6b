// Mutations that know a format: they repair what a random change breaks elsewhere (the length of a header, a checksum),
// so that the fuzzer gets past it. For custom mutators of fuzz targets.
#ifndef TESTS_FUZZ_MEND_H
#define TESTS_FUZZ_MEND_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t max_size);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned int seed);

// Changes the header of a safetensors file and corrects the length before it.
static inline size_t mend_safetensors(uint8_t *data, size_t size, size_t most) {
    uint64_t length = 0;
    if (size < sizeof length)
        return LLVMFuzzerMutate(data, size, most);
    memcpy(&length, data, sizeof length);
    if (length > size - sizeof length)
        return LLVMFuzzerMutate(data, size, most);
    static uint8_t header[1 << 16];
    size_t rest = size - sizeof length - (size_t)length, room = most - sizeof length - rest;
    if (length > sizeof header || room == 0)
        return LLVMFuzzerMutate(data, size, most);
    memcpy(header, data + sizeof length, (size_t)length);
    length = LLVMFuzzerMutate(header, (size_t)length, room < sizeof header ? room : sizeof header);
    memmove(data + sizeof length + length, data + size - rest, rest);
    memcpy(data + sizeof length, header, (size_t)length);
    memcpy(data, &length, sizeof length);
    return sizeof length + (size_t)length + rest;
}

static inline uint32_t mend_number(const uint8_t *at, size_t width) {
    uint32_t value = 0;
    memcpy(&value, at, width);
    return value;
}

// CRC-32 of the zip format, bit by bit: shares no code with the program's own.
static inline uint32_t mend_crc(const uint8_t *bytes, size_t count) {
    uint32_t crc = UINT32_MAX;
    for (size_t i = 0; i < count; i++) {
        crc ^= bytes[i];
        for (int bit = 0; bit < 8; bit++)
            crc = crc & 1 ? (crc >> 1) ^ 0xEDB88320u : crc >> 1;
    }
    return ~crc;
}

// A file of torch.save: changes its pickle without changing its length, fills the rest with STOP, and corrects its
// checksum. A file that is not such a zip archive, like the older container, is changed anywhere.
static inline size_t mend_torch(uint8_t *data, size_t size, size_t most) {
    enum { END = 22, ENTRY = 46, LOCAL = 30 };
    if (size < END || mend_number(data + size - END, 4) != 0x06054b50)
        return LLVMFuzzerMutate(data, size, most);
    size_t at = mend_number(data + size - END + 16, 4), count = mend_number(data + size - END + 10, 2);
    for (; count > 0 && at < size && size - at > ENTRY; count--) {
        size_t name = mend_number(data + at + 28, 2), bytes = mend_number(data + at + 24, 4);
        size_t local = mend_number(data + at + 42, 4), skipped = 0;
        if (local < size && size - local > LOCAL)
            skipped = local + LOCAL + mend_number(data + local + 26, 2) + mend_number(data + local + 28, 2);
        if (name >= 9 && name < size - at - ENTRY && memcmp(data + at + ENTRY + name - 9, "/data.pkl", 9) == 0 &&
            skipped > 0 && skipped < size && bytes > 0 && bytes <= size - skipped) {
            size_t used = LLVMFuzzerMutate(data + skipped, bytes, bytes);
            memset(data + skipped + used, '.', bytes - used);
            uint32_t crc = mend_crc(data + skipped, bytes);
            memcpy(data + at + 16, &crc, sizeof crc);
            return size;
        }
        at += ENTRY + name + mend_number(data + at + 30, 2) + mend_number(data + at + 32, 2);
    }
    return LLVMFuzzerMutate(data, size, most);
}

// A file of a distributed checkpoint, which is a sequence of torch.save files, each ending like a zip archive: changes
// one of them, by `choice`, without changing its length.
static inline size_t mend_distributed(uint8_t *data, size_t size, size_t most, unsigned choice) {
    enum { END = 22 };
    size_t begin = 0;
    for (size_t at = 0; at + END <= size; at++) {
        if (mend_number(data + at, 4) != 0x06054b50)
            continue;
        if (choice-- % 8 == 0) {
            size_t piece = at + END - begin, length = mend_torch(data + begin, piece, piece);
            memset(data + begin + length, 0, piece - length);
            return size;
        }
        begin = at + END;
    }
    return LLVMFuzzerMutate(data, size, most);
}

#endif
