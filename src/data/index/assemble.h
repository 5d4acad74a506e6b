// The parts of an .idx file, written from lists on disk that are too long for memory. Shared by all code that makes
// datasets.
#ifndef DATA_INDEX_ASSEMBLE_H
#define DATA_INDEX_ASSEMBLE_H

#include "data/index/index.h"

// A list of numbers on disk.
struct index_list {
    int (*read)(void *context, uint64_t offset, void *out, size_t count);  // count bytes from a byte offset in the list
    void *context;
    int64_t count;  // of numbers
};

int index_write_header(struct file_writer *index, enum index_dtype dtype, int64_t sequences, int64_t boundaries);
// Copies count numbers of item_bytes each.
int index_write_list(struct file_writer *index, const struct index_list *list, size_t item_bytes);
// The byte offset of each sequence, from the lengths (int32); *end is the offset after the last.
int index_write_pointers(struct file_writer *index, const struct index_list *lengths, size_t token_bytes, int64_t *end);
// Document boundaries, from the number of sequences per document (int32): 0, then one entry per document; *end is the
// last.
int index_write_boundaries(struct file_writer *index, const struct index_list *documents, int64_t *end);

#endif
