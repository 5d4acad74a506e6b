// The files of unfinished datasets: tokens, lengths and documents for every key (see text_batch.h), and one list of bad
// lines. They hold plain bytes without offsets, so results of several threads, or an early part, are joined by copying.
// Writers give the offset, and any thread may write.
#ifndef DATA_PREPROCESS_STORE_H
#define DATA_PREPROCESS_STORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum store_kind { STORE_TOKENS, STORE_LENGTHS, STORE_DOCUMENTS, STORE_KINDS };

struct store {
    char *prefix;  // of the files' paths
    int64_t keys;
    int *descriptors;        // (store_files)
    struct write_map *maps;  // (keys) of the tokens, if there are many writers; else NULL, see preprocess_store.c
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

// Path of a file of the store. The caller frees it.
char *store_path(const char *prefix, int64_t keys, int64_t file);

// Opens or creates the files. `bytes` (store_files) is the size they must have: longer files are truncated, shorter
// ones are an error.
int store_open(struct store *store, const char *prefix, int64_t keys, const uint64_t *bytes);
void store_close(struct store *store);   // safe on a zeroed or closed one
void store_remove(struct store *store);  // closes the store and deletes its files

// Lets several threads write tokens at the same time. Until store_cut the files may be longer than the data.
void store_share(struct store *store);
int store_cut(struct store *store, const uint64_t *bytes);  // truncates the files to these sizes

int store_write(const struct store *store, int64_t file, uint64_t offset, const void *bytes, size_t count);
int store_read(const struct store *store, int64_t file, uint64_t offset, void *out, size_t count);
int store_sync(const struct store *store);
// Copies the first bytes[i] bytes of file i of `from` to offset at[i] of file i of `to`.
int store_copy(const struct store *to, const uint64_t *at, const struct store *from, const uint64_t *bytes);

#endif
