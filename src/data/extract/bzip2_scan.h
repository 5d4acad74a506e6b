// Cuts a bzip2 file into its blocks without decoding it, so that they can be decoded side by side. A stream is "BZh1"
// to "BZh9", blocks that each begin with a 48-bit mark at any bit, an end mark with a checksum over the blocks, and
// zero bits up to a byte; files are one stream or several. A mark may also stand inside a block by chance (once in 2^48
// places): who decodes finds such a piece incomplete and joins it to the next one.
#ifndef DATA_EXTRACT_BZIP2_SCAN_H
#define DATA_EXTRACT_BZIP2_SCAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// What a block and the end of a stream begin with (the digits of pi, and of its root); a checksum follows each.
#define BZIP2_BLOCK_MARK UINT64_C(0x314159265359)
#define BZIP2_END_MARK UINT64_C(0x177245385090)
enum { BZIP2_MARK_BITS = 48, BZIP2_CHECKSUM_BITS = 32 };

// No block is longer than this, compressed: 900,000 symbols of 20 bits and its tables.
enum { BZIP2_LONGEST_BLOCK = 3 << 20 };

// The bits of one block, from its mark to the next.
struct bzip2_piece {
    unsigned char *bytes;  // kept and reused between calls
    size_t capacity;
    size_t bits;       // from the first bit of bytes on
    bool ends_stream;  // an end mark follows, with:
    uint32_t stream_checksum;
    uint64_t position;        // byte of the file where it begins, for messages
    uint64_t position_after;  // and where it ends
};

struct bzip2_scan;

// begin (begin_bytes) are the first bytes of the file, read already; the rest comes from the descriptor, which stays
// the caller's. `name` is for messages and must stay.
struct bzip2_scan *bzip2_scan_create(int descriptor, const char *name, const void *begin, size_t begin_bytes);
void bzip2_scan_free(struct bzip2_scan *scan);
// 1 with the next piece, 0 at a proper end of the file, -1 on error.
int bzip2_scan_next(struct bzip2_scan *scan, struct bzip2_piece *piece);

// Appends the bits of b to a.
void bzip2_piece_join(struct bzip2_piece *a, const struct bzip2_piece *b);
// `count` bits, at most 56, from any bit on.
uint64_t bzip2_bits(const unsigned char *bytes, size_t bit, size_t count);
// The checksum of the block that `bytes` begin with.
static inline uint32_t bzip2_block_checksum(const unsigned char *bytes) {
    return (uint32_t)bzip2_bits(bytes, BZIP2_MARK_BITS, BZIP2_CHECKSUM_BITS);
}

#endif
