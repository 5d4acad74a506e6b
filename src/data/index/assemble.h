// The pieces of an .idx file, written from lists that are kept elsewhere because they are too long for memory. Shared
// by those who make datasets.
#ifndef DATA_INDEX_ASSEMBLE_H
#define DATA_INDEX_ASSEMBLE_H

#include "data/index/index.h"

// A list of numbers on disk.
struct index_list {
    int (*read)(void *context, uint64_t offset, void *out, size_t count);  // count bytes at a byte of the list
    void *context;
    int64_t count;  // of numbers
};

int index_write_header(struct file_writer *index, enum index_dtype dtype, int64_t sequences, int64_t boundaries);
// Copies count numbers of item_bytes each.
int index_write_list(struct file_writer *index, const struct index_list *list, size_t item_bytes);
// The place of each sequence, from their lengths (int32); *end is the place behind the last.
int index_write_pointers(struct file_writer *index, const struct index_list *lengths, size_t token_bytes, int64_t *end);
// Document boundaries, from the numbers of their sequences (int32): 0 and one more for each; *end is the last.
int index_write_boundaries(struct file_writer *index, const struct index_list *documents, int64_t *end);

#endif
