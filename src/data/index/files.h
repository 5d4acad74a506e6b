// The two files of a dataset, PREFIX.idx and PREFIX.bin, as bytes in memory. Megatron's datasets (index.h) and
// fairseq's (fairseq_reader.h) are such pairs with different contents; what they have in common is here: finding the
// files, and who owns the memory.
#ifndef DATA_INDEX_FILES_H
#define DATA_INDEX_FILES_H

#include "base/file.h"
#include <stdbool.h>

struct index_files {
    char *prefix;            // what errors call the dataset: PREFIX.idx, PREFIX.bin
    struct file_map index;   // PREFIX.idx
    struct file_map tokens;  // PREFIX.bin
    bool is_mapped;          // the maps are our own; otherwise the bytes are the caller's
};

// Maps both files. If one does not exist, the error suggests the dataset that was probably meant.
int index_files_map(struct index_files *files, const char *prefix);
// The same over bytes in memory, which remain the caller's and must live as long as the files are used.
struct index_files index_files_in_memory(const char *prefix, struct file_map index, struct file_map tokens);
// Drops the pages that were read; they come back from disk when they are touched.
void index_files_release(const struct index_files *files);
void index_files_close(struct index_files *files);
// -1 if writing a dataset of this name would replace files that are not one: an .idx of another kind, or a .bin without
// an .idx, which may be anything.
int index_files_check_output(const char *prefix);

#endif
