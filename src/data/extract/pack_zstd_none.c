// Stands in for pack_zstd.c in a build without libzstd.
#include "data/extract/pack.h"
#include "base/error.h"

int pack_zstd(struct buffer *out, const void *bytes, size_t count) {
    (void)out, (void)bytes, (void)count;
    return error_set(
        "this build cannot write zstd files; install libzstd (Debian: apt-get install libzstd-dev) and build "
        "again, or name an output without .zst");
}
