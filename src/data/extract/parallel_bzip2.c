// Splits the file into blocks that a ring of threads decodes (piece_ring.h). libbz2 decodes a piece as a separate
// stream, made of a header, the block and an end mark with the block's checksum. A piece that does not decode may have
// been cut at a false mark: it is joined with the next ones.
#include "data/extract/parallel_bzip2.h"
#include "data/extract/bzip2_scan.h"
#include "data/extract/piece_ring.h"
#include "data/bad_data.h"
#include "base/buffer.h"
#include "base/memory.h"
#include <bzlib.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum {
    STREAM_OVERHEAD = 32,    // bytes: more than a header, an end mark and a checksum need
    FIRST_OUTPUT = 1 << 20,  // bytes: a block of level 9 has 900,000
    MOST_JOINS = 3,          // pieces that are joined to one that does not decode
};

struct parallel_bzip2 {
    struct bzip2_scan *scan;
    const char *name;
    struct piece_ring *ring;
    // Used by the reading thread only:
    uint32_t checksum;  // of the blocks of the current stream
    uint64_t position;
    struct buffer packed;
};

// ---- one block ----

static void put_bits(unsigned char *bytes, size_t *bit, uint64_t value, int count) {
    while (count-- > 0) {
        unsigned char mask = (unsigned char)(0x80 >> *bit % 8);
        if (value >> count & 1)
            bytes[*bit / 8] |= mask;
        else
            bytes[*bit / 8] &= (unsigned char)~mask;
        ++*bit;
    }
}

// The block as a stream of one block.
static void make_stream(struct buffer *packed, const struct bzip2_piece *piece) {
    size_t bytes = (piece->bits + 7) / 8;
    buffer_clear(packed);
    buffer_reserve(packed, bytes + STREAM_OVERHEAD);
    memset(packed->data + bytes, 0, STREAM_OVERHEAD);
    memcpy(packed->data, "BZh9", 4);
    memcpy(packed->data + 4, piece->bytes, bytes);
    size_t bit = 32 + piece->bits;
    put_bits((unsigned char *)packed->data, &bit, BZIP2_END_MARK, BZIP2_MARK_BITS);
    put_bits((unsigned char *)packed->data, &bit, bzip2_block_checksum(piece->bytes), BZIP2_CHECKSUM_BITS);
    packed->length = (bit + 7) / 8;
}

// False if libbz2 refuses it.
static bool decode(struct buffer *plain, struct buffer *packed, const struct bzip2_piece *piece) {
    if (piece->bits < BZIP2_MARK_BITS + BZIP2_CHECKSUM_BITS)
        return false;
    make_stream(packed, piece);
    buffer_clear(plain);
    bz_stream stream = {.next_in = packed->data, .avail_in = (unsigned)packed->length};
    if (BZ2_bzDecompressInit(&stream, 0, 0) != BZ_OK)
        return false;
    int status = BZ_OK;
    while (status == BZ_OK) {
        buffer_reserve(plain, FIRST_OUTPUT);
        size_t room = plain->capacity - plain->length - 1;
        stream.next_out = plain->data + plain->length;
        stream.avail_out = (unsigned)room;
        status = BZ2_bzDecompress(&stream);
        plain->length += room - stream.avail_out;
        // It asks for more than a whole stream.
        if (status == BZ_OK && stream.avail_out == room && stream.avail_in == 0)
            status = BZ_UNEXPECTED_EOF;
    }
    BZ2_bzDecompressEnd(&stream);
    // A stream that ends inside the piece is not the piece's own: the rest of the piece would be lost silently.
    return status == BZ_STREAM_END && stream.avail_in == 0;
}

// ---- the codec of the ring ----

static int cut(void *codec, void *piece) {
    const struct parallel_bzip2 *bzip2 = codec;
    return bzip2_scan_next(bzip2->scan, piece);
}

static int decode_piece(const void *codec, const void *piece, struct buffer *plain, void *scratch) {
    (void)codec;
    return decode(plain, scratch, piece);
}

static void free_piece(void *piece) {
    free(((struct bzip2_piece *)piece)->bytes);
}

static void *create_scratch(void) {
    return memory_alloc(sizeof(struct buffer));
}

static void free_scratch(void *scratch) {
    buffer_free(scratch);
    free(scratch);
}

static const struct piece_codec block_codec = {
    .piece_bytes = sizeof(struct bzip2_piece),
    .cut = cut,
    .decode = decode_piece,
    .free_piece = free_piece,
    .create_scratch = create_scratch,
    .free_scratch = free_scratch,
};

// ---- the reading thread ----

static int damaged(const struct parallel_bzip2 *bzip2, uint64_t position) {
    return bad_data("%s: bzip2 data is damaged near byte %" PRIu64
                    ": damaged data (checksum or structure); copy or download the file again",
                    bzip2->name, position);
}

// Joins the oldest piece with those after it until it decodes; the last of them gets the result.
static int join_pieces(struct parallel_bzip2 *bzip2, struct piece_place **oldest) {
    struct bzip2_piece *piece = (*oldest)->piece;
    struct bzip2_piece joined = {0};
    bzip2_piece_join(&joined, piece);
    uint64_t position = piece->position;
    bool is_decoded = false;
    int status = 1;
    for (int i = 0; i < MOST_JOINS && !is_decoded && !joined.ends_stream; i++) {
        piece_ring_release(bzip2->ring);
        status = piece_ring_wait(bzip2->ring, oldest);
        if (status <= 0)
            break;
        piece = (*oldest)->piece;
        bzip2_piece_join(&joined, piece);
        is_decoded = decode(&(*oldest)->plain, &bzip2->packed, &joined);
    }
    if (is_decoded) {
        free(piece->bytes);
        *piece = joined;
        (*oldest)->is_decoded = true;
        return 0;
    }
    free(joined.bytes);
    return status < 0 ? -1 : damaged(bzip2, position);
}

// Completes the oldest place's result and adds its checksum.
static int begin_block(struct parallel_bzip2 *bzip2, struct piece_place *oldest) {
    if (!oldest->is_decoded)
        TRY(join_pieces(bzip2, &oldest));
    const struct bzip2_piece *piece = oldest->piece;
    bzip2->checksum = (bzip2->checksum << 1 | bzip2->checksum >> 31) ^ bzip2_block_checksum(piece->bytes);
    if (piece->ends_stream) {
        if (bzip2->checksum != piece->stream_checksum)
            return damaged(bzip2, piece->position_after);
        bzip2->checksum = 0;
    }
    bzip2->position = piece->position_after;
    return 0;
}

int64_t parallel_bzip2_read(struct parallel_bzip2 *bzip2, void *out, size_t capacity) {
    for (;;) {
        struct piece_place *oldest;
        int status = piece_ring_wait(bzip2->ring, &oldest);
        if (status <= 0)
            return status;
        if (oldest->used == 0)
            TRY(begin_block(bzip2, oldest));
        size_t done = piece_ring_read(bzip2->ring, out, capacity);
        if (done > 0)
            return (int64_t)done;
    }
}

uint64_t parallel_bzip2_input_bytes(const struct parallel_bzip2 *bzip2) {
    return bzip2->position;
}

// ---- beginning and end ----

int parallel_bzip2_open(struct parallel_bzip2 **opened, const struct parallel_bzip2_options *options) {
    struct parallel_bzip2 *bzip2 = memory_alloc(sizeof *bzip2);
    bzip2->name = options->name;
    bzip2->scan = bzip2_scan_create(options->descriptor, options->name, options->begin, options->begin_bytes);
    const struct piece_ring_options ring = {
        .functions = &block_codec,
        .codec = bzip2,
        .name = options->name,
        .threads = options->threads,
        .places = 2 * (int64_t)options->threads,
    };
    *opened = bzip2;
    if (piece_ring_open(&bzip2->ring, &ring) == 0)
        return 0;
    parallel_bzip2_close(bzip2);
    *opened = NULL;
    return -1;
}

void parallel_bzip2_close(struct parallel_bzip2 *bzip2) {
    if (!bzip2)
        return;
    piece_ring_close(bzip2->ring);
    bzip2_scan_free(bzip2->scan);
    buffer_free(&bzip2->packed);
    free(bzip2);
}
