// liblzma's own threads. Each holds a whole block, so memory limits their number too; a file with a single block or
// larger ones is decompressed as if by one thread.
#include "data/extract/xz_decoder.h"

static const uint64_t threading_limit_bytes = (uint64_t)384 << 20;

lzma_ret xz_decoder_init(lzma_stream *stream, int threads) {
    if (threads < 2)
        return lzma_stream_decoder(stream, UINT64_MAX, LZMA_CONCATENATED);
    lzma_mt options = {
        .flags = LZMA_CONCATENATED,
        .threads = (uint32_t)threads,
        .memlimit_threading = threading_limit_bytes,
        .memlimit_stop = UINT64_MAX,
    };
    return lzma_stream_decoder_mt(stream, &options);
}
