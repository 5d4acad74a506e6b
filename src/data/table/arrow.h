// Arrow's IPC format (Feather V2, Hugging Face's .arrow): messages, each with metadata as a flatbuffer and a body of
// buffers. The first has the schema; then come record batches, which are the groups, and dictionaries. A file is such a
// stream between magic numbers and a footer that says where its messages are.
//
// Text is read from strings and binaries of every layout, also in dictionaries, structs, lists and maps. All bytes are
// hostile: each number is read with its bounds, and each value's place is compared with its buffer.
#ifndef DATA_TABLE_ARROW_H
#define DATA_TABLE_ARROW_H

#include "base/buffer.h"
#include "data/table/columns.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// ---- flatbuffers ----

// A table begins with the distance to its list of fields, which says where in the table each field is. A position of 0
// stands for what is absent: no table or vector can be there.
struct flat {
    const unsigned char *bytes;  // (size)
    size_t size;
    bool is_bad;
};

struct flat_vector {
    size_t at;
    uint64_t count;
};

// A number of so many bytes, anywhere; in a field of a table, 0 if it is absent.
uint64_t flat_at(struct flat *flat, size_t at, size_t bytes);
uint64_t flat_number(struct flat *flat, size_t table, size_t field, size_t bytes);
size_t flat_child(struct flat *flat, size_t table, size_t field);
struct flat_vector flat_vector(struct flat *flat, size_t table, size_t field, size_t item_bytes);

// ---- the file ----

enum arrow_layout { LAYOUT_OTHER, LAYOUT_TEXT, LAYOUT_VIEW, LAYOUT_STRUCT, LAYOUT_LIST, LAYOUT_FIXED_LIST };

// A field of the schema: where its values are in each record batch.
struct arrow_node {
    enum arrow_layout layout;
    int width;
    int64_t parent;                 // node; -1 for none
    int64_t number, buffer, views;  // of nodes and buffers, and of fields with views, before it in the batch
    int64_t list_size;              // of a fixed-size list
    int index_width;                // of a dictionary's indices; 0: the values are in the batch
    int64_t dictionary;
};

struct arrow_batch {
    uint64_t at, body;  // bytes of the file where the metadata and the body begin
    size_t metadata_bytes;
    int64_t rows, body_bytes;
    int64_t dictionary;  // that it belongs to
    bool is_delta;
};

struct arrow_batches {
    struct arrow_batch *items;
    int64_t count, capacity;
};

struct arrow_file {
    struct column_file columns;
    bool is_stream, has_schema;
    int version;
    struct arrow_node *nodes;
    int64_t node_count, node_capacity;
    int64_t *leaves;  // nodes, by leaf
    int64_t leaf_capacity;
    int64_t buffer_count, view_count;            // in a batch
    struct arrow_batches batches, dictionaries;  // in the order of the file
    struct buffer metadata;                      // of the message that is read
};

// Sets the error of a message that is damaged at that byte; returns -1.
int arrow_damaged(const struct arrow_file *file, uint64_t at);
int arrow_read_metadata(const struct arrow_file *file, const struct arrow_batch *message, struct buffer *metadata);
// The record batch of a message, itself or in a dictionary.
size_t arrow_record_batch(struct flat *flat, uint64_t *header_type);

// The functions of the format that read columns (arrow_column.c).
int arrow_column_begin(void **column, const struct column_file *columns, int64_t group, int64_t leaf);
int arrow_column_next(void *column, struct column_entry *entry);
uint64_t arrow_column_position(const void *column);
void arrow_column_end(void *column);

#endif
