// Columns of Arrow: the buffers of a batch, and the text in them.
#include "data/table/arrow.h"
#include "data/extract/codec.h"
#include "base/error.h"
#include "base/memory.h"
#include <stdlib.h>
#include <string.h>

enum { VIEW_BYTES = 16, VIEW_INLINE = 12 };

// ---- arrays ----

struct arrow_bytes {
    unsigned char *bytes;  // (count)
    size_t count;
};

// The values of a field in one batch.
struct arrow_array {
    struct arrow_node node;
    int64_t length;
    struct arrow_bytes *buffers;  // validity; offsets or views or indices; text
    int64_t buffer_count;
    int64_t at, end;  // of a list: values of the current one that are left
};

struct arrow_column {
    const struct arrow_file *file;
    const struct arrow_batch *batch;
    void *codec_state;
    const struct block_codec *codec;
    struct arrow_array *arrays;  // (array_count) of the fields from the outermost to the leaf
    int64_t array_count;
    struct arrow_array *dictionary;  // (dictionary_count) parts
    int64_t dictionary_count;
    int64_t row;
};

static const struct block_codec *const codecs[] = {&block_lz4_frame, &block_zstd};

// A compressed buffer begins with its plain length; -1 stands for bytes as they are.
static int unpack_buffer(struct arrow_column *column, const struct arrow_batch *batch, struct arrow_bytes *bytes) {
    int64_t plain;
    struct arrow_bytes packed = *bytes;
    if (packed.count < sizeof plain)
        return arrow_damaged(column->file, batch->at);
    memcpy(&plain, packed.bytes, sizeof plain);
    const struct codec_block in = {packed.bytes + sizeof plain, packed.count - sizeof plain, NULL, 0};
    if (plain == -1) {
        bytes->count = in.in_bytes;
        memmove(bytes->bytes, in.in, in.in_bytes);
        return 0;
    }
    // Arrow for Java writes the length of an empty buffer and nothing else.
    if (plain == 0) {
        bytes->count = 0;
        return 0;
    }
    if (plain < 0 || plain > INT32_MAX || (uint64_t)plain > in.in_bytes * column->codec->most_growth)
        return column_damaged(&column->file->columns, batch->body, "a buffer has more than 2 GiB, or cannot have them");
    *bytes = (struct arrow_bytes){memory_alloc((size_t)plain + 1), (size_t)plain};
    int status = block_codec_unpack(column->codec, &column->codec_state,
                                    &(struct codec_block){in.in, in.in_bytes, bytes->bytes, bytes->count});
    free(packed.bytes);
    if (status < 0)
        return error_context("%s", column->file->columns.input->name);
    return status > 0 ? 0 : column_damaged(&column->file->columns, batch->body, "a buffer cannot be decompressed");
}

static int load_buffer(struct arrow_column *column, const struct arrow_batch *batch, struct flat *flat, size_t at,
                       struct arrow_bytes *bytes) {
    uint64_t begin = flat_at(flat, at, 8), count = flat_at(flat, at + 8, 8);
    if (flat->is_bad || begin > (uint64_t)batch->body_bytes || count > (uint64_t)batch->body_bytes - begin)
        return arrow_damaged(column->file, batch->at);
    if (count == 0)
        return 0;
    *bytes = (struct arrow_bytes){memory_alloc((size_t)count), (size_t)count};
    TRY(table_read_at(column->file->columns.input, batch->body + begin, bytes->bytes, bytes->count));
    return column->codec ? unpack_buffer(column, batch, bytes) : 0;
}

// Loads the values of a field from a batch. To be freed also on error.
static int load_array(struct arrow_column *column, const struct arrow_batch *batch, const struct arrow_node *node,
                      struct arrow_array *array) {
    OWNED_BY(buffer_free) struct buffer metadata = {0};
    TRY(arrow_read_metadata(column->file, batch, &metadata));
    struct flat flat = {(const unsigned char *)metadata.data, metadata.length, false};
    uint64_t type, codec, views = 0, before = 0;
    size_t header = arrow_record_batch(&flat, &type), compression = flat_child(&flat, header, 3);
    struct flat_vector nodes = flat_vector(&flat, header, 1, 16), buffers = flat_vector(&flat, header, 2, 16);
    struct flat_vector counts = flat_vector(&flat, header, 4, 8);
    bool is_view = node->layout == LAYOUT_VIEW && node->index_width == 0;
    for (uint64_t i = 0; i < counts.count && i <= (uint64_t)node->views; i++) {
        before += i < (uint64_t)node->views ? flat_at(&flat, counts.at + 8 * (size_t)i, 8) : 0;
        views = flat_at(&flat, counts.at + 8 * (size_t)i, 8);
    }
    array->node = *node;
    array->buffer_count = node->layout == LAYOUT_TEXT && node->index_width == 0 ? 3 : 2;
    if (node->index_width == 0 && (node->layout == LAYOUT_STRUCT || node->layout == LAYOUT_FIXED_LIST))
        array->buffer_count = 1;
    array->length = (int64_t)flat_at(&flat, nodes.at + 16 * (size_t)node->number, 8);
    codec = flat_number(&flat, compression, 0, 1);
    column->codec = compression > 0 && codec < 2 ? codecs[codec] : NULL;
    views = is_view ? views : 0;
    // Lists of a fixed size, which has 31 bits, take no bytes of the file.
    if (flat.is_bad || (uint64_t)node->number >= nodes.count || array->length < 0 || array->length > INT32_MAX ||
        (node->layout == LAYOUT_FIXED_LIST && (node->list_size <= 0 || node->list_size > INT32_MAX)) || codec >= 2 ||
        before > buffers.count || views > buffers.count ||
        (uint64_t)(node->buffer + array->buffer_count) + before + views > buffers.count)
        return arrow_damaged(column->file, batch->at);
    array->buffer_count += (int64_t)views;
    array->buffers = memory_alloc((size_t)array->buffer_count * sizeof *array->buffers);
    for (int64_t i = 0; i < array->buffer_count; i++)
        TRY(load_buffer(column, batch, &flat, buffers.at + 16 * ((size_t)(node->buffer + i) + (size_t)before),
                        &array->buffers[i]));
    return 0;
}

static void free_array(struct arrow_array *array) {
    for (int64_t i = 0; array->buffers && i < array->buffer_count; i++)
        free(array->buffers[i].bytes);
    free(array->buffers);
}

// Item number `i` of a buffer of numbers; false if the buffer has no such item.
static bool item_at(const struct arrow_bytes *bytes, int64_t i, int width, int64_t *value) {
    uint64_t number = 0;
    if ((uint64_t)i >= bytes->count / (size_t)width)
        return false;
    memcpy(&number, bytes->bytes + (size_t)i * (size_t)width, (size_t)width);
    *value = (int64_t)number;
    return true;
}

static bool is_valid(const struct arrow_array *array, int64_t i) {
    const struct arrow_bytes *bits = &array->buffers[0];
    return bits->count == 0 || ((uint64_t)i / 8 < bits->count && bits->bytes[i / 8] >> i % 8 & 1);
}

// ---- text ----

static bool slice(const struct arrow_bytes *bytes, int64_t begin, int64_t end, struct column_entry *entry) {
    if (begin < 0 || end < begin || (uint64_t)end > bytes->count)
        return false;
    entry->text = bytes->count > 0 ? (const char *)bytes->bytes + begin : "";
    entry->length = (size_t)(end - begin);
    return true;
}

// A view has the length, and the text or else four bytes of it, the buffer that holds it and where it begins there.
static bool view_at(const struct arrow_array *array, int64_t i, struct column_entry *entry) {
    const struct arrow_bytes *views = &array->buffers[1];
    int32_t words[4];
    if ((uint64_t)i >= views->count / VIEW_BYTES)
        return false;
    const struct arrow_bytes view = {views->bytes + (size_t)i * VIEW_BYTES, VIEW_BYTES};
    memcpy(words, view.bytes, sizeof words);
    if (words[0] <= VIEW_INLINE)
        return slice(&view, 4, 4 + (int64_t)words[0], entry);
    return words[2] >= 0 && words[2] < array->buffer_count - 2 &&
           slice(&array->buffers[2 + words[2]], words[3], (int64_t)words[3] + words[0], entry);
}

// The text of value `i`, which may be null; false if it is not in the buffers.
static bool text_at(const struct arrow_array *array, int64_t i, struct column_entry *entry) {
    int64_t begin, end;
    if (i < 0 || i >= array->length)
        return false;
    entry->has_value = is_valid(array, i);
    if (!entry->has_value)
        return true;
    if (array->node.layout == LAYOUT_VIEW)
        return view_at(array, i, entry);
    return item_at(&array->buffers[1], i, array->node.width, &begin) &&
           item_at(&array->buffers[1], i + 1, array->node.width, &end) && slice(&array->buffers[2], begin, end, entry);
}

static bool leaf_at(const struct arrow_column *column, const struct arrow_array *array, int64_t i,
                    struct column_entry *entry) {
    int64_t index;
    if (array->node.index_width == 0)
        return text_at(array, i, entry);
    if (!is_valid(array, i))
        return true;
    if (!item_at(&array->buffers[1], i, array->node.index_width, &index) || index < 0)
        return false;
    for (int64_t part = 0; part < column->dictionary_count; index -= column->dictionary[part++].length)
        if (index < column->dictionary[part].length)
            return text_at(&column->dictionary[part], index, entry);
    return false;
}

// Begins list `i`, whose values are the array's inside.
static bool begin_list(struct arrow_array *array, int64_t i) {
    if (array->node.layout == LAYOUT_LIST)
        return item_at(&array->buffers[1], i, array->node.width, &array->at) &&
               item_at(&array->buffers[1], i + 1, array->node.width, &array->end) && array->at >= 0 &&
               array->end >= array->at;
    array->at = i * array->node.list_size;
    array->end = array->at + array->node.list_size;
    return true;
}

int arrow_column_next(void *state, struct column_entry *entry) {
    struct arrow_column *column = state;
    int64_t depth = column->array_count - 1, i;
    // The innermost list that has values left, else the next row.
    while (depth >= 0 && column->arrays[depth].at >= column->arrays[depth].end)
        depth--;
    *entry = (struct column_entry){.begins_row = depth < 0};
    if (depth < 0 && column->row >= column->batch->rows)
        return 0;
    i = depth < 0 ? column->row++ : column->arrays[depth].at++;
    for (depth++; depth < column->array_count; depth++) {
        struct arrow_array *array = &column->arrays[depth];
        array->at = array->end = 0;
        if (i >= array->length)
            return arrow_damaged(column->file, column->batch->at);
        if (depth == column->array_count - 1)
            return leaf_at(column, array, i, entry) ? 1 : arrow_damaged(column->file, column->batch->at);
        if (!is_valid(array, i))
            return 1;
        if (array->node.layout == LAYOUT_STRUCT)
            continue;
        if (!begin_list(array, i))
            return arrow_damaged(column->file, column->batch->at);
        if (array->at == array->end)
            return 1;
        i = array->at++;
    }
    return 1;
}

// ---- columns ----

// Loads a dictionary as it is before the batch: the last whole one, and what was added to it. In a file every one has
// its last state.
static int load_dictionary(struct arrow_column *column, const struct arrow_node *leaf) {
    const struct arrow_batches *all = &column->file->dictionaries;
    const uint64_t before = column->file->is_stream ? column->batch->at : UINT64_MAX;
    const struct arrow_node values = {.layout = leaf->layout, .width = leaf->width};
    int64_t begin = 0;
    for (int64_t i = 0; i < all->count && all->items[i].at < before; i++)
        if (all->items[i].dictionary == leaf->dictionary && !all->items[i].is_delta)
            begin = i;
    column->dictionary = memory_alloc((size_t)(all->count - begin + 1) * sizeof *column->dictionary);
    for (int64_t i = begin; i < all->count && all->items[i].at < before; i++)
        if (all->items[i].dictionary == leaf->dictionary)
            TRY(load_array(column, &all->items[i], &values, &column->dictionary[column->dictionary_count++]));
    return 0;
}

int arrow_column_begin(void **begun, const struct column_file *columns, int64_t group, int64_t leaf) {
    const struct arrow_file *file = (const struct arrow_file *)columns;
    const struct arrow_node *nodes = file->nodes;
    struct arrow_column *column = memory_alloc(sizeof *column);
    *begun = column;
    column->file = file;
    column->batch = &file->batches.items[group];
    for (int64_t node = file->leaves[leaf]; node >= 0; node = nodes[node].parent)
        column->array_count++;
    column->arrays = memory_alloc((size_t)column->array_count * sizeof *column->arrays);
    int64_t depth = column->array_count - 1;
    for (int64_t node = file->leaves[leaf]; node >= 0; node = nodes[node].parent)
        TRY(load_array(column, column->batch, &nodes[node], &column->arrays[depth--]));
    return nodes[file->leaves[leaf]].index_width > 0 ? load_dictionary(column, &nodes[file->leaves[leaf]]) : 0;
}

uint64_t arrow_column_position(const void *state) {
    const struct arrow_batch *batch = ((const struct arrow_column *)state)->batch;
    return batch->body + (uint64_t)batch->body_bytes;
}

void arrow_column_end(void *state) {
    struct arrow_column *column = state;
    if (!column)
        return;
    for (int64_t i = 0; i < column->array_count; i++)
        free_array(&column->arrays[i]);
    for (int64_t i = 0; i < column->dictionary_count; i++)
        free_array(&column->dictionary[i]);
    block_codec_close(&block_zstd, column->codec_state);
    free(column->arrays);
    free(column->dictionary);
    free(column);
}
