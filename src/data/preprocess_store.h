// The files of datasets in the making: for every key tokens, lengths and documents (see text_batch.h), and one list of
// bad lines. They are plain runs of bytes without places in them, so what several threads have made, or an early
// part, is put together by copying. Writers say where, and any thread may write.
#ifndef DATA_PREPROCESS_STORE_H
#define DATA_PREPROCESS_STORE_H

#include "data/preprocess_map.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum store_kind { STORE_TOKENS, STORE_LENGTHS, STORE_DOCUMENTS, STORE_KINDS };

struct store {
    char *prefix;  // of the files' paths
    int64_t keys;
    int *descriptors;        // (store_files)
    struct write_map *maps;  // (keys) of the tokens, for many writers; NULL for none
};

static inline int64_t store_files(int64_t keys) {
    return STORE_KINDS * keys + 1;
}

static inline int64_t store_file(int64_t key, enum store_kind kind) {
    return STORE_KINDS * key + (int64_t)kind;
}

static inline int64_t store_bad_lines(int64_t keys) {
    return STORE_KINDS * keys;
}

// Path of a file of the store, to be freed.
char *store_path(const char *prefix, int64_t keys, int64_t file);

// Opens or makes the files. `bytes` (store_files) is what they must hold: more is cut off, less is an error.
int store_open(struct store *store, const char *prefix, int64_t keys, const uint64_t *bytes);
void store_close(struct store *store);   // safe on a zeroed or closed one
void store_remove(struct store *store);  // closes, and the files are gone

// From now on several threads can write tokens at the same time. Until store_cut the files may be longer than what was
// written.
void store_share(struct store *store);
int store_cut(struct store *store, const uint64_t *bytes);  // the files have these lengths

int store_write(const struct store *store, int64_t file, uint64_t offset, const void *bytes, size_t count);
int store_read(const struct store *store, int64_t file, uint64_t offset, void *out, size_t count);
int store_sync(const struct store *store);
// Copies the first bytes[i] bytes of each file of `from` to byte at[i] of the same one of `to`.
int store_copy(const struct store *to, const uint64_t *at, const struct store *from, const uint64_t *bytes);

#endif
