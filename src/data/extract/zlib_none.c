// Stands in for zlib.c in a build without zlib.
#include "data/extract/codec.h"
#include "base/error.h"

#define INSTALL "; install zlib (Debian: apt-get install zlib1g-dev) and build again, or "

static int gzip_open(void **state, int threads) {
    (void)threads, (void)state;
    return error_set("this build cannot read gzip files" INSTALL "decompress the file first");
}

const struct codec codec_gzip = {.name = "gzip", .open = gzip_open};

int pack_gzip(struct buffer *out, const void *bytes, size_t count) {
    (void)out, (void)bytes, (void)count;
    return error_set("this build cannot write gzip files" INSTALL "name an output without .gz");
}

int inflate_bytes(const void *from, size_t from_bytes, void *to, size_t to_bytes) {
    (void)from, (void)from_bytes, (void)to, (void)to_bytes;
    return error_set("this build cannot decompress it" INSTALL "unpack the archive first");
}
