// Stands in for pack_gzip.c in a build without zlib.
#include "data/extract/pack.h"
#include "base/error.h"

int pack_gzip(struct buffer *out, const void *bytes, size_t count) {
    (void)out, (void)bytes, (void)count;
    return error_set(
        "this build cannot write gzip files; install zlib (Debian: apt-get install zlib1g-dev) and build again, "
        "or name an output without .gz");
}
