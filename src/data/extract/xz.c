// xz with liblzma, which itself reads concatenated streams and the padding between them and checks CRC or SHA-256.
// Files of several blocks (from xz -T) are decompressed by several threads.
#include "data/extract/codec.h"
#include "base/error.h"
#include "base/memory.h"
#include <lzma.h>
#include <stdlib.h>

struct xz {
    lzma_stream stream;
    bool ended;
};

static int xz_open(void **state, int threads) {
    struct xz *xz = memory_alloc(sizeof *xz);
    xz->stream = (lzma_stream)LZMA_STREAM_INIT;
    if (!xz_decoder_init(&xz->stream, threads)) {
        free(xz);
        return error_set_code(EXIT_CODE_OUT_OF_MEMORY, "out of memory for xz decompression");
    }
    *state = xz;
    return 0;
}

static void xz_close(void *state) {
    struct xz *xz = state;
    lzma_end(&xz->stream);
    free(xz);
}

static const char *problem_of(lzma_ret status) {
    switch (status) {
    case LZMA_FORMAT_ERROR:
        return "not an xz stream";
    case LZMA_OPTIONS_ERROR:
        return "compressed with options that this liblzma does not know";
    case LZMA_MEM_ERROR:
        return "out of memory";
    default:
        return "damaged data (checksum or structure)";
    }
}

// The library confirms success only at the end of the input, so `between` is not known earlier.
static int xz_step(void *state, struct codec_io *io) {
    struct xz *xz = state;
    lzma_stream *stream = &xz->stream;
    if (!xz->ended) {
        stream->next_in = io->in;
        stream->avail_in = io->in_bytes;
        stream->next_out = io->out;
        stream->avail_out = io->out_bytes;
        lzma_ret status = lzma_code(stream, io->in_ended ? LZMA_FINISH : LZMA_RUN);
        io->in = stream->next_in;
        io->in_bytes = stream->avail_in;
        io->out = stream->next_out;
        io->out_bytes = stream->avail_out;
        xz->ended = status == LZMA_STREAM_END;
        // LZMA_BUF_ERROR only means that no progress was possible; the caller notices that, and whether the input has
        // ended.
        if (status != LZMA_OK && status != LZMA_STREAM_END && status != LZMA_BUF_ERROR) {
            io->problem = problem_of(status);
            return -1;
        }
    }
    io->between = xz->ended;
    return 0;
}

static uint64_t xz_memory(void *state) {
    struct xz *xz = state;
    return lzma_memusage(&xz->stream);
}

const struct codec codec_xz = {.name = "xz", .open = xz_open, .memory = xz_memory, .step = xz_step, .close = xz_close};
