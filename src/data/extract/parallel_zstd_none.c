// Stands in for parallel_zstd.c in a build without libzstd; never called there.
#include "data/extract/parallel_zstd.h"

int parallel_zstd_open(struct parallel_zstd **zstd, int descriptor, const char *name, int threads) {
    (void)descriptor, (void)name, (void)threads;
    *zstd = NULL;
    return 0;
}

void parallel_zstd_close(struct parallel_zstd *zstd) {
    (void)zstd;
}

int64_t parallel_zstd_read(struct parallel_zstd *zstd, void *out, size_t capacity) {
    (void)zstd, (void)out, (void)capacity;
    return -1;
}

uint64_t parallel_zstd_input_bytes(const struct parallel_zstd *zstd) {
    (void)zstd;
    return 0;
}
