// Reads the footer, and walks over the schema.
#include "data/table/parquet.h"
#include "base/error.h"
#include "base/memory.h"
#include <inttypes.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

enum { MAGIC_BYTES = 4, TAIL_BYTES = 8, MOST_DEPTH = 32 };
enum { REPETITION_OPTIONAL = 1, REPETITION_REPEATED = 2 };
enum { CONVERTED_MAP = 1, CONVERTED_MAP_KEY_VALUE = 2, CONVERTED_LIST = 3, CONVERTED_DECIMAL = 5, CONVERTED_BSON = 20 };
enum { TYPE_BYTE_ARRAY = 6 };

// ---- the rows of parquet.thrift ----

#define PLACE(type, member) offsetof(struct type, member)
#define RECORD(type, fields)                                                                                           \
    { sizeof(struct type), fields, sizeof(fields) / sizeof(fields)[0] }

static const struct thrift_field chunk_metadata_fields[] = {
    {1, THRIFT_INT, PLACE(parquet_chunk, type), NULL},
    {4, THRIFT_INT, PLACE(parquet_chunk, codec), NULL},
    {5, THRIFT_INT, PLACE(parquet_chunk, values), NULL},
    {6, THRIFT_INT, PLACE(parquet_chunk, raw_bytes), NULL},
    {7, THRIFT_INT, PLACE(parquet_chunk, packed_bytes), NULL},
    {9, THRIFT_INT, PLACE(parquet_chunk, data_page), NULL},
    {11, THRIFT_INT, PLACE(parquet_chunk, dictionary_page), NULL},
};
static const struct thrift_record chunk_metadata = RECORD(parquet_chunk, chunk_metadata_fields);

// The metadata of a chunk is a struct in a struct; here it is one.
static const struct thrift_field chunk_fields[] = {
    {1, THRIFT_IS_SET, PLACE(parquet_chunk, is_elsewhere), NULL},
    {3, THRIFT_STRUCT, 0, &chunk_metadata},
    {8, THRIFT_IS_SET, PLACE(parquet_chunk, is_encrypted), NULL},
};
static const struct thrift_record chunk_record = RECORD(parquet_chunk, chunk_fields);

static const struct thrift_field group_fields[] = {
    {1, THRIFT_LIST, PLACE(parquet_group, chunks), &chunk_record},
    {3, THRIFT_INT, PLACE(parquet_group, rows), NULL},
};
static const struct thrift_record group_record = RECORD(parquet_group, group_fields);

static const struct thrift_field logical_fields[] = {
    {2, THRIFT_IS_SET, PLACE(parquet_schema_element, is_map), NULL},
    {3, THRIFT_IS_SET, PLACE(parquet_schema_element, is_list), NULL},
    {5, THRIFT_IS_SET, PLACE(parquet_schema_element, is_decimal), NULL},
};
static const struct thrift_record logical_record = RECORD(parquet_schema_element, logical_fields);

static const struct thrift_field schema_fields[] = {
    {1, THRIFT_INT, PLACE(parquet_schema_element, type), NULL},
    {3, THRIFT_INT, PLACE(parquet_schema_element, repetition), NULL},
    {4, THRIFT_TEXT, PLACE(parquet_schema_element, name), NULL},
    {5, THRIFT_INT, PLACE(parquet_schema_element, children), NULL},
    {6, THRIFT_INT, PLACE(parquet_schema_element, converted), NULL},
    {10, THRIFT_STRUCT, 0, &logical_record},
};
static const struct thrift_record schema_record = RECORD(parquet_schema_element, schema_fields);

static const struct thrift_field metadata_fields[] = {
    {2, THRIFT_LIST, PLACE(parquet_metadata, schema), &schema_record},
    {4, THRIFT_LIST, PLACE(parquet_metadata, groups), &group_record},
};
static const struct thrift_record metadata_record = RECORD(parquet_metadata, metadata_fields);

// ---- the schema ----

struct schema_walk {
    struct parquet_file *file;
    int64_t next;  // element
    int depth;
};

// What the elements above a leaf say about it.
struct schema_place {
    int definition, repetition;
    bool is_inner;  // the parent is a list or map: this element is the repeated one in it
    bool is_only;   // the only child of such an element
};

static int walk_element(struct schema_walk *walk, struct schema_place place);

static int add_leaf(struct schema_walk *walk, const struct parquet_schema_element *element, struct schema_place place) {
    struct parquet_file *file = walk->file;
    bool is_number = element->is_decimal ||
                     (element->converted.is_set &&
                      (element->converted.value == CONVERTED_DECIMAL || element->converted.value == CONVERTED_BSON));
    file->levels[file->columns.leaf_count] = (struct parquet_levels){
        .type = element->type.value,
        .most_definition = place.definition,
        .most_repetition = place.repetition,
    };
    return column_add(&file->columns, element->type.value == TYPE_BYTE_ARRAY && !is_number, place.repetition > 0);
}

static int walk_children(struct schema_walk *walk, const struct parquet_schema_element *element,
                         struct schema_place place) {
    int64_t kind = element->converted.is_set ? element->converted.value : 0;
    bool is_map = element->is_map || kind == CONVERTED_MAP || kind == CONVERTED_MAP_KEY_VALUE;
    bool is_list = element->is_list || kind == CONVERTED_LIST;
    const struct schema_place inner = {.definition = place.definition,
                                       .repetition = place.repetition,
                                       .is_inner = is_map || is_list,
                                       .is_only = place.is_inner && element->children.value == 1};
    for (int64_t i = 0; i < element->children.value; i++)
        TRY(walk_element(walk, inner));
    return 0;
}

static int walk_element(struct schema_walk *walk, struct schema_place place) {
    struct column_file *columns = &walk->file->columns;
    const struct thrift_list *schema = &walk->file->metadata.schema;
    if (walk->next >= schema->count || walk->depth > MOST_DEPTH)
        return column_damaged(columns, columns->data_end,
                              "its schema has fewer elements than it says, or too many levels");
    const struct parquet_schema_element *element = (const struct parquet_schema_element *)schema->items + walk->next++;
    bool is_repeated = element->repetition.value == REPETITION_REPEATED;
    place.definition += is_repeated || element->repetition.value == REPETITION_OPTIONAL;
    place.repetition += is_repeated;
    place.is_inner = place.is_inner && is_repeated;
    const struct column_mark mark =
        column_enter(columns, element->name.bytes, element->name.length, place.is_inner || place.is_only);
    walk->depth++;
    int status = 0;
    if (element->children.value > 0)
        status = walk_children(walk, element, place);
    else if (element->type.is_set)  // a struct may have no members
        status = add_leaf(walk, element, place);
    walk->depth--;
    column_leave(columns, mark);
    return status;
}

// The first element is the root, whose name and levels do not count.
static int walk_schema(struct parquet_file *file) {
    const struct parquet_schema_element *root = file->metadata.schema.items;
    struct schema_walk walk = {.file = file, .next = 1};
    if (file->metadata.schema.count == 0)
        return column_damaged(&file->columns, file->columns.data_end, "it has no schema");
    file->levels = memory_alloc((size_t)file->metadata.schema.count * sizeof *file->levels);
    for (int64_t i = 0; i < root->children.value; i++)
        TRY(walk_element(&walk, (struct schema_place){0}));
    return 0;
}

// ---- the footer ----

static int refuse_encrypted(const struct column_file *file) {
    return bad_data("%s is an encrypted Parquet file; decrypt it first, e.g. with pyarrow, which takes the keys",
                    file->input->name);
}

static int read_footer(struct column_file *file, struct buffer *footer) {
    const struct table_input *input = file->input;
    unsigned char tail[TAIL_BYTES];
    if (input->size < MAGIC_BYTES + TAIL_BYTES)
        return column_damaged(file, input->size, "it ends before its footer");
    TRY(table_read_at(input, input->size - TAIL_BYTES, tail, sizeof tail));
    if (memcmp(tail + TAIL_BYTES - MAGIC_BYTES, "PARE", MAGIC_BYTES) == 0)
        return refuse_encrypted(file);
    if (memcmp(tail + TAIL_BYTES - MAGIC_BYTES, "PAR1", MAGIC_BYTES) != 0)
        return column_damaged(file, input->size - MAGIC_BYTES, "it does not end with PAR1, so its end is missing");
    uint64_t length = (uint64_t)tail[0] | (uint64_t)tail[1] << 8 | (uint64_t)tail[2] << 16 | (uint64_t)tail[3] << 24;
    if (length > input->size - MAGIC_BYTES - TAIL_BYTES)
        return column_damaged(file, input->size - TAIL_BYTES, "its footer is larger than the file");
    file->data_end = input->size - TAIL_BYTES - length;
    buffer_reserve(footer, (size_t)length);
    TRY(table_read_at(input, file->data_end, footer->data, (size_t)length));
    footer->length = (size_t)length;
    return 0;
}

static const struct parquet_group *group_of(const struct parquet_file *file, int64_t group) {
    return (const struct parquet_group *)file->metadata.groups.items + group;
}

const struct parquet_chunk *parquet_file_chunk(const struct parquet_file *file, int64_t group, int64_t leaf) {
    return (const struct parquet_chunk *)group_of(file, group)->chunks.items + leaf;
}

static int check_groups(const struct parquet_file *file) {
    const struct column_file *columns = &file->columns;
    for (int64_t i = 0; i < columns->group_count; i++) {
        const struct parquet_group *group = group_of(file, i);
        bool fits = group->chunks.count == columns->leaf_count && group->rows.value >= 0;
        for (int64_t k = 0; fits && k < columns->leaf_count; k++) {
            const struct parquet_chunk *chunk = parquet_file_chunk(file, i, k);
            fits = !chunk->type.is_set || chunk->type.value == file->levels[k].type;
        }
        if (!fits)
            return column_damaged(columns, columns->data_end, "a row group does not fit the schema");
    }
    return 0;
}

// ---- the format ----

static int parquet_open(struct column_file *columns) {
    struct parquet_file *file = (struct parquet_file *)columns;
    TRY(read_footer(columns, &file->footer));
    const unsigned char *footer = (const unsigned char *)file->footer.data;
    struct thrift_input bytes = {.at = footer, .end = footer + file->footer.length};
    if (!thrift_read(&bytes, &metadata_record, &file->metadata))
        return column_damaged(columns, columns->data_end + (uint64_t)(bytes.at - footer), bytes.problem);
    columns->group_count = file->metadata.groups.count;
    TRY(walk_schema(file));
    return check_groups(file);
}

static void parquet_close(struct column_file *columns) {
    struct parquet_file *file = (struct parquet_file *)columns;
    thrift_free(&metadata_record, &file->metadata);
    free(file->levels);
    buffer_free(&file->footer);
}

static struct column_group parquet_group(const struct column_file *columns, int64_t group, int64_t leaf) {
    const struct parquet_file *file = (const struct parquet_file *)columns;
    const struct parquet_chunk *chunk = parquet_file_chunk(file, group, leaf);
    return (struct column_group){.rows = group_of(file, group)->rows.value,
                                 .begin = (uint64_t)chunk->data_page.value,
                                 .bytes = (uint64_t)chunk->raw_bytes.value};
}

const struct column_format column_parquet = {.name = "Parquet",
                                             .file_bytes = sizeof(struct parquet_file),
                                             .open = parquet_open,
                                             .close = parquet_close,
                                             .group = parquet_group,
                                             .begin = parquet_column_begin,
                                             .next = parquet_column_next,
                                             .position = parquet_column_position,
                                             .end = parquet_column_end};
