// Reads the footer, and walks over the schema.
#include "data/table/parquet.h"
#include "base/error.h"
#include "base/memory.h"
#include <inttypes.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

enum { MAGIC_BYTES = 4, TAIL_BYTES = 8, MOST_DEPTH = 32, MOST_NAME_BYTES = 1 << 26 };
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
    int64_t next;              // element
    struct buffer path, name;  // of the current element
    size_t name_bytes;         // of all leaves: long names above many leaves would multiply
    int depth;
};

// What the elements above a leaf say about it.
struct schema_place {
    int definition, repetition;
    bool is_inner;  // the parent is a list or map: this element is the repeated one in it
    bool is_only;   // the only child of such an element
};

int parquet_damaged(const struct parquet_file *file, uint64_t at, const char *problem) {
    return bad_data("%s: Parquet data is damaged at byte %" PRIu64 ": %s; copy or download the file again",
                    file->input->name, at, problem);
}

static void append_part(struct buffer *path, const struct thrift_text *name) {
    if (path->length > 0)
        buffer_append_byte(path, '.');
    buffer_append(path, name->bytes, name->length);
}

static void cut_back(struct buffer *path, size_t length) {
    path->length = length;
    if (path->data)
        path->data[length] = 0;
}

static int walk_element(struct schema_walk *walk, struct schema_place place);

static void add_leaf(struct schema_walk *walk, const struct parquet_schema_element *element,
                     struct schema_place place) {
    struct parquet_file *file = walk->file;
    bool is_number = element->is_decimal ||
                     (element->converted.is_set &&
                      (element->converted.value == CONVERTED_DECIMAL || element->converted.value == CONVERTED_BSON));
    file->leaves[file->leaf_count++] = (struct parquet_leaf){
        .path = memory_string(buffer_string(&walk->path)),
        .name = memory_string(buffer_string(&walk->name)),
        .type = element->type.value,
        .is_text = element->type.value == TYPE_BYTE_ARRAY && !is_number,
        .most_definition = place.definition,
        .most_repetition = place.repetition,
    };
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
    const struct parquet_file *file = walk->file;
    const struct thrift_list *schema = &file->metadata.schema;
    if (walk->next >= schema->count || walk->depth > MOST_DEPTH)
        return parquet_damaged(file, file->data_end, "its schema has fewer elements than it says, or too many levels");
    const struct parquet_schema_element *element = (const struct parquet_schema_element *)schema->items + walk->next++;
    bool is_repeated = element->repetition.value == REPETITION_REPEATED;
    size_t path = walk->path.length, name = walk->name.length;
    place.definition += is_repeated || element->repetition.value == REPETITION_OPTIONAL;
    place.repetition += is_repeated;
    place.is_inner = place.is_inner && is_repeated;
    append_part(&walk->path, &element->name);
    if (!place.is_inner && !place.is_only)
        append_part(&walk->name, &element->name);
    walk->depth++;
    int status = 0;
    walk->name_bytes += walk->path.length + walk->name.length;
    if (walk->name_bytes > MOST_NAME_BYTES)
        status = parquet_damaged(file, file->data_end, "the names of its columns are too long");
    else if (element->children.value > 0)
        status = walk_children(walk, element, place);
    else if (element->type.is_set)  // a struct may have no members
        add_leaf(walk, element, place);
    walk->depth--;
    cut_back(&walk->path, path);
    cut_back(&walk->name, name);
    return status;
}

// The first element is the root, whose name and levels do not count.
static int walk_schema(struct parquet_file *file) {
    const struct parquet_schema_element *root = file->metadata.schema.items;
    struct schema_walk walk = {.file = file, .next = 1};
    int status = 0;
    if (file->metadata.schema.count == 0)
        return parquet_damaged(file, file->data_end, "it has no schema");
    file->leaves = memory_alloc((size_t)file->metadata.schema.count * sizeof *file->leaves);
    for (int64_t i = 0; status == 0 && i < root->children.value; i++)
        status = walk_element(&walk, (struct schema_place){0});
    buffer_free(&walk.path);
    buffer_free(&walk.name);
    return status;
}

// ---- the footer ----

static int refuse_encrypted(const struct parquet_file *file) {
    return bad_data("%s is an encrypted Parquet file; decrypt it first, e.g. with pyarrow, which takes the keys",
                    file->input->name);
}

static int read_footer(struct parquet_file *file) {
    const struct table_input *input = file->input;
    unsigned char tail[TAIL_BYTES];
    if (input->size < MAGIC_BYTES + TAIL_BYTES)
        return parquet_damaged(file, input->size, "it ends before its footer");
    TRY(table_read_at(input, input->size - TAIL_BYTES, tail, sizeof tail));
    if (memcmp(tail + TAIL_BYTES - MAGIC_BYTES, "PARE", MAGIC_BYTES) == 0)
        return refuse_encrypted(file);
    if (memcmp(tail + TAIL_BYTES - MAGIC_BYTES, "PAR1", MAGIC_BYTES) != 0)
        return parquet_damaged(file, input->size - MAGIC_BYTES, "it does not end with PAR1, so its end is missing");
    uint64_t length = (uint64_t)tail[0] | (uint64_t)tail[1] << 8 | (uint64_t)tail[2] << 16 | (uint64_t)tail[3] << 24;
    if (length > input->size - MAGIC_BYTES - TAIL_BYTES)
        return parquet_damaged(file, input->size - TAIL_BYTES, "its footer is larger than the file");
    file->data_end = input->size - TAIL_BYTES - length;
    buffer_reserve(&file->footer, (size_t)length);
    TRY(table_read_at(input, file->data_end, file->footer.data, (size_t)length));
    file->footer.length = (size_t)length;
    return 0;
}

static int check_groups(const struct parquet_file *file) {
    for (int64_t i = 0; i < file->metadata.groups.count; i++) {
        const struct parquet_group *group = parquet_file_group(file, i);
        bool fits = group->chunks.count == file->leaf_count && group->rows.value >= 0;
        for (int64_t k = 0; fits && k < file->leaf_count; k++) {
            const struct parquet_chunk *chunk = parquet_file_chunk(file, i, k);
            fits = !chunk->type.is_set || chunk->type.value == file->leaves[k].type;
        }
        if (!fits)
            return parquet_damaged(file, file->data_end, "a row group does not fit the schema");
    }
    return 0;
}

int parquet_file_open(struct parquet_file *file, const struct table_input *input) {
    file->input = input;
    TRY(read_footer(file));
    const unsigned char *footer = (const unsigned char *)file->footer.data;
    struct thrift_input bytes = {.at = footer, .end = footer + file->footer.length};
    if (!thrift_read(&bytes, &metadata_record, &file->metadata))
        return parquet_damaged(file, file->data_end + (uint64_t)(bytes.at - footer), bytes.problem);
    TRY(walk_schema(file));
    return check_groups(file);
}

void parquet_file_close(struct parquet_file *file) {
    thrift_free(&metadata_record, &file->metadata);
    for (int64_t i = 0; i < file->leaf_count; i++) {
        free(file->leaves[i].path);
        free(file->leaves[i].name);
    }
    free(file->leaves);
    buffer_free(&file->footer);
    *file = (struct parquet_file){0};
}

// ---- columns ----

const struct parquet_group *parquet_file_group(const struct parquet_file *file, int64_t group) {
    return (const struct parquet_group *)file->metadata.groups.items + group;
}

const struct parquet_chunk *parquet_file_chunk(const struct parquet_file *file, int64_t group, int64_t leaf) {
    return (const struct parquet_chunk *)parquet_file_group(file, group)->chunks.items + leaf;
}

int64_t parquet_file_find(const struct parquet_file *file, const char *name) {
    OWNED_BY(buffer_free) struct buffer others = {0};
    for (int64_t i = 0; i < file->leaf_count; i++) {
        const struct parquet_leaf *leaf = &file->leaves[i];
        if (leaf->is_text && (strcmp(leaf->path, name) == 0 || strcmp(leaf->name, name) == 0))
            return i;
        if (leaf->is_text)
            table_note_column(&others, leaf->name);
    }
    return table_refuse_column(file->input, name, &others);
}
