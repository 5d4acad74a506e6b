// Brotli (RFC 7932) with libbrotlidec, in the pages of Parquet files. It has no magic number, so no files of it are
// recognized.
#include "data/extract/codec.h"
#include "base/error.h"
#include "base/memory.h"
#include <brotli/decode.h>
#include <stdlib.h>

struct brotli {
    BrotliDecoderState *decoder;  // NULL between two streams
};

static int brotli_open(void **state, int threads) {
    (void)threads;
    *state = memory_alloc(sizeof(struct brotli));
    return 0;
}

static void end_stream(struct brotli *brotli) {
    BrotliDecoderDestroyInstance(brotli->decoder);
    brotli->decoder = NULL;
}

static void brotli_close(void *state) {
    end_stream(state);
    free(state);
}

static int brotli_step(void *state, struct codec_io *io) {
    struct brotli *brotli = state;
    if (!brotli->decoder)
        brotli->decoder = BrotliDecoderCreateInstance(NULL, NULL, NULL);
    if (!brotli->decoder) {
        io->problem = "out of memory";
        return -1;
    }
    BrotliDecoderResult result =
        BrotliDecoderDecompressStream(brotli->decoder, &io->in_bytes, &io->in, &io->out_bytes, &io->out, NULL);
    io->between = result == BROTLI_DECODER_RESULT_SUCCESS;
    if (result == BROTLI_DECODER_RESULT_ERROR)
        io->problem = BrotliDecoderErrorString(BrotliDecoderGetErrorCode(brotli->decoder));
    if (io->between || result == BROTLI_DECODER_RESULT_ERROR)
        end_stream(brotli);
    return result == BROTLI_DECODER_RESULT_ERROR ? -1 : 0;
}

const struct codec codec_brotli = {.name = "brotli", .open = brotli_open, .step = brotli_step, .close = brotli_close};
