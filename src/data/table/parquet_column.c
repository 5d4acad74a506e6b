// Pages: a header in Thrift's protocol, then levels and values, mostly compressed. The first page may be a dictionary.
#include "data/table/parquet.h"
#include "base/error.h"
#include "data/extract/codec.h"
#include "base/hash.h"
#include "base/memory.h"
#include <inttypes.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

enum { READ_BYTES = 1 << 17, REMOTE_READ_BYTES = 1 << 20, LEAST_HEADER_BYTES = 1 << 12, LENGTH_BYTES = 4 };
enum { PAGE_DATA = 0, PAGE_DICTIONARY = 2, PAGE_DATA_V2 = 3 };

struct page_header {
    struct thrift_int type, raw_bytes, packed_bytes, crc;
    struct thrift_int values, encoding, definition_encoding, repetition_encoding;
    // Of version 2 only: its levels are not compressed.
    struct thrift_int definition_bytes, repetition_bytes, is_compressed;
};

struct parquet_column {
    const struct parquet_file *file;
    const struct parquet_levels *levels;
    const struct block_codec *codec;
    void *codec_state;
    struct buffer window;  // bytes of the file from window_begin on, of which the first `used` are done
    uint64_t window_begin, end;
    size_t used;
    int64_t values_left, page_left;  // entries of the chunk after this page, and of this page
    uint64_t page_at;                // where this page's header is
    struct buffer page, dictionary_page;
    struct thrift_text *dictionary;
    struct parquet_runs definitions, repetitions;
    struct parquet_texts texts;
};

// ---- the rows of parquet.thrift ----

#define PLACE(member) offsetof(struct page_header, member)
#define RECORD(fields)                                                                                                 \
    { sizeof(struct page_header), fields, sizeof(fields) / sizeof(fields)[0] }

static const struct thrift_field data_fields[] = {
    {1, THRIFT_INT, PLACE(values), NULL},
    {2, THRIFT_INT, PLACE(encoding), NULL},
    {3, THRIFT_INT, PLACE(definition_encoding), NULL},
    {4, THRIFT_INT, PLACE(repetition_encoding), NULL},
};
static const struct thrift_field dictionary_fields[] = {
    {1, THRIFT_INT, PLACE(values), NULL},
    {2, THRIFT_INT, PLACE(encoding), NULL},
};
static const struct thrift_field data_v2_fields[] = {
    {1, THRIFT_INT, PLACE(values), NULL},           {4, THRIFT_INT, PLACE(encoding), NULL},
    {5, THRIFT_INT, PLACE(definition_bytes), NULL}, {6, THRIFT_INT, PLACE(repetition_bytes), NULL},
    {7, THRIFT_INT, PLACE(is_compressed), NULL},
};
static const struct thrift_record data_record = RECORD(data_fields), dictionary_record = RECORD(dictionary_fields),
                                  data_v2_record = RECORD(data_v2_fields);
static const struct thrift_field page_fields[] = {
    {1, THRIFT_INT, PLACE(type), NULL},         {2, THRIFT_INT, PLACE(raw_bytes), NULL},
    {3, THRIFT_INT, PLACE(packed_bytes), NULL}, {4, THRIFT_INT, PLACE(crc), NULL},
    {5, THRIFT_STRUCT, 0, &data_record},        {7, THRIFT_STRUCT, 0, &dictionary_record},
    {8, THRIFT_STRUCT, 0, &data_v2_record},
};
static const struct thrift_record page_record = RECORD(page_fields);

// By number.
static const struct block_codec *const codecs[] = {&block_none,   &block_snappy,     &block_gzip, NULL,
                                                   &block_brotli, &block_lz4_hadoop, &block_zstd, &block_lz4};

static int damaged(const struct parquet_column *column, const char *problem) {
    return column_damaged(&column->file->columns, column->page_at, problem);
}

// ---- bytes of the file ----

static size_t in_window(const struct parquet_column *column) {
    return column->window.length - column->used;
}

static const unsigned char *window_at(const struct parquet_column *column) {
    return (const unsigned char *)column->window.data + column->used;
}

static uint64_t position(const struct parquet_column *column) {
    return column->window_begin + column->used;
}

uint64_t parquet_column_position(const void *column) {
    return position(column);
}

// Makes sure that the window holds `count` bytes, or all that are left of the data.
static int need(struct parquet_column *column, size_t count) {
    struct buffer *window = &column->window;
    size_t have = in_window(column);
    uint64_t next = column->window_begin + window->length, limit = column->file->columns.data_end;
    if (have >= count || next >= limit)
        return 0;
    // Chunks of old writers are longer than they say.
    uint64_t wanted = count - have, chunk_left = next < column->end ? column->end - next : 0;
    // What is read before its page is needed may have to be moved; a request to a server takes longer than that.
    const uint64_t least = column->file->columns.input->descriptor < 0 ? REMOTE_READ_BYTES : READ_BYTES;
    if (wanted < least && wanted < chunk_left)
        wanted = chunk_left < least ? chunk_left : least;
    if (wanted > limit - next)
        wanted = limit - next;
    if (have > 0)
        memmove(window->data, window_at(column), have);
    column->window_begin += column->used;
    column->used = 0;
    window->length = have;
    buffer_reserve(window, (size_t)wanted);
    TRY(table_read_at(column->file->columns.input, next, window->data + have, (size_t)wanted));
    window->length += (size_t)wanted;
    return 0;
}

static int read_header(struct parquet_column *column, struct page_header *header) {
    column->page_at = position(column);
    for (size_t wanted = LEAST_HEADER_BYTES;; wanted *= 4) {
        TRY(need(column, wanted));
        struct thrift_input input = {.at = window_at(column), .end = window_at(column) + in_window(column)};
        *header = (struct page_header){.is_compressed.value = true};
        if (in_window(column) > 0 && thrift_read(&input, &page_record, header)) {
            column->used += (size_t)(input.at - window_at(column));
            return 0;
        }
        if (!input.is_cut || in_window(column) < wanted)
            return damaged(column, input.problem ? input.problem : "its pages end early");
    }
}

// ---- pages ----

static const char wrong_size[] = "a page cannot be decompressed to the size that it says";

// Decompresses the page after the first `plain` bytes of it, which are not compressed.
static int unpack_page(struct parquet_column *column, const struct page_header *header, size_t plain,
                       struct buffer *page) {
    size_t packed_bytes = (size_t)header->packed_bytes.value, raw_bytes = (size_t)header->raw_bytes.value;
    const unsigned char *packed = window_at(column);
    const struct block_codec *codec = column->codec;
    if (raw_bytes - plain > (packed_bytes - plain) * codec->most_growth)
        return damaged(column, wrong_size);
    buffer_clear(page);
    buffer_reserve(page, raw_bytes + 1);
    memcpy(page->data, packed, plain);
    const struct codec_block block = {packed + plain, packed_bytes - plain, (unsigned char *)page->data + plain,
                                      raw_bytes - plain};
    // A page without values may have no bytes at all, not even those of an empty compressed block.
    bool is_empty = block.in_bytes == 0 && block.out_bytes == 0;
    int status = is_empty ? 1 : block_codec_unpack(codec, &column->codec_state, &block);
    if (status < 0)
        return error_context("%s", column->file->columns.input->name);
    page->length = raw_bytes;
    page->data[raw_bytes] = 0;
    return status > 0 ? 0 : damaged(column, wrong_size);
}

static int check_page(struct parquet_column *column, const struct page_header *header) {
    const int64_t packed = header->packed_bytes.value, raw = header->raw_bytes.value;
    if (packed < 0 || packed > INT32_MAX || raw < 0 || raw > INT32_MAX || header->values.value < 0 ||
        header->values.value > INT32_MAX)
        return damaged(column, "the sizes of a page are out of range");
    if ((uint64_t)packed > column->file->columns.data_end - position(column))
        return damaged(column, "a page is longer than the file");
    TRY(need(column, (size_t)packed));
    if (header->crc.is_set && crc32_ieee(window_at(column), (size_t)packed) != (uint32_t)header->crc.value)
        return damaged(column, "the checksum of a page is wrong");
    return 0;
}

static int take_dictionary(struct parquet_column *column, const struct page_header *header) {
    const char *problem;
    struct parquet_texts texts = {0};
    uint64_t count = (uint64_t)header->values.value;
    if (column->dictionary)
        return damaged(column, "there is a second dictionary");
    TRY(unpack_page(column, header, 0, &column->dictionary_page));
    const unsigned char *at = (const unsigned char *)column->dictionary_page.data;
    // Each takes the bytes of its length at least.
    if (count > column->dictionary_page.length / LENGTH_BYTES)
        return damaged(column, "its dictionary ends early");
    column->dictionary = memory_alloc((size_t)(count + 1) * sizeof *column->dictionary);
    bool is_good = parquet_texts_open(&texts, PARQUET_PLAIN, at, at + column->dictionary_page.length, count, &problem);
    for (uint64_t i = 0; i < count && is_good; i++)
        is_good = parquet_texts_next(&texts, &column->dictionary[i]);
    column->texts.dictionary = column->dictionary;
    column->texts.dictionary_count = count;
    return is_good ? 0 : damaged(column, "its dictionary ends early");
}

static int bits_of(int most) {
    int bits = 0;
    for (; most > 0; most >>= 1)
        bits++;
    return bits;
}

// Levels of version 1: their length, then runs; none if there is only one level. Returns where they end.
static const unsigned char *take_levels(struct parquet_runs *runs, const unsigned char *at, const unsigned char *end,
                                        int most, const struct page_header *header, int64_t encoding) {
    uint32_t length;
    *runs = (struct parquet_runs){.width = bits_of(most)};
    if (most == 0 || !at)
        return at;
    if (encoding != PARQUET_RLE && encoding != PARQUET_BIT_PACKED)
        return NULL;
    if (encoding == PARQUET_BIT_PACKED) {
        uint64_t bytes = ((uint64_t)header->values.value * (uint64_t)runs->width + 7) / 8;
        if (bytes > (uint64_t)(end - at))
            return NULL;
        runs->is_old = true;
        runs->at = at;
        return runs->end = at + bytes;
    }
    if (end - at < LENGTH_BYTES)
        return NULL;
    memcpy(&length, at, sizeof length);
    at += LENGTH_BYTES;
    if (length > (uint64_t)(end - at))
        return NULL;
    runs->at = at;
    return runs->end = at + length;
}

static int take_data(struct parquet_column *column, const struct page_header *header) {
    const char *problem = "the levels of a page are longer than the page, or packed in an unknown way";
    const struct parquet_levels *levels = column->levels;
    const size_t raw = (size_t)header->raw_bytes.value;
    bool is_v2 = header->type.value == PAGE_DATA_V2;
    int64_t repetitions = is_v2 ? header->repetition_bytes.value : 0;
    int64_t definitions = is_v2 ? header->definition_bytes.value : 0;
    if (repetitions < 0 || definitions < 0 || repetitions > INT32_MAX || definitions > INT32_MAX ||
        repetitions + definitions > header->raw_bytes.value || repetitions + definitions > header->packed_bytes.value)
        return damaged(column, problem);
    if (header->values.value > column->values_left)
        return damaged(column, "a page has more values than its column");
    // A page that is stored as it is stays in the window until the next one is read.
    const unsigned char *at = window_at(column);
    bool is_stored = !header->is_compressed.value || column->codec == &block_none;
    if (is_stored && header->packed_bytes.value != header->raw_bytes.value)
        return damaged(column, wrong_size);
    if (!is_stored) {
        TRY(unpack_page(column, header, (size_t)(repetitions + definitions), &column->page));
        at = (const unsigned char *)column->page.data;
    }
    const unsigned char *end = at + raw;
    if (is_v2) {
        column->repetitions =
            (struct parquet_runs){.at = at, .end = at + repetitions, .width = bits_of(levels->most_repetition)};
        at += repetitions;
        column->definitions =
            (struct parquet_runs){.at = at, .end = at + definitions, .width = bits_of(levels->most_definition)};
        at += definitions;
    } else {
        at = take_levels(&column->repetitions, at, end, levels->most_repetition, header,
                         header->repetition_encoding.value);
        at = take_levels(&column->definitions, at, end, levels->most_definition, header,
                         header->definition_encoding.value);
    }
    column->page_left = header->values.value;
    column->values_left -= column->page_left;
    bool is_good = at && parquet_texts_open(&column->texts, header->encoding.value, at, end,
                                            (uint64_t)header->values.value, &problem);
    return is_good ? 0 : damaged(column, problem);
}

static int read_page(struct parquet_column *column) {
    struct page_header header;
    TRY(read_header(column, &header));
    TRY(check_page(column, &header));
    int status = 0;
    if (header.type.value == PAGE_DICTIONARY)
        status = take_dictionary(column, &header);
    else if (header.type.value == PAGE_DATA || header.type.value == PAGE_DATA_V2)
        status = take_data(column, &header);
    column->used += (size_t)header.packed_bytes.value;
    return status;
}

// ---- entries ----

int parquet_column_next(void *state, struct column_entry *entry) {
    struct parquet_column *column = state;
    const struct parquet_levels *levels = column->levels;
    uint32_t repetition = 0, definition = 0;
    struct thrift_text text = {0};
    while (column->page_left == 0) {
        if (column->values_left == 0)
            return 0;
        TRY(read_page(column));
    }
    column->page_left--;
    if ((levels->most_repetition > 0 && !parquet_runs_next(&column->repetitions, &repetition)) ||
        (levels->most_definition > 0 && !parquet_runs_next(&column->definitions, &definition)))
        return damaged(column, "the levels of a page end early");
    if (repetition > (uint32_t)levels->most_repetition || definition > (uint32_t)levels->most_definition)
        return damaged(column, "a level of a page is higher than its column has");
    entry->begins_row = repetition == 0;
    entry->has_value = definition == (uint32_t)levels->most_definition;
    if (entry->has_value && !parquet_texts_next(&column->texts, &text))
        return damaged(column, "the values of a page are damaged");
    entry->text = text.bytes;
    entry->length = text.length;
    return 1;
}

static int check_chunk(const struct column_file *file, const struct parquet_chunk *chunk, const char *path) {
    const char *name = file->input->name;
    if (chunk->is_encrypted)
        return bad_data(
            "%s: the column %s is encrypted; decrypt the file first, e.g. with pyarrow, which takes the keys", name,
            path);
    if (chunk->is_elsewhere)
        return bad_data("%s: the column %s is in another file; write it as one file", name, path);
    const int64_t codec = chunk->codec.value;
    if (codec < 0 || codec >= (int64_t)(sizeof codecs / sizeof codecs[0]) || !codecs[codec])
        return bad_data("%s: the column %s is compressed with codec %" PRId64 "%s; write the file with zstd or snappy",
                        name, path, codec, codec == 3 ? " (LZO)" : "");
    return 0;
}

int parquet_column_begin(void **begun, const struct column_file *columns, int64_t group, int64_t leaf) {
    const struct parquet_file *file = (const struct parquet_file *)columns;
    const struct parquet_chunk *chunk = parquet_file_chunk(file, group, leaf);
    TRY(check_chunk(columns, chunk, columns->leaves[leaf].path));
    int64_t begin = chunk->dictionary_page.value > 0 && chunk->dictionary_page.value < chunk->data_page.value
                        ? chunk->dictionary_page.value
                        : chunk->data_page.value;
    // Without values there may be no pages, and then no place where they begin.
    if (chunk->values.value == 0)
        begin = 0;
    else if (chunk->values.value < 0 || begin < LENGTH_BYTES || (uint64_t)begin >= columns->data_end ||
             chunk->packed_bytes.value < 0 || (uint64_t)chunk->packed_bytes.value > columns->data_end)
        return column_damaged(columns, columns->data_end, "a column lies outside of the file");
    struct parquet_column *column = memory_alloc(sizeof *column);
    *column = (struct parquet_column){.file = file,
                                      .levels = &file->levels[leaf],
                                      .codec = codecs[chunk->codec.value],
                                      .window_begin = (uint64_t)begin,
                                      .end = (uint64_t)begin + (uint64_t)chunk->packed_bytes.value,
                                      .values_left = chunk->values.value};
    *begun = column;
    return 0;
}

void parquet_column_end(void *state) {
    struct parquet_column *column = state;
    if (!column)
        return;
    block_codec_close(column->codec, column->codec_state);
    buffer_free(&column->window);
    buffer_free(&column->page);
    buffer_free(&column->dictionary_page);
    buffer_free(&column->texts.text);
    free(column->dictionary);
    free(column);
}
