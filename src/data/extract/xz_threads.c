// liblzma's own threads. Each holds a whole block, so memory limits their number too; a file with a single block or
// larger ones is decompressed as if by one thread.
#include "data/extract/codec.h"
#include <lzma.h>

static const uint64_t threading_limit_bytes = (uint64_t)384 << 20;

bool xz_decoder_init(void *lzma_stream, int threads) {
    if (threads < 2)
        return lzma_stream_decoder(lzma_stream, UINT64_MAX, LZMA_CONCATENATED) == LZMA_OK;
    lzma_mt options = {
        .flags = LZMA_CONCATENATED,
        .threads = (uint32_t)threads,
        .memlimit_threading = threading_limit_bytes,
        .memlimit_stop = UINT64_MAX,
    };
    return lzma_stream_decoder_mt(lzma_stream, &options) == LZMA_OK;
}
