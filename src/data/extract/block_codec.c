// Snappy (its format_description.txt) and LZ4 (lz4_Block_format.md): both are a sequence of literals and of copies of
// what was written before.
#include "data/extract/codec.h"
#include "data/table/thrift.h"
#include "base/error.h"
#include <stdint.h>
#include <string.h>

// Where the next bytes are read and written.
struct unpacking {
    const unsigned char *in, *in_end;
    unsigned char *begin, *out, *out_end;
};

static struct unpacking unpacking_of(const struct codec_block *block) {
    return (struct unpacking){block->in, block->in + block->in_bytes, block->out, block->out,
                              block->out + block->out_bytes};
}

static bool copy_literal(struct unpacking *u, size_t count) {
    if (count > (size_t)(u->in_end - u->in) || count > (size_t)(u->out_end - u->out))
        return false;
    // Most literals are short: a fixed number of bytes is one move, and what is too much is overwritten.
    if (count <= 16 && u->in_end - u->in >= 16 && u->out_end - u->out >= 16)
        memcpy(u->out, u->in, 16);
    else
        memcpy(u->out, u->in, count);
    u->in += count;
    u->out += count;
    return true;
}

// The copy may overlap what it writes: then it repeats its first bytes.
static bool copy_earlier(struct unpacking *u, size_t distance, size_t count) {
    if (distance == 0 || distance > (size_t)(u->out - u->begin) || count > (size_t)(u->out_end - u->out))
        return false;
    const unsigned char *from = u->out - distance;
    if (distance >= 8 && (size_t)(u->out_end - u->out) >= count + 8) {
        for (size_t i = 0; i < count; i += 8)
            memcpy(u->out + i, from + i, 8);
    } else {
        for (size_t i = 0; i < count; i++)
            u->out[i] = from[i];
    }
    u->out += count;
    return true;
}

// A number of one to four bytes, the lowest first.
static bool read_little(struct unpacking *u, size_t bytes, size_t *value) {
    if (bytes > (size_t)(u->in_end - u->in))
        return false;
    *value = 0;
    for (size_t i = 0; i < bytes; i++)
        *value |= (size_t)u->in[i] << (8 * i);
    u->in += bytes;
    return true;
}

static bool unpack_snappy(const struct codec_block *block) {
    struct unpacking u = unpacking_of(block);
    uint64_t length;
    if (!thrift_varint(&u.in, u.in_end, &length) || length != block->out_bytes)
        return false;
    while (u.in < u.in_end) {
        size_t tag = *u.in++, count = tag >> 2, distance = 0;
        bool is_whole = true;
        if ((tag & 3) == 0) {
            if (count >= 60)
                is_whole = read_little(&u, count - 59, &count);
            if (!is_whole || !copy_literal(&u, count + 1))
                return false;
            continue;
        }
        if ((tag & 3) == 1) {
            is_whole = read_little(&u, 1, &distance);
            distance |= tag >> 5 << 8;
            count = (count & 7) + 3;
        } else {
            is_whole = read_little(&u, (tag & 3) == 2 ? 2 : 4, &distance);
        }
        if (!is_whole || !copy_earlier(&u, distance, count + 1))
            return false;
    }
    return u.out == u.out_end;
}

// A length of LZ4: 15 continues with bytes, of which 255 continue.
static bool read_length(struct unpacking *u, size_t *length) {
    size_t byte = 255;
    if (*length != 15)
        return true;
    while (byte == 255) {
        if (!read_little(u, 1, &byte))
            return false;
        *length += byte;
    }
    return true;
}

static bool unpack_sequences(struct unpacking *u) {
    enum { SHORTEST_COPY = 4 };
    while (u->in < u->in_end) {
        size_t tag = *u->in++, literals = tag >> 4, count = tag & 15, distance;
        if (!read_length(u, &literals) || !copy_literal(u, literals))
            return false;
        if (u->in == u->in_end)
            break;
        if (!read_little(u, 2, &distance) || !read_length(u, &count) ||
            !copy_earlier(u, distance, count + SHORTEST_COPY))
            return false;
    }
    return true;
}

static bool unpack_lz4(const struct codec_block *block) {
    struct unpacking u = unpacking_of(block);
    return unpack_sequences(&u) && u.out == u.out_end;
}

// A frame (lz4_Frame_format.md): flags say which lengths and checksums there are, a block of 0 bytes ends it. Blocks
// may copy from those before. The checksums are xxHash's, which nothing else here needs: they are passed over.
static bool unpack_frame(const struct codec_block *block) {
    enum { HAS_DICTIONARY = 1, HAS_CHECKSUM = 4, HAS_LENGTH = 8, HAS_BLOCK_CHECKSUMS = 16, PLAIN_BIT = 31 };
    static const size_t magic = 0x184D2204;
    struct unpacking u = unpacking_of(block);
    size_t word, flags, bytes;
    if (!read_little(&u, 4, &word) || word != magic || !read_little(&u, 1, &flags) || flags >> 6 != 1)
        return false;
    const size_t left_of_header = 2 + (flags & HAS_LENGTH ? 8u : 0u) + (flags & HAS_DICTIONARY ? 4u : 0u);
    if (left_of_header > (size_t)(u.in_end - u.in))
        return false;
    u.in += left_of_header;
    while (read_little(&u, 4, &word) && word != 0) {
        struct unpacking part = u;
        bytes = word & (((size_t)1 << PLAIN_BIT) - 1);
        if (bytes > (size_t)(u.in_end - u.in))
            return false;
        part.in_end = u.in + bytes;
        if (word >> PLAIN_BIT ? !copy_literal(&part, bytes) : !unpack_sequences(&part))
            return false;
        u.in += bytes;
        u.out = part.out;
        if (flags & HAS_BLOCK_CHECKSUMS && !read_little(&u, 4, &word))
            return false;
    }
    return u.out == u.out_end;
}

static size_t read_big(const unsigned char *bytes) {
    return (size_t)bytes[0] << 24 | (size_t)bytes[1] << 16 | (size_t)bytes[2] << 8 | bytes[3];
}

// Hadoop puts the plain and the packed length before each block. Other writers of this codec left that out.
static bool unpack_hadoop(const struct codec_block *block) {
    enum { HEADER_BYTES = 8 };
    struct codec_block left = *block;
    while (left.in_bytes >= HEADER_BYTES) {
        size_t plain = read_big(left.in), packed = read_big(left.in + 4);
        const struct codec_block part = {left.in + HEADER_BYTES, packed, left.out, plain};
        if (packed > left.in_bytes - HEADER_BYTES || plain > left.out_bytes || !unpack_lz4(&part))
            return unpack_lz4(block);
        left = (struct codec_block){part.in + packed, left.in_bytes - HEADER_BYTES - packed, left.out + plain,
                                    left.out_bytes - plain};
    }
    return (left.in_bytes == 0 && left.out_bytes == 0) || unpack_lz4(block);
}

// Snappy copies up to 64 bytes with 3, LZ4 adds 255 to a length with one, deflate copies 258 with 2 bits, zstd repeats
// 128 KiB with 4 bytes and Brotli 16 MiB with a few.
const struct block_codec block_none = {.name = "none", .most_growth = 1};
const struct block_codec block_snappy = {.name = "Snappy", .most_growth = 64, .unpack = unpack_snappy};
const struct block_codec block_gzip = {.name = "gzip", .most_growth = 1032, .stream = &codec_gzip};
const struct block_codec block_brotli = {.name = "Brotli", .most_growth = 1 << 23, .stream = &codec_brotli};
const struct block_codec block_zstd = {.name = "zstd", .most_growth = 1 << 16, .stream = &codec_zstd};
const struct block_codec block_lz4 = {.name = "LZ4", .most_growth = 255, .unpack = unpack_lz4};
const struct block_codec block_lz4_frame = {.name = "LZ4", .most_growth = 255, .unpack = unpack_frame};
const struct block_codec block_lz4_hadoop = {.name = "LZ4", .most_growth = 255, .unpack = unpack_hadoop};

static int unpack_stream(const struct codec *codec, void **state, const struct codec_block *block) {
    struct codec_io io = {.in = block->in,
                          .in_bytes = block->in_bytes,
                          .in_ended = true,
                          .out = block->out,
                          .out_bytes = block->out_bytes};
    if (!*state)
        TRY(codec->open(state, 1));
    // The output may be full before the end of the compressed data was seen.
    for (;;) {
        size_t in_left = io.in_bytes, out_left = io.out_bytes;
        if (codec->step(*state, &io) < 0)
            return 0;
        if (io.between && io.in_bytes == 0)
            return io.out_bytes == 0;
        if (io.in_bytes == in_left && io.out_bytes == out_left)
            return 0;
    }
}

int block_codec_unpack(const struct block_codec *codec, void **state, const struct codec_block *block) {
    if (codec->stream)
        return unpack_stream(codec->stream, state, block);
    if (codec->unpack)
        return codec->unpack(block);
    if (block->in_bytes != block->out_bytes)
        return 0;
    memcpy(block->out, block->in, block->in_bytes);
    return 1;
}

void block_codec_close(const struct block_codec *codec, void *state) {
    if (state)
        codec->stream->close(state);
}
