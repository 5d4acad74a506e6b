// Stands in for inflate.c in a build without zlib.
#include "data/extract/inflate.h"
#include "base/error.h"

int inflate_bytes(const void *from, size_t from_bytes, void *to, size_t to_bytes) {
    (void)from, (void)from_bytes, (void)to, (void)to_bytes;
    return error_set("this build cannot decompress it; install zlib (Debian: apt-get install zlib1g-dev) and build "
                     "again, or unpack the archive first");
}
