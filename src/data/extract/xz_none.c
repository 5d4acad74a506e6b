// Stands in for xz.c in a build without liblzma.
#include "data/extract/codec.h"
#include "base/error.h"

static int xz_open(void **state, int threads) {
    (void)threads, (void)state;
    return error_set("this build cannot read xz files; install liblzma (Debian: apt-get install liblzma-dev) and build "
                     "again, or decompress the file first");
}

const struct codec codec_xz = {.name = "xz", .open = xz_open};
