// Stands in for compress_gzip.c in a build without zlib.
#include "data/extract/codec.h"
#include "base/error.h"

static int gzip_open(void **state, int threads) {
    (void)threads;
    (void)state;
    return error_set("this build cannot read gzip files; install zlib (Debian: apt-get install zlib1g-dev) and build "
                     "again, or decompress the file first");
}

const struct codec codec_gzip = {.name = "gzip", .open = gzip_open};
