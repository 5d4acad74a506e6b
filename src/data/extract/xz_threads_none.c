// Stands in for xz_threads.c if liblzma cannot decompress with several threads.
#include "data/extract/codec.h"
#include <lzma.h>

bool xz_decoder_init(void *lzma_stream, int threads) {
    (void)threads;
    return lzma_stream_decoder(lzma_stream, UINT64_MAX, LZMA_CONCATENATED) == LZMA_OK;
}
