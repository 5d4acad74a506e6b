// Splits a bzip2 file into its blocks without decoding it, so that they can be decoded in parallel. A stream is "BZh1"
// to "BZh9", blocks that each begin with a 48-bit mark at any bit, an end mark with a checksum over the blocks, and
// zero bits up to a byte; a file has one stream or several. The bits of a mark may also occur inside a block by chance
// (once in 2^48 places): the decoder finds such a piece incomplete and joins it with the next one.
#ifndef DATA_EXTRACT_BZIP2_SCAN_H
#define DATA_EXTRACT_BZIP2_SCAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// The marks of a block and of the end of a stream (the digits of pi and of its square root); a checksum follows each.
#define BZIP2_BLOCK_MARK UINT64_C(0x314159265359)
#define BZIP2_END_MARK UINT64_C(0x177245385090)
enum { BZIP2_MARK_BITS = 48, BZIP2_CHECKSUM_BITS = 32 };

// The longest compressed block: 900,000 symbols of 20 bits, and tables.
enum { BZIP2_LONGEST_BLOCK = 3 << 20 };

// The bits of one block, from its mark to the next.
struct bzip2_piece {
    unsigned char *bytes;  // kept and reused between calls
    size_t capacity;
    size_t bits;       // from the first bit of `bytes` on
    bool ends_stream;  // an end mark follows, with:
    uint32_t stream_checksum;
    uint64_t position;        // byte of the file where it begins, for messages
    uint64_t position_after;  // and where it ends
};

struct bzip2_scan;

// begin (begin_bytes) are the first bytes of the file, already read; the rest is read from the descriptor, which the
// caller closes. `name` is for messages and must outlive the scan.
struct bzip2_scan *bzip2_scan_create(int descriptor, const char *name, const void *begin, size_t begin_bytes);
void bzip2_scan_free(struct bzip2_scan *scan);
// 1 with the next piece, 0 at a proper end of the file, -1 on error.
int bzip2_scan_next(struct bzip2_scan *scan, struct bzip2_piece *piece);

// Appends the bits of b to a.
void bzip2_piece_join(struct bzip2_piece *a, const struct bzip2_piece *b);
// `count` bits, at most 56, starting at any bit.
uint64_t bzip2_bits(const unsigned char *bytes, size_t bit, size_t count);
// The checksum of the block at the start of `bytes`.
static inline uint32_t bzip2_block_checksum(const unsigned char *bytes) {
    return (uint32_t)bzip2_bits(bytes, BZIP2_MARK_BITS, BZIP2_CHECKSUM_BITS);
}

#endif
