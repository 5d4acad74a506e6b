// Stands in for bzip2.c in a build without libbz2.
#include "data/extract/codec.h"
#include "base/error.h"

static int bzip2_open(void **state, int threads) {
    (void)threads, (void)state;
    return error_set(
        "this build cannot read bzip2 files; install libbz2 (Debian: apt-get install libbz2-dev) and build "
        "again, or decompress the file first");
}

const struct codec codec_bzip2 = {.name = "bzip2", .open = bzip2_open};
