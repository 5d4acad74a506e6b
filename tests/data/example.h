// The worked example of the .bin/.idx format as bytes, and readers over bytes.
#ifndef TESTS_DATA_EXAMPLE_H
#define TESTS_DATA_EXAMPLE_H

#include "base/error.h"
#include "data/index/index.h"

// Documents [5, 6, 7, 99], [], [8, 9, 99] as uint16.
static const unsigned char example_bin[] = {5, 0, 6, 0, 7, 0, 99, 0, 8, 0, 9, 0, 99, 0};
static const unsigned char example_idx[90] = {
    'M', 'M', 'I', 'D', 'I', 'D', 'X', 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 8, 2, 0, 0, 0, 0, 0, 0, 0, 4, 0, 0, 0,
    0,   0,   0,   0,   4,   0,   0,   0, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 8, 0, 0, 0, 0, 0, 0, 0, 0, 0,
    0,   0,   0,   0,   0,   0,   1,   0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0};

static inline int open_bytes(struct index_reader **r, const unsigned char *idx, size_t idx_bytes,
                             const unsigned char *bin, size_t bin_bytes) {
    return index_open_bytes(r, "example", (struct file_map){idx, idx_bytes}, (struct file_map){bin, bin_bytes});
}

// Opens and checks everything.
static inline int open_and_verify(const unsigned char *idx, size_t idx_bytes, const unsigned char *bin,
                                  size_t bin_bytes) {
    struct index_reader *r;
    TRY(open_bytes(&r, idx, idx_bytes, bin, bin_bytes));
    int result = index_verify_tokens(r, 0);
    index_close(r);
    return result;
}

#endif
