// Stands in for xz_threads.c if liblzma cannot decompress with several threads.
#include "data/extract/xz_decoder.h"

lzma_ret xz_decoder_init(lzma_stream *stream, int threads) {
    (void)threads;
    return lzma_stream_decoder(stream, UINT64_MAX, LZMA_CONCATENATED);
}
