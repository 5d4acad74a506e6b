// bzip2 with libbz2. Multistream dumps hold hundreds of streams in one file: when one ends, the next begins.
//
// With several threads the file is split into blocks that a ring of threads decodes (piece_ring.h). libbz2 decodes a
// piece as a separate stream, made of a header, the block and an end mark with the block's checksum. A piece that does
// not decode may have been cut at a false mark: it is joined with the next ones. Checksums of blocks and streams are
// verified as in libbz2.
#include "data/extract/codec.h"
#include "data/extract/bzip2_scan.h"
#include "data/extract/piece_ring.h"
#include "base/error.h"
#include "base/memory.h"
#include <bzlib.h>
#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

struct bzip2 {
    bz_stream stream;
    bool between;  // no stream is open in the library
};

static int bzip2_open(void **state, int threads) {
    (void)threads;
    struct bzip2 *bzip2 = memory_alloc(sizeof *bzip2);
    bzip2->between = true;
    *state = bzip2;
    return 0;
}

static void bzip2_close(void *state) {
    struct bzip2 *bzip2 = state;
    if (!bzip2->between)
        BZ2_bzDecompressEnd(&bzip2->stream);
    free(bzip2);
}

static unsigned clamp(size_t bytes) {
    return bytes < UINT_MAX ? (unsigned)bytes : UINT_MAX;
}

static const char *problem_of(int status) {
    switch (status) {
    case BZ_DATA_ERROR_MAGIC:
        return "not a bzip2 stream";
    case BZ_MEM_ERROR:
        return "out of memory";
    default:
        return "damaged data (checksum or structure)";
    }
}

static int bzip2_step(void *state, struct codec_io *io) {
    struct bzip2 *bzip2 = state;
    bz_stream *stream = &bzip2->stream;
    if (bzip2->between) {
        io->between = true;
        if (!io->in_bytes)
            return 0;
        *stream = (bz_stream){0};
        if (BZ2_bzDecompressInit(stream, 0, 0) != BZ_OK) {
            io->problem = "out of memory";
            return -1;
        }
        bzip2->between = false;
    }
    unsigned in = clamp(io->in_bytes), out = clamp(io->out_bytes);
    stream->next_in = (char *)io->in;  // the library does not write there
    stream->avail_in = in;
    stream->next_out = (char *)io->out;
    stream->avail_out = out;
    int status = BZ2_bzDecompress(stream);
    io->in += in - stream->avail_in;
    io->in_bytes -= in - stream->avail_in;
    io->out += out - stream->avail_out;
    io->out_bytes -= out - stream->avail_out;
    io->between = status == BZ_STREAM_END;
    if (status == BZ_STREAM_END) {
        BZ2_bzDecompressEnd(stream);
        bzip2->between = true;
    }
    if (status == BZ_OK || status == BZ_STREAM_END)
        return 0;
    io->problem = problem_of(status);
    return -1;
}

// ---- several threads ----

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

// ---- the functions of the ring ----

static int cut(void *codec, void *piece) {
    const struct parallel_bzip2 *bzip2 = codec;
    return bzip2_scan_next(bzip2->scan, piece);
}

static int decode_piece(const void *codec, void *piece, struct buffer *plain, void *scratch) {
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

static int64_t parallel_read(void *state, void *out, size_t capacity) {
    struct parallel_bzip2 *bzip2 = state;
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

static uint64_t parallel_position(const void *state) {
    return ((const struct parallel_bzip2 *)state)->position;
}

static void parallel_close(void *state) {
    struct parallel_bzip2 *bzip2 = state;
    piece_ring_close(bzip2->ring);
    bzip2_scan_free(bzip2->scan);
    buffer_free(&bzip2->packed);
    free(bzip2);
}

static int parallel_open(void **state, const struct codec_file *file) {
    struct parallel_bzip2 *bzip2 = memory_alloc(sizeof *bzip2);
    bzip2->name = file->name;
    bzip2->scan = bzip2_scan_create(file->descriptor, file->name, file->begin, file->begin_bytes);
    const struct piece_ring_options ring = {
        .functions = &block_codec,
        .codec = bzip2,
        .name = file->name,
        .threads = file->threads,
        .places = 2 * (int64_t)file->threads,
    };
    bool is_open = piece_ring_open(&bzip2->ring, &ring) == 0;
    if (!is_open)
        parallel_close(bzip2);
    *state = is_open ? bzip2 : NULL;
    return is_open ? 0 : -1;
}

static const struct codec_parallel parallel = {parallel_open, parallel_read, parallel_position, parallel_close};
const struct codec codec_bzip2 = {
    .name = "bzip2", .open = bzip2_open, .step = bzip2_step, .close = bzip2_close, .parallel = &parallel};
