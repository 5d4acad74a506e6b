// Stands in for zstd.c in a build without libzstd.
#include "data/extract/codec.h"
#include "base/error.h"

#define INSTALL "; install libzstd (Debian: apt-get install libzstd-dev) and build again, or "

static int zstd_open(void **state, int threads) {
    (void)threads, (void)state;
    return error_set("this build cannot read zstd files" INSTALL "decompress the file first");
}

const struct codec codec_zstd = {.name = "zstd", .open = zstd_open};

int pack_zstd(struct buffer *out, const void *bytes, size_t count) {
    (void)out, (void)bytes, (void)count;
    return error_set("this build cannot write zstd files" INSTALL "name an output without .zst");
}
