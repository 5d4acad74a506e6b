// Rows of files with columns. With several threads, helpers decode whole groups (piece_ring.h), unless these are large:
// then the reading thread decodes them entry by entry.
#include "data/table/columns.h"
#include "data/extract/piece_ring.h"
#include "base/error.h"
#include "base/memory.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { LINES_BYTES = 1 << 16, LARGE_GROUP_BYTES = 32 << 20, LARGEST_LIST_BYTES = 256 << 20 };
enum { MOST_NAME_BYTES = 1 << 26 };

struct column_reader {
    void *column;
    struct column_entry entry;  // the first of the next row
    bool has_entry;
};

// A row group that is being read.
struct group_reader {
    struct column_reader *columns;  // (columns)
    int64_t rows_left;
};

struct table_rows {
    struct table_input input;
    struct column_file *file;
    int64_t *leaves;          // (columns)
    int64_t next_group;       // that no reader has begun
    struct group_reader now;  // of the reading thread
    bool has_group;
    struct piece_ring *ring;  // NULL for one thread
    uint64_t position;
};

struct group_piece {
    int64_t group;
};

// ---- leaves ----

int column_damaged(const struct column_file *file, uint64_t at, const char *problem) {
    return bad_data("%s: %s data is damaged at byte %" PRIu64 ": %s; copy or download the file again",
                    file->input->name, file->format->name, at, problem);
}

static void append_part(struct buffer *path, const char *part, size_t length) {
    if (path->length > 0)
        buffer_append_byte(path, '.');
    buffer_append(path, part, length);
}

struct column_mark column_enter(struct column_file *file, const char *part, size_t length, bool is_inner) {
    const struct column_mark mark = {file->path.length, file->name.length};
    append_part(&file->path, part, length);
    if (!is_inner)
        append_part(&file->name, part, length);
    file->name_bytes += file->path.length + file->name.length;
    return mark;
}

static void cut_back(struct buffer *path, size_t length) {
    path->length = length;
    if (path->data)
        path->data[length] = 0;
}

void column_leave(struct column_file *file, struct column_mark mark) {
    cut_back(&file->path, mark.path);
    cut_back(&file->name, mark.name);
}

int column_add(struct column_file *file, bool is_text, bool is_list) {
    if (file->name_bytes > MOST_NAME_BYTES)
        return column_damaged(file, file->data_end, "the names of its columns are too long");
    MEMORY_GROW(file->leaves, file->leaf_count, file->leaf_capacity);
    file->leaves[file->leaf_count++] = (struct column_leaf){.path = memory_string(buffer_string(&file->path)),
                                                            .name = memory_string(buffer_string(&file->name)),
                                                            .is_text = is_text,
                                                            .is_list = is_list};
    return 0;
}

// The leaf of that path or name; -1, with an error, if there is none or it holds no text.
static int64_t find_leaf(const struct column_file *file, const char *name) {
    OWNED_BY(buffer_free) struct buffer others = {0};
    for (int64_t i = 0; i < file->leaf_count; i++) {
        const struct column_leaf *leaf = &file->leaves[i];
        if (leaf->is_text && (strcmp(leaf->path, name) == 0 || strcmp(leaf->name, name) == 0))
            return i;
        if (leaf->is_text)
            table_note_column(&others, leaf->name);
    }
    return table_refuse_column(file->input, name, &others);
}

// ---- one row group ----

static void end_group(const struct table_rows *rows, struct group_reader *group) {
    for (int64_t i = 0; group->columns && i < rows->input.columns.count; i++)
        rows->file->format->end(group->columns[i].column);
    free(group->columns);
    *group = (struct group_reader){0};
}

static int advance(const struct table_rows *rows, struct column_reader *reader) {
    int status = rows->file->format->next(reader->column, &reader->entry);
    reader->has_entry = status > 0;
    return status;
}

// To be ended also on error.
static int begin_group(const struct table_rows *rows, struct group_reader *group, int64_t number) {
    const struct column_format *format = rows->file->format;
    group->rows_left = format->group(rows->file, number, rows->leaves[0]).rows;
    group->columns = memory_alloc((size_t)rows->input.columns.count * sizeof *group->columns);
    for (int64_t i = 0; i < rows->input.columns.count; i++) {
        TRY(format->begin(&group->columns[i].column, rows->file, number, rows->leaves[i]));
        TRY(advance(rows, &group->columns[i]));
    }
    return 0;
}

static int damaged(const struct table_rows *rows, const struct column_reader *reader, const char *problem) {
    return column_damaged(rows->file, rows->file->format->position(reader->column), problem);
}

// One column of a row, and the first entry of the next.
static int write_cell(const struct table_rows *rows, struct group_reader *group, int64_t i, struct json_writer *line) {
    struct column_reader *reader = &group->columns[i];
    const struct column_entry *entry = &reader->entry;
    bool is_list = rows->file->leaves[rows->leaves[i]].is_list;
    if (!reader->has_entry || !entry->begins_row)
        return damaged(rows, reader, "a column has fewer values than its row group has rows");
    json_key(line, rows->input.columns.names[i]);
    if (!is_list) {
        json_string(line, entry->text, entry->has_value ? entry->length : 0);
        return advance(rows, reader);
    }
    size_t before = line->out->length;
    json_begin_array(line);
    do {
        // A few bytes may stand for billions of equal texts.
        if (line->out->length - before > LARGEST_LIST_BYTES)
            return damaged(rows, reader, "the lists of a row have more than 256 MiB of text");
        if (entry->has_value)
            json_string(line, entry->text, entry->length);
        TRY(advance(rows, reader));
    } while (reader->has_entry && !entry->begins_row);
    json_end_array(line);
    return 0;
}

// Appends rows until there are `enough` bytes of lines: 1, 0 if the group has no more.
static int read_rows(const struct table_rows *rows, struct group_reader *group, struct buffer *lines, size_t enough) {
    size_t before = lines->length;
    while (group->rows_left > 0 && lines->length - before < enough) {
        struct json_writer line = table_begin_row(lines);
        for (int64_t i = 0; i < rows->input.columns.count; i++)
            TRY(write_cell(rows, group, i, &line));
        table_end_row(&line);
        group->rows_left--;
    }
    for (int64_t i = 0; group->rows_left == 0 && i < rows->input.columns.count; i++)
        if (group->columns[i].has_entry)
            return damaged(rows, &group->columns[i], "a column has more values than its row group has rows");
    return lines->length > before;
}

// ---- several threads ----

static int cut_group(void *codec, void *piece) {
    struct table_rows *rows = codec;
    ((struct group_piece *)piece)->group = rows->next_group;
    return rows->next_group++ < rows->file->group_count;
}

static bool is_large(const struct table_rows *rows, int64_t group) {
    uint64_t bytes = 0;
    for (int64_t i = 0; i < rows->input.columns.count && bytes <= LARGE_GROUP_BYTES; i++)
        bytes += rows->file->format->group(rows->file, group, rows->leaves[i]).bytes;
    return bytes > LARGE_GROUP_BYTES;
}

static int decode_group(const void *codec, void *piece, struct buffer *plain, void *scratch) {
    const struct table_rows *rows = codec;
    int64_t number = ((const struct group_piece *)piece)->group;
    (void)scratch;
    buffer_clear(plain);
    if (is_large(rows, number))
        return 0;
    struct group_reader group = {0};
    int status = begin_group(rows, &group, number);
    // What the sizes promise may be false; a group that grows is left to the reading thread, too.
    if (status == 0)
        status = read_rows(rows, &group, plain, 2 * (size_t)LARGE_GROUP_BYTES);
    bool is_whole = group.rows_left == 0;
    end_group(rows, &group);
    return status < 0 ? -1 : is_whole;
}

static int start_helpers(struct table_rows *rows) {
    static const struct piece_codec functions = {
        .piece_bytes = sizeof(struct group_piece), .cut = cut_group, .decode = decode_group};
    if (rows->input.threads < 2 || rows->file->group_count < 2)
        return 0;
    return piece_ring_open(&rows->ring, &(struct piece_ring_options){.functions = &functions,
                                                                     .codec = rows,
                                                                     .name = rows->input.name,
                                                                     .threads = rows->input.threads,
                                                                     .places = rows->input.threads + 1});
}

// The next row group: decoded by a helper, or begun by this thread. 0 after the last.
static int next_group(struct table_rows *rows, struct buffer *lines) {
    struct piece_place *oldest;
    int64_t number = rows->next_group;
    if (!rows->ring) {
        if (rows->next_group++ >= rows->file->group_count)
            return 0;
    } else {
        int status = piece_ring_wait(rows->ring, &oldest);
        if (status <= 0)
            return status;
        number = ((const struct group_piece *)oldest->piece)->group;
        bool is_decoded = oldest->is_decoded;
        if (is_decoded)
            buffer_append(lines, oldest->plain.data, oldest->plain.length);
        piece_ring_release(rows->ring);
        if (is_decoded) {
            rows->position = rows->file->format->group(rows->file, number, rows->leaves[0]).begin;
            return 1;
        }
    }
    rows->has_group = true;
    return begin_group(rows, &rows->now, number) < 0 ? -1 : 1;
}

// ---- the kinds ----

static void close_file(struct column_file *file) {
    file->format->close(file);
    for (int64_t i = 0; i < file->leaf_count; i++) {
        free(file->leaves[i].path);
        free(file->leaves[i].name);
    }
    free(file->leaves);
    buffer_free(&file->path);
    buffer_free(&file->name);
    free(file);
}

static void rows_close(void *state) {
    struct table_rows *rows = state;
    piece_ring_close(rows->ring);
    end_group(rows, &rows->now);
    close_file(rows->file);
    free(rows->leaves);
    free(rows);
}

static int rows_open(void **state, const struct table_input *input, const struct column_format *format) {
    struct table_rows *rows = memory_alloc(sizeof *rows);
    rows->input = *input;
    rows->leaves = memory_alloc((size_t)input->columns.count * sizeof *rows->leaves);
    rows->file = memory_alloc(format->file_bytes);
    rows->file->format = format;
    rows->file->input = &rows->input;
    int status = format->open(rows->file);
    for (int64_t i = 0; status == 0 && i < input->columns.count; i++) {
        rows->leaves[i] = find_leaf(rows->file, input->columns.names[i]);
        status = rows->leaves[i] < 0 ? -1 : 0;
    }
    if (status == 0)
        status = start_helpers(rows);
    if (status < 0) {
        rows_close(rows);
        return -1;
    }
    *state = rows;
    return 0;
}

static int rows_next(void *state, struct buffer *lines) {
    struct table_rows *rows = state;
    size_t before = lines->length;
    while (lines->length == before) {
        int status = rows->has_group ? 1 : next_group(rows, lines);
        if (status <= 0)
            return status;
        if (!rows->has_group)
            continue;
        status = read_rows(rows, &rows->now, lines, LINES_BYTES);
        TRY(status);
        rows->position = rows->file->format->position(rows->now.columns[0].column);
        rows->has_group = status > 0;
        if (status == 0)
            end_group(rows, &rows->now);
    }
    return 1;
}

static uint64_t rows_position(const void *state) {
    return ((const struct table_rows *)state)->position;
}

static int parquet_open(void **state, const struct table_input *input) {
    return rows_open(state, input, &column_parquet);
}

static bool is_parquet(const char *bytes, size_t count) {
    return count >= 4 && (memcmp(bytes, "PAR1", 4) == 0 || memcmp(bytes, "PARE", 4) == 0);
}

static int arrow_open(void **state, const struct table_input *input) {
    return rows_open(state, input, &column_arrow);
}

// A stream begins with a mark, the bytes of its first message, and where its root is: these two have few bytes.
static bool is_arrow(const char *bytes, size_t count) {
    uint32_t words[3];
    if (count >= 8 && memcmp(bytes, "ARROW1\0", 8) == 0)
        return true;
    if (count < sizeof words)
        return false;
    memcpy(words, bytes, sizeof words);
    return words[0] == UINT32_MAX && words[1] % 8 == 0 && words[1] < 1 << 28 && words[2] % 2 == 0 &&
           words[2] < words[1];
}

const struct table_kind table_parquet = {.name = "Parquet",
                                         .endings = {".parquet"},
                                         .begins = is_parquet,
                                         .needs_ranges = true,
                                         .open = parquet_open,
                                         .next = rows_next,
                                         .position = rows_position,
                                         .close = rows_close};
const struct table_kind table_arrow = {.name = "Arrow",
                                       .endings = {".arrow", ".feather"},
                                       .begins = is_arrow,
                                       .needs_ranges = true,
                                       .open = arrow_open,
                                       .next = rows_next,
                                       .position = rows_position,
                                       .close = rows_close};
