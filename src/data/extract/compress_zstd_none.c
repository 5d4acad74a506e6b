// Stands in for compress_zstd.c in a build without libzstd.
#include "data/extract/codec.h"
#include "base/error.h"

static int zstd_open(void **state, int threads) {
    (void)threads;
    (void)state;
    return error_set(
        "this build cannot read zstd files; install libzstd (Debian: apt-get install libzstd-dev) and build "
        "again, or decompress the file first");
}

const struct codec codec_zstd = {.name = "zstd", .open = zstd_open};
