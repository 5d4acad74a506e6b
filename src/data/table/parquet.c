// Rows of Parquet files. With several threads, helpers decode whole row groups (piece_ring.h), unless these are large:
// then the reading thread decodes them page by page.
#include "data/table/parquet.h"
#include "base/error.h"
#include "data/extract/piece_ring.h"
#include "base/memory.h"
#include <stdlib.h>
#include <string.h>

enum { LINES_BYTES = 1 << 18, LARGE_GROUP_BYTES = 32 << 20, LARGEST_LIST_BYTES = 256 << 20 };

struct column_reader {
    struct parquet_column *column;
    struct parquet_entry entry;  // the first of the next row
    bool has_entry;
};

// A row group that is being read.
struct group_reader {
    struct column_reader *columns;  // (columns)
    int64_t rows_left;
};

struct parquet {
    struct table_input input;
    struct parquet_file file;
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

// ---- one row group ----

static void end_group(const struct parquet *parquet, struct group_reader *group) {
    for (int64_t i = 0; group->columns && i < parquet->input.columns.count; i++)
        parquet_column_close(group->columns[i].column);
    free(group->columns);
    *group = (struct group_reader){0};
}

static int advance(struct column_reader *reader) {
    int status = parquet_column_next(reader->column, &reader->entry);
    reader->has_entry = status > 0;
    return status;
}

// To be ended also on error.
static int begin_group(const struct parquet *parquet, struct group_reader *group, int64_t number) {
    group->rows_left = parquet_file_group(&parquet->file, number)->rows.value;
    group->columns = memory_alloc((size_t)parquet->input.columns.count * sizeof *group->columns);
    for (int64_t i = 0; i < parquet->input.columns.count; i++) {
        TRY(parquet_column_open(&group->columns[i].column, &parquet->file, number, parquet->leaves[i]));
        TRY(advance(&group->columns[i]));
    }
    return 0;
}

static int damaged(const struct parquet *parquet, const struct column_reader *reader, const char *problem) {
    return parquet_damaged(&parquet->file, parquet_column_position(reader->column), problem);
}

// One column of a row, and the first entry of the next.
static int write_cell(const struct parquet *parquet, struct group_reader *group, int64_t i, struct json_writer *line) {
    struct column_reader *reader = &group->columns[i];
    const struct parquet_entry *entry = &reader->entry;
    bool is_list = parquet->file.leaves[parquet->leaves[i]].most_repetition > 0;
    if (!reader->has_entry || !entry->begins_row)
        return damaged(parquet, reader, "a column has fewer values than its row group has rows");
    json_key(line, parquet->input.columns.names[i]);
    if (!is_list) {
        json_string(line, entry->text, entry->has_value ? entry->length : 0);
        return advance(reader);
    }
    size_t before = line->out->length;
    json_begin_array(line);
    do {
        // A few bytes may stand for billions of equal texts.
        if (line->out->length - before > LARGEST_LIST_BYTES)
            return damaged(parquet, reader, "the lists of a row have more than 256 MiB of text");
        if (entry->has_value)
            json_string(line, entry->text, entry->length);
        TRY(advance(reader));
    } while (reader->has_entry && !entry->begins_row);
    json_end_array(line);
    return 0;
}

// Appends rows until there are `enough` bytes of lines: 1, 0 if the group has no more.
static int read_rows(const struct parquet *parquet, struct group_reader *group, struct buffer *lines, size_t enough) {
    size_t before = lines->length;
    while (group->rows_left > 0 && lines->length - before < enough) {
        struct json_writer line = table_begin_row(lines);
        for (int64_t i = 0; i < parquet->input.columns.count; i++)
            TRY(write_cell(parquet, group, i, &line));
        table_end_row(&line);
        group->rows_left--;
    }
    for (int64_t i = 0; group->rows_left == 0 && i < parquet->input.columns.count; i++)
        if (group->columns[i].has_entry)
            return damaged(parquet, &group->columns[i], "a column has more values than its row group has rows");
    return lines->length > before;
}

// ---- several threads ----

static int cut_group(void *codec, void *piece) {
    struct parquet *parquet = codec;
    ((struct group_piece *)piece)->group = parquet->next_group;
    return parquet->next_group++ < parquet->file.metadata.groups.count;
}

static bool is_large(const struct parquet *parquet, int64_t group) {
    uint64_t bytes = 0;
    for (int64_t i = 0; i < parquet->input.columns.count && bytes <= LARGE_GROUP_BYTES; i++)
        bytes += (uint64_t)parquet_file_chunk(&parquet->file, group, parquet->leaves[i])->raw_bytes.value;
    return bytes > LARGE_GROUP_BYTES;
}

static int decode_group(const void *codec, void *piece, struct buffer *plain, void *scratch) {
    const struct parquet *parquet = codec;
    int64_t number = ((const struct group_piece *)piece)->group;
    (void)scratch;
    buffer_clear(plain);
    if (is_large(parquet, number))
        return 0;
    struct group_reader group = {0};
    int status = begin_group(parquet, &group, number);
    // What the sizes promise may be false; a group that grows is left to the reading thread, too.
    if (status == 0)
        status = read_rows(parquet, &group, plain, 2 * (size_t)LARGE_GROUP_BYTES);
    bool is_whole = group.rows_left == 0;
    end_group(parquet, &group);
    return status < 0 ? -1 : is_whole;
}

static int start_helpers(struct parquet *parquet) {
    static const struct piece_codec functions = {
        .piece_bytes = sizeof(struct group_piece), .cut = cut_group, .decode = decode_group};
    if (parquet->input.threads < 2 || parquet->file.metadata.groups.count < 2)
        return 0;
    return piece_ring_open(&parquet->ring, &(struct piece_ring_options){.functions = &functions,
                                                                        .codec = parquet,
                                                                        .name = parquet->input.name,
                                                                        .threads = parquet->input.threads,
                                                                        .places = parquet->input.threads + 1});
}

// The next row group: decoded by a helper, or begun by this thread. 0 after the last.
static int next_group(struct parquet *parquet, struct buffer *lines) {
    struct piece_place *oldest;
    int64_t number = parquet->next_group;
    if (!parquet->ring) {
        if (parquet->next_group++ >= parquet->file.metadata.groups.count)
            return 0;
    } else {
        int status = piece_ring_wait(parquet->ring, &oldest);
        if (status <= 0)
            return status;
        number = ((const struct group_piece *)oldest->piece)->group;
        bool is_decoded = oldest->is_decoded;
        if (is_decoded)
            buffer_append(lines, oldest->plain.data, oldest->plain.length);
        piece_ring_release(parquet->ring);
        if (is_decoded) {
            parquet->position =
                (uint64_t)parquet_file_chunk(&parquet->file, number, parquet->leaves[0])->data_page.value;
            return 1;
        }
    }
    parquet->has_group = true;
    return begin_group(parquet, &parquet->now, number) < 0 ? -1 : 1;
}

// ---- the kind ----

static void parquet_close(void *state) {
    struct parquet *parquet = state;
    piece_ring_close(parquet->ring);
    end_group(parquet, &parquet->now);
    parquet_file_close(&parquet->file);
    free(parquet->leaves);
    free(parquet);
}

static int parquet_open(void **state, const struct table_input *input) {
    struct parquet *parquet = memory_alloc(sizeof *parquet);
    parquet->input = *input;
    parquet->leaves = memory_alloc((size_t)input->columns.count * sizeof *parquet->leaves);
    int status = parquet_file_open(&parquet->file, &parquet->input);
    for (int64_t i = 0; status == 0 && i < input->columns.count; i++) {
        parquet->leaves[i] = parquet_file_find(&parquet->file, input->columns.names[i]);
        status = parquet->leaves[i] < 0 ? -1 : 0;
    }
    if (status == 0)
        status = start_helpers(parquet);
    if (status < 0) {
        parquet_close(parquet);
        return -1;
    }
    *state = parquet;
    return 0;
}

static int parquet_next(void *state, struct buffer *lines) {
    struct parquet *parquet = state;
    size_t before = lines->length;
    while (lines->length == before) {
        int status = parquet->has_group ? 1 : next_group(parquet, lines);
        if (status <= 0)
            return status;
        if (!parquet->has_group)
            continue;
        status = read_rows(parquet, &parquet->now, lines, LINES_BYTES);
        TRY(status);
        parquet->position = parquet_column_position(parquet->now.columns[0].column);
        parquet->has_group = status > 0;
        if (status == 0)
            end_group(parquet, &parquet->now);
    }
    return 1;
}

static uint64_t parquet_position(const void *state) {
    return ((const struct parquet *)state)->position;
}

static bool is_parquet(const char *bytes, size_t count) {
    return count >= 4 && (memcmp(bytes, "PAR1", 4) == 0 || memcmp(bytes, "PARE", 4) == 0);
}

const struct table_kind table_parquet = {.name = "Parquet",
                                         .endings = {".parquet"},
                                         .begins = is_parquet,
                                         .needs_ranges = true,
                                         .open = parquet_open,
                                         .next = parquet_next,
                                         .position = parquet_position,
                                         .close = parquet_close};
