// The two files of a dataset, PREFIX.idx and PREFIX.bin, as bytes in memory. Megatron's datasets (index.h) and
// fairseq's (fairseq_reader.h) are such pairs with different contents. This is their common part: finding the files,
// and owning the memory.
#ifndef DATA_INDEX_FILES_H
#define DATA_INDEX_FILES_H

#include "base/file.h"
#include <stdbool.h>

struct index_files {
    char *prefix;            // the dataset in messages: PREFIX.idx, PREFIX.bin
    struct file_map index;   // PREFIX.idx
    struct file_map tokens;  // PREFIX.bin
    bool is_mapped;          // we own the maps; else the caller owns the bytes
};

// -1 if one of the files does not exist; the error suggests the probable name.
int index_files_find(const char *prefix);
// Maps both files. If one does not exist, the error is that of index_files_find.
int index_files_map(struct index_files *files, const char *prefix);
// index_files_map for bytes in memory, which the caller owns and which must outlive the files.
struct index_files index_files_in_memory(const char *prefix, struct file_map index, struct file_map tokens);
// Releases the pages that were read; they are loaded again on access.
void index_files_release(const struct index_files *files);
void index_files_close(struct index_files *files);
// -1 if writing a dataset of this name would replace a file: another dataset, an .idx of another kind, or a .bin
// without an .idx, which may be anything. `how` says how a dataset is replaced on purpose.
int index_files_check_output(const char *prefix, const char *how);
#define INDEX_REMOVE_FIRST "remove its .bin, .idx and .sha256 first"

#endif
