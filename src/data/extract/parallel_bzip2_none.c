// Stands in for parallel_bzip2.c in a build without libbz2; never called there.
#include "data/extract/parallel_bzip2.h"
#include "base/error.h"

int parallel_bzip2_open(struct parallel_bzip2 **bzip2, const struct parallel_bzip2_options *options) {
    *bzip2 = NULL;
    return error_set(
        "%s: this build cannot read bzip2 files; install libbz2 (Debian: apt-get install libbz2-dev) and build "
        "again",
        options->name);
}

void parallel_bzip2_close(struct parallel_bzip2 *bzip2) {
    (void)bzip2;
}

int64_t parallel_bzip2_read(struct parallel_bzip2 *bzip2, void *out, size_t capacity) {
    (void)bzip2, (void)out, (void)capacity;
    return -1;
}

uint64_t parallel_bzip2_input_bytes(const struct parallel_bzip2 *bzip2) {
    (void)bzip2;
    return 0;
}
