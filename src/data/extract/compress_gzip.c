// gzip (RFC 1952) with zlib. Members follow each other; zeros after the last one are padding, as tapes add it.
#include "data/extract/codec.h"
#include "base/error.h"
#include "base/memory.h"
#include <limits.h>
#include <stdlib.h>
#include <zlib.h>

struct gzip {
    z_stream stream;
    bool between;
};

enum { GZIP_ONLY = 15 + 16 };  // the largest window; refuse zlib's own header

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

static unsigned clamp(size_t bytes) {
    return bytes < UINT_MAX ? (unsigned)bytes : UINT_MAX;
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
