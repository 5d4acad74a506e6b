// For tests of datasets: a scratch folder, files in it, and small datasets made from lengths. Token j of such a .bin is
// (7919 j + 13) mod 50000, as in tests/golden/make_gpt_samples.py.
#ifndef TESTS_DATA_FIXTURE_H
#define TESTS_DATA_FIXTURE_H

#include "base/file.h"
#include "base/memory.h"
#include "data/index/index.h"
#include "test.h"
#include <dirent.h>
#include <unistd.h>

static char scratch[64];

static inline const char *scratch_open(void) {
    snprintf(scratch, sizeof scratch, "/tmp/bevatron-test-XXXXXX");
    if (!mkdtemp(scratch))
        test_fail("cannot make a scratch folder");
    return scratch;
}

static inline void scratch_close(void) {
    file_remove_tree(scratch);
}

// Path of a file in the scratch folder; valid until the eighth call after it.
static inline const char *scratch_path(const char *name) {
    static char paths[8][256];
    static int next;
    char *path = paths[next++ % 8];
    snprintf(path, sizeof paths[0], "%s/%s", scratch, name);
    return path;
}

static inline int64_t scratch_entries(void) {
    DIR *folder = opendir(scratch);
    int64_t count = 0;
    for (struct dirent *entry; (entry = readdir(folder));)
        count += strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0;
    closedir(folder);
    return count;
}

static inline void write_bytes(const char *path, const void *bytes, size_t count) {
    EXPECT_OK(file_write_all(path, bytes, count));
}

static inline struct buffer read_bytes(const char *path) {
    struct buffer bytes = {0};
    EXPECT_OK(file_read_all(path, (size_t)1 << 30, &bytes));
    return bytes;
}

// Makes the index claim that its first sequence has `length` tokens.
static inline void claim_length(const char *prefix, int32_t length) {
    char *path = memory_printf("%s.idx", prefix);
    struct buffer index = read_bytes(path);
    memcpy(index.data + INDEX_HEADER_BYTES, &length, sizeof length);
    write_bytes(path, index.data, index.length);
    buffer_free(&index);
    free(path);
}

static inline int32_t fixture_token(int64_t j) {
    return (int32_t)((7919 * j + 13) % 50000);
}

// A dataset with these sequence lengths, one document each. The writer would drop a sequence of length 0, so such
// datasets are written by hand.
static inline void make_dataset(const char *prefix, const int64_t *lengths, int64_t count) {
    struct buffer index = {0}, tokens = {0};
    uint64_t version = 1, sequences = (uint64_t)count, boundaries = sequences + 1;
    buffer_append(&index, "MMIDIDX\0", 9);
    buffer_append(&index, &version, 8);
    buffer_append_byte(&index, INDEX_U16);
    buffer_append(&index, &sequences, 8);
    buffer_append(&index, &boundaries, 8);
    int64_t total = 0;
    for (int64_t i = 0; i < count; i++) {
        int32_t length = (int32_t)lengths[i];
        buffer_append(&index, &length, 4);
    }
    for (int64_t i = 0; i < count; i++) {
        int64_t pointer = 2 * total;
        buffer_append(&index, &pointer, 8);
        total += lengths[i];
    }
    for (int64_t i = 0; i <= count; i++)
        buffer_append(&index, &i, 8);
    for (int64_t j = 0; j < total; j++) {
        uint16_t token = (uint16_t)fixture_token(j);
        buffer_append(&tokens, &token, 2);
    }
    char *index_path = memory_printf("%s.idx", prefix), *tokens_path = memory_printf("%s.bin", prefix);
    write_bytes(index_path, index.data, index.length);
    write_bytes(tokens_path, buffer_string(&tokens), tokens.length);
    free(index_path);
    free(tokens_path);
    buffer_free(&index);
    buffer_free(&tokens);
}

#endif
