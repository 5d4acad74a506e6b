// Stands in for brotli.c in a build without libbrotlidec.
#include "data/extract/codec.h"
#include "base/error.h"

static int brotli_open(void **state, int threads) {
    (void)threads, (void)state;
    return error_set(
        "this build cannot read Brotli data; install libbrotli (Debian: apt-get install libbrotli-dev) and "
        "build again, or write the file with another codec");
}

const struct codec codec_brotli = {.name = "brotli", .open = brotli_open};
