// gzip (RFC 1952) and raw deflate with zlib, whose counts have 32 bits. Members of a gzip file follow each other; zeros
// after the last one are padding, as tapes add it.
#include "data/extract/codec.h"
#include "base/error.h"
#include "base/memory.h"
#include <limits.h>
#include <stdlib.h>
#include <zlib.h>

// The largest window: refuse zlib's own header; no header and no checksum.
enum { GZIP_ONLY = 15 + 16, RAW = -15, MEMORY_LEVEL = 8 };

static unsigned clamp(size_t bytes) {
    return bytes < UINT_MAX ? (unsigned)bytes : UINT_MAX;
}

struct gzip {
    z_stream stream;
    bool between;
};

static int gzip_open(void **state, int threads) {
    (void)threads;
    struct gzip *gzip = memory_alloc(sizeof *gzip);
    if (inflateInit2(&gzip->stream, GZIP_ONLY) != Z_OK) {
        free(gzip);
        return error_set_code(EXIT_CODE_OUT_OF_MEMORY, "out of memory for gzip decompression");
    }
    gzip->between = true;
    *state = gzip;
    return 0;
}

static void gzip_close(void *state) {
    struct gzip *gzip = state;
    inflateEnd(&gzip->stream);
    free(gzip);
}

static int gzip_step(void *state, struct codec_io *io) {
    struct gzip *gzip = state;
    if (gzip->between) {
        while (io->in_bytes && *io->in == 0) {
            io->in++;
            io->in_bytes--;
        }
        io->between = true;
        if (!io->in_bytes)
            return 0;
        inflateReset(&gzip->stream);
        gzip->between = false;
    }
    z_stream *stream = &gzip->stream;
    stream->next_in = (Bytef *)io->in;  // zlib does not write there
    stream->avail_in = clamp(io->in_bytes);
    stream->next_out = io->out;
    stream->avail_out = clamp(io->out_bytes);
    int status = inflate(stream, Z_NO_FLUSH);
    io->in_bytes -= (size_t)(stream->next_in - io->in);
    io->in = stream->next_in;
    io->out_bytes -= (size_t)(stream->next_out - io->out);
    io->out = stream->next_out;
    gzip->between = io->between = status == Z_STREAM_END;
    if (status == Z_OK || status == Z_STREAM_END || status == Z_BUF_ERROR)
        return 0;
    io->problem = stream->msg ? stream->msg : "damaged data";
    return -1;
}

const struct codec codec_gzip = {.name = "gzip", .open = gzip_open, .step = gzip_step, .close = gzip_close};

int pack_gzip(struct buffer *out, const void *bytes, size_t count) {
    z_stream stream = {0};
    if (count > UINT_MAX / 2)
        return error_set("cannot compress %zu bytes as one gzip member; write .zst or plain output", count);
    if (deflateInit2(&stream, Z_DEFAULT_COMPRESSION, Z_DEFLATED, GZIP_ONLY, MEMORY_LEVEL, Z_DEFAULT_STRATEGY) != Z_OK)
        return error_set_code(EXIT_CODE_OUT_OF_MEMORY, "out of memory for gzip compression");
    size_t bound = deflateBound(&stream, (uLong)count);
    buffer_reserve(out, bound);
    stream.next_in = (Bytef *)bytes;  // zlib does not write there
    stream.avail_in = (uInt)count;
    stream.next_out = (Bytef *)out->data + out->length;
    stream.avail_out = (uInt)bound;
    int status = deflate(&stream, Z_FINISH);
    out->length += bound - stream.avail_out;
    out->data[out->length] = '\0';
    deflateEnd(&stream);
    return status == Z_STREAM_END ? 0 : error_set("gzip compression failed: code %d", status);
}

int inflate_bytes(const void *from, size_t from_bytes, void *to, size_t to_bytes) {
    z_stream stream = {0};
    const unsigned char *in = from;
    unsigned char *out = to, none;
    size_t left = to_bytes;
    int status = Z_OK;
    if (inflateInit2(&stream, RAW) != Z_OK)
        return error_set_code(EXIT_CODE_OUT_OF_MEMORY, "out of memory for decompression");
    while (status == Z_OK) {
        unsigned taken = clamp(from_bytes), room = clamp(left);
        stream.next_in = (Bytef *)in;  // zlib does not write there
        stream.avail_in = taken;
        // The end marker may follow when the output is already full.
        stream.next_out = left > 0 ? out : &none;
        stream.avail_out = left > 0 ? room : 1;
        unsigned offered = stream.avail_out;
        status = inflate(&stream, Z_NO_FLUSH);
        in += taken - stream.avail_in;
        from_bytes -= taken - stream.avail_in;
        unsigned made = offered - stream.avail_out;
        if (made > left || (status == Z_OK && made == 0 && taken == stream.avail_in))
            status = Z_DATA_ERROR;
        else {
            out += made;
            left -= made;
        }
    }
    inflateEnd(&stream);
    if (status != Z_STREAM_END || left > 0 || from_bytes > 0)
        return error_set("its compressed bytes are damaged");
    return 0;
}
