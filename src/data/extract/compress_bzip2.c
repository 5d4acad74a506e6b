// bzip2 with libbz2. Multistream dumps hold hundreds of streams in one file: when one ends, the next begins.
#include "data/extract/codec.h"
#include "base/error.h"
#include "base/memory.h"
#include <bzlib.h>
#include <limits.h>
#include <stdlib.h>

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

const struct codec codec_bzip2 = {.name = "bzip2", .open = bzip2_open, .step = bzip2_step, .close = bzip2_close};
