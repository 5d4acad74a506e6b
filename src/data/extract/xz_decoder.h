// Starts decompression of xz: xz_threads.c with several threads, or its stand-in xz_threads_none.c if liblzma is older
// than 5.4 and cannot do that.
#ifndef DATA_EXTRACT_XZ_DECODER_H
#define DATA_EXTRACT_XZ_DECODER_H

#include <lzma.h>

lzma_ret xz_decoder_init(lzma_stream *stream, int threads);

#endif
