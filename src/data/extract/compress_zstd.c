// Zstandard with libzstd, which skips skippable frames itself. Windows up to 2 GiB are accepted, since archives made
// with `zstd --long=31` need them.
#include "data/extract/codec.h"
#include "base/error.h"
#include <zstd.h>

enum { LARGEST_WINDOW_LOG = 31 };

static int zstd_open(void **state, int threads) {
    (void)threads;
    ZSTD_DCtx *context = ZSTD_createDCtx();
    if (!context || ZSTD_isError(ZSTD_DCtx_setParameter(context, ZSTD_d_windowLogMax, LARGEST_WINDOW_LOG))) {
        ZSTD_freeDCtx(context);
        return error_set_code(EXIT_CODE_OUT_OF_MEMORY, "out of memory for zstd decompression");
    }
    *state = context;
    return 0;
}

static void zstd_close(void *state) {
    ZSTD_freeDCtx(state);
}

static int zstd_step(void *state, struct codec_io *io) {
    ZSTD_inBuffer in = {io->in, io->in_bytes, 0};
    ZSTD_outBuffer out = {io->out, io->out_bytes, 0};
    size_t status = ZSTD_decompressStream(state, &out, &in);
    io->in += in.pos;
    io->in_bytes -= in.pos;
    io->out += out.pos;
    io->out_bytes -= out.pos;
    io->between = status == 0;  // the current frame is complete and fully written out
    if (ZSTD_isError(status)) {
        io->problem = ZSTD_getErrorName(status);
        return -1;
    }
    return 0;
}

static uint64_t zstd_memory(void *state) {
    return ZSTD_sizeof_DCtx(state);
}

const struct codec codec_zstd = {
    .name = "zstd", .open = zstd_open, .memory = zstd_memory, .step = zstd_step, .close = zstd_close};
