// Finds the messages of a stream or file, and walks over the schema.
#include "data/table/arrow.h"
#include "base/error.h"
#include "base/memory.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { MAGIC_BYTES = 8, TAIL_BYTES = 10, MOST_DEPTH = 32, MOST_METADATA_BYTES = 1 << 28 };

// ---- flatbuffers ----

uint64_t flat_at(struct flat *flat, size_t at, size_t bytes) {
    uint64_t value = 0;
    if (at > flat->size || bytes > flat->size - at)
        flat->is_bad = true;
    else
        memcpy(&value, flat->bytes + at, bytes);
    return value;
}

static size_t follow(struct flat *flat, size_t at) {
    return at + (size_t)flat_at(flat, at, 4);
}

static size_t field_at(struct flat *flat, size_t table, size_t field) {
    size_t fields = table - (size_t)(int32_t)flat_at(flat, table, 4), place = 4 + 2 * field;
    bool is_there = table > 0 && place + 2 <= flat_at(flat, fields, 2);
    size_t offset = is_there ? (size_t)flat_at(flat, fields + place, 2) : 0;
    return offset > 0 ? table + offset : 0;
}

uint64_t flat_number(struct flat *flat, size_t table, size_t field, size_t bytes) {
    size_t at = field_at(flat, table, field);
    return at > 0 ? flat_at(flat, at, bytes) : 0;
}

// A table, or the number of items of a vector: they come after it.
size_t flat_child(struct flat *flat, size_t table, size_t field) {
    size_t at = field_at(flat, table, field);
    return at > 0 ? follow(flat, at) : 0;
}

struct flat_vector flat_vector(struct flat *flat, size_t table, size_t field, size_t item_bytes) {
    size_t at = flat_child(flat, table, field);
    uint64_t count = at > 0 ? flat_at(flat, at, 4) : 0;
    if (flat->is_bad || count * item_bytes > flat->size - at - 4)
        flat->is_bad = true;
    return (struct flat_vector){at + 4, flat->is_bad ? 0 : count};
}

// ---- types ----

enum { TYPE_UNION = 14, TYPE_MAP = 17, VERSION_4 = 3 };

static const struct arrow_type {
    enum arrow_layout layout;
    int buffers;
    int width;  // of offsets
} types[] = {
    [1] = {LAYOUT_OTHER, 0, 0},                                        // null
    [2] = {LAYOUT_OTHER, 2, 0},                                        // int
    [3] = {LAYOUT_OTHER, 2, 0},                                        // floating point
    [4] = {LAYOUT_TEXT, 3, 4},                                         // binary
    [5] = {LAYOUT_TEXT, 3, 4},                                         // utf8
    [6] = {LAYOUT_OTHER, 2, 0},                                        // bool
    [7] = {LAYOUT_OTHER, 2, 0},                                        // decimal
    [8] = {LAYOUT_OTHER, 2, 0},                                        // date
    [9] = {LAYOUT_OTHER, 2, 0},                                        // time
    [10] = {LAYOUT_OTHER, 2, 0},                                       // timestamp
    [11] = {LAYOUT_OTHER, 2, 0},                                       // interval
    [12] = {LAYOUT_LIST, 2, 4},                                        // list
    [13] = {LAYOUT_STRUCT, 1, 0},                                      // struct
    [TYPE_UNION] = {LAYOUT_OTHER, 1, 0}, [15] = {LAYOUT_OTHER, 2, 0},  // fixed-size binary
    [16] = {LAYOUT_FIXED_LIST, 1, 0},    [TYPE_MAP] = {LAYOUT_LIST, 2, 4}, [18] = {LAYOUT_OTHER, 2, 0},  // duration
    [19] = {LAYOUT_TEXT, 3, 8},                                                                          // large binary
    [20] = {LAYOUT_TEXT, 3, 8},                                                                          // large utf8
    [21] = {LAYOUT_LIST, 2, 8},                                                                          // large list
    [22] = {LAYOUT_OTHER, 0, 0},  // run-end encoded
    [23] = {LAYOUT_VIEW, 2, 0},   // binary view
    [24] = {LAYOUT_VIEW, 2, 0},   // utf8 view
    [25] = {LAYOUT_OTHER, 3, 0},  // list view
    [26] = {LAYOUT_OTHER, 3, 0},  // large list view
};

int arrow_damaged(const struct arrow_file *file, uint64_t at) {
    return column_damaged(&file->columns, at, "a message is damaged");
}

// ---- the schema ----

struct arrow_walk {
    struct arrow_file *file;
    struct flat *flat;
    uint64_t left;  // fields that the bytes may have: a hostile schema names one table many times
    int depth;
};

// What the fields above say about one.
struct arrow_place {
    int64_t parent;
    bool is_inner, is_list;
    bool is_hidden;  // what is above it cannot be read
};

static int walk_fields(struct arrow_walk *walk, struct flat_vector fields, struct arrow_place place);

static void read_dictionary(struct flat *flat, size_t field, struct arrow_node *node) {
    size_t dictionary = flat_child(flat, field, 4), type = flat_child(flat, dictionary, 1);
    if (dictionary == 0)
        return;
    node->dictionary = (int64_t)flat_number(flat, dictionary, 0, 8);
    node->index_width = type > 0 ? (int)flat_number(flat, type, 0, 4) / 8 : 4;
    if (node->index_width != 1 && node->index_width != 2 && node->index_width != 4 && node->index_width != 8)
        flat->is_bad = true;
}

// Counts the buffers of a field in a batch.
static void count_buffers(struct arrow_file *file, struct flat *flat, const struct arrow_node *node, size_t field) {
    uint64_t type = flat_number(flat, field, 2, 1);
    bool is_dense = type == TYPE_UNION && flat_number(flat, flat_child(flat, field, 3), 0, 2) == 1;
    bool has_validity = type == TYPE_UNION && file->version <= VERSION_4;
    file->buffer_count += node->index_width > 0 ? 2 : types[type].buffers + is_dense + has_validity;
    file->view_count += node->index_width == 0 && node->layout == LAYOUT_VIEW;
}

static int add_leaf(struct arrow_file *file, bool is_text, bool is_list) {
    MEMORY_GROW(file->leaves, file->columns.leaf_count, file->leaf_capacity);
    file->leaves[file->columns.leaf_count] = file->node_count - 1;
    return column_add(&file->columns, is_text, is_list);
}

static int walk_field(struct arrow_walk *walk, size_t field, struct arrow_place place) {
    struct arrow_file *file = walk->file;
    struct flat *flat = walk->flat;
    uint64_t type = flat_number(flat, field, 2, 1);
    size_t name = flat_child(flat, field, 0);
    struct flat_vector letters = flat_vector(flat, field, 0, 1), children = flat_vector(flat, field, 5, 4);
    if (type == 0 || type >= sizeof types / sizeof types[0] || walk->left-- == 0 || walk->depth > MOST_DEPTH)
        flat->is_bad = true;
    if (flat->is_bad)
        return 0;
    const bool has_size = types[type].layout == LAYOUT_FIXED_LIST;
    struct arrow_node node = {.layout = types[type].layout,
                              .width = types[type].width,
                              .parent = place.parent,
                              .number = file->node_count,
                              .buffer = file->buffer_count,
                              .views = file->view_count,
                              .list_size = has_size ? (int64_t)flat_number(flat, flat_child(flat, field, 3), 0, 4) : 0};
    read_dictionary(flat, field, &node);
    count_buffers(file, flat, &node, field);
    MEMORY_GROW(file->nodes, file->node_count, file->node_capacity);
    file->nodes[file->node_count++] = node;
    const struct column_mark mark = column_enter(&file->columns, name > 0 ? (const char *)flat->bytes + letters.at : "",
                                                 (size_t)letters.count, place.is_inner);
    bool is_text = node.layout == LAYOUT_TEXT || node.layout == LAYOUT_VIEW;
    bool is_list = node.layout == LAYOUT_LIST || node.layout == LAYOUT_FIXED_LIST;
    const struct arrow_place inner = {.parent = node.number,
                                      .is_inner = is_list,
                                      .is_list = place.is_list || is_list,
                                      .is_hidden = place.is_hidden || node.layout == LAYOUT_OTHER};
    walk->depth++;
    int status = 0;
    // The children of a dictionary are in its own batches.
    if (children.count > 0 && node.index_width == 0)
        status = walk_fields(walk, children, inner);
    else
        status = add_leaf(file, is_text && !place.is_hidden, place.is_list);
    walk->depth--;
    column_leave(&file->columns, mark);
    return status;
}

static int walk_fields(struct arrow_walk *walk, struct flat_vector fields, struct arrow_place place) {
    for (uint64_t i = 0; i < fields.count && !walk->flat->is_bad; i++)
        TRY(walk_field(walk, follow(walk->flat, fields.at + 4 * (size_t)i), place));
    return 0;
}

static int read_schema(struct arrow_file *file, struct flat *flat, size_t header) {
    struct arrow_walk walk = {.file = file, .flat = flat, .left = flat->size / 4};
    if (flat_number(flat, header, 0, 2) == 1)
        return bad_data("%s has big-endian numbers; write it again on a little-endian machine",
                        file->columns.input->name);
    file->has_schema = true;
    return walk_fields(&walk, flat_vector(flat, header, 1, 4), (struct arrow_place){.parent = -1});
}

// ---- messages ----

enum { HEADER_SCHEMA = 1, HEADER_DICTIONARY = 2, HEADER_BATCH = 3 };

int arrow_read_metadata(const struct arrow_file *file, const struct arrow_batch *message, struct buffer *metadata) {
    buffer_clear(metadata);
    buffer_reserve(metadata, message->metadata_bytes);
    TRY(table_read_at(file->columns.input, message->at, metadata->data, message->metadata_bytes));
    metadata->length = message->metadata_bytes;
    return 0;
}

size_t arrow_record_batch(struct flat *flat, uint64_t *header_type) {
    size_t message = follow(flat, 0), header = flat_child(flat, message, 2);
    *header_type = flat_number(flat, message, 1, 1);
    return *header_type == HEADER_DICTIONARY ? flat_child(flat, header, 1) : header;
}

static int take_message(struct arrow_file *file, struct arrow_batch *message) {
    TRY(arrow_read_metadata(file, message, &file->metadata));
    struct flat flat = {(const unsigned char *)file->metadata.data, file->metadata.length, false};
    size_t root = follow(&flat, 0), header = flat_child(&flat, root, 2);
    uint64_t type;
    size_t batch = arrow_record_batch(&flat, &type);
    message->body_bytes = (int64_t)flat_number(&flat, root, 3, 8);
    if (type == HEADER_SCHEMA && !file->has_schema) {
        file->version = (int)flat_number(&flat, root, 0, 2);
        TRY(read_schema(file, &flat, header));
    }
    if (type == HEADER_DICTIONARY) {
        message->dictionary = (int64_t)flat_number(&flat, header, 0, 8);
        message->is_delta = flat_number(&flat, header, 2, 1);
    }
    message->rows = type == HEADER_SCHEMA ? 0 : (int64_t)flat_number(&flat, batch, 0, 8);
    bool is_good = !flat.is_bad && file->has_schema && message->rows >= 0 && message->body_bytes >= 0;
    if (!is_good || (uint64_t)message->body_bytes > file->columns.data_end - message->body)
        return arrow_damaged(file, message->at);
    if (type != HEADER_BATCH && type != HEADER_DICTIONARY)
        return 0;
    struct arrow_batches *batches = type == HEADER_BATCH ? &file->batches : &file->dictionaries;
    MEMORY_GROW(batches->items, batches->count, batches->capacity);
    batches->items[batches->count++] = *message;
    return 0;
}

// Reads the length of the message at `at`: 1, 0 at the end of the stream. Before Arrow 0.15 no mark came before it.
static int begin_message(const struct arrow_file *file, uint64_t at, struct arrow_batch *message) {
    const struct column_file *columns = &file->columns;
    uint32_t words[2] = {0};
    uint64_t left = at < columns->data_end ? columns->data_end - at : 0;
    *message = (struct arrow_batch){.at = at};
    if (left == 0)
        return 0;
    TRY(table_read_at(columns->input, at, words, left < sizeof words ? (size_t)left : sizeof words));
    bool is_marked = words[0] == UINT32_MAX;
    *message = (struct arrow_batch){.at = at + (is_marked ? 8 : 4), .metadata_bytes = words[is_marked]};
    message->body = message->at + message->metadata_bytes;
    if (message->metadata_bytes > MOST_METADATA_BYTES || message->body > columns->data_end)
        return column_damaged(columns, at, "it ends inside a message");
    return message->metadata_bytes > 0;
}

static int read_stream(struct arrow_file *file) {
    struct arrow_batch message;
    uint64_t at = 0;
    int status;
    while ((status = begin_message(file, at, &message)) > 0) {
        TRY(take_message(file, &message));
        at = message.body + (uint64_t)message.body_bytes;
    }
    if (status == 0 && message.at < file->columns.data_end)
        return column_damaged(&file->columns, message.at, "bytes follow the end of its stream");
    return status;
}

// The footer has the schema and where the messages of a file are. Not every writer puts a whole stream before it.
static int read_footer(struct arrow_file *file, struct flat *flat) {
    enum { BLOCK_BYTES = 24 };
    struct column_file *columns = &file->columns;
    size_t root = follow(flat, 0);
    file->version = (int)flat_number(flat, root, 0, 2);
    TRY(read_schema(file, flat, flat_child(flat, root, 1)));
    for (size_t field = 2; field <= 3; field++) {
        struct flat_vector blocks = flat_vector(flat, root, field, BLOCK_BYTES);
        for (uint64_t i = 0; i < blocks.count; i++) {
            struct arrow_batch message;
            uint64_t at = flat_at(flat, blocks.at + BLOCK_BYTES * (size_t)i, 8);
            int status = begin_message(file, at, &message);
            TRY(status);
            TRY(status > 0 ? take_message(file, &message) : arrow_damaged(file, at));
        }
    }
    return flat->is_bad ? column_damaged(columns, columns->data_end, "its footer is damaged") : 0;
}

static int read_file(struct arrow_file *file) {
    struct column_file *columns = &file->columns;
    const struct table_input *input = columns->input;
    char tail[TAIL_BYTES] = {0};
    uint32_t bytes;
    if (input->size >= MAGIC_BYTES + TAIL_BYTES)
        TRY(table_read_at(input, input->size - TAIL_BYTES, tail, TAIL_BYTES));
    memcpy(&bytes, tail, sizeof bytes);
    if (memcmp(tail + 4, "ARROW1", 6) != 0 || bytes > input->size - MAGIC_BYTES - TAIL_BYTES)
        return column_damaged(columns, input->size, "it does not end with ARROW1, so its end is missing");
    columns->data_end = input->size - TAIL_BYTES - bytes;
    OWNED_BY(buffer_free) struct buffer footer = {0};
    TRY(arrow_read_metadata(file, &(struct arrow_batch){.at = columns->data_end, .metadata_bytes = bytes}, &footer));
    return read_footer(file, &(struct flat){(const unsigned char *)footer.data, footer.length, false});
}

static int arrow_open(struct column_file *columns) {
    struct arrow_file *file = (struct arrow_file *)columns;
    char magic[MAGIC_BYTES] = {0};
    columns->data_end = columns->input->size;
    TRY(table_read_at(columns->input, 0, magic,
                      columns->data_end < MAGIC_BYTES ? (size_t)columns->data_end : MAGIC_BYTES));
    file->is_stream = memcmp(magic, "ARROW1\0", MAGIC_BYTES) != 0;
    TRY(file->is_stream ? read_stream(file) : read_file(file));
    columns->group_count = file->batches.count;
    return file->has_schema ? 0 : column_damaged(columns, columns->data_end, "it has no schema");
}

static void arrow_close(struct column_file *columns) {
    struct arrow_file *file = (struct arrow_file *)columns;
    free(file->nodes);
    free(file->leaves);
    free(file->batches.items);
    free(file->dictionaries.items);
    buffer_free(&file->metadata);
}

static struct column_group arrow_group(const struct column_file *columns, int64_t group, int64_t leaf) {
    const struct arrow_batch *batch = &((const struct arrow_file *)columns)->batches.items[group];
    (void)leaf;
    return (struct column_group){batch->rows, batch->at, (uint64_t)batch->body_bytes};
}

// ---- the format ----

const struct column_format column_arrow = {.name = "Arrow",
                                           .file_bytes = sizeof(struct arrow_file),
                                           .open = arrow_open,
                                           .close = arrow_close,
                                           .group = arrow_group,
                                           .begin = arrow_column_begin,
                                           .next = arrow_column_next,
                                           .position = arrow_column_position,
                                           .end = arrow_column_end};
