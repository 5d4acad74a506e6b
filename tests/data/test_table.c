// Tables as lines (tests/golden/make_tables.py): every encoding and codec, truncated and damaged files, the errors that
// name columns; and Apache's test files where they are.
#include "data/extract/codec.h"
#include "data/extract/reader.h"
#include "data/extract/inputs.h"
#include "base/error.h"
#include "fixture.h"
#include "reading.h"
#include <fcntl.h>

static const char *const names[] = {"text", "language", "large", "meta.url", "tags", "messages.content"};
static const struct table_columns columns = {names, sizeof names / sizeof names[0]};

static bool equals(const struct buffer *a, const struct buffer *b) {
    return a->length == b->length && memcmp(a->data, b->data, a->length) == 0;
}

static const char *const files[] = {"dictionary_snappy_v1.parquet",
                                    "dictionary_snappy_v2.parquet",
                                    "dictionary_zstd_v1.parquet",
                                    "dictionary_zstd_v2.parquet",
                                    "lengths_gzip_v1.parquet",
                                    "lengths_gzip_v2.parquet",
                                    "plain_lz4_v1.parquet",
                                    "plain_lz4_v2.parquet",
                                    "plain_none_v1.parquet",
                                    "plain_none_v2.parquet",
                                    "prefixes_brotli_v1.parquet",
                                    "prefixes_brotli_v2.parquet",
                                    "stream.arrow",
                                    "lz4.arrow",
                                    "zstd.arrow"};
enum { FILES = sizeof files / sizeof files[0] };

TEST(every_encoding_and_codec_gives_the_rows) {
    struct buffer expected = {0}, out = {0};
    EXPECT_OK(file_read_all("tests/golden/tables/rows.jsonl", 1 << 20, &expected));
    for (int i = 0; i < FILES; i++) {
        char *path = memory_printf("tests/golden/tables/%s", files[i]);
        for (int threads = 1; threads <= 3; threads += 2) {
            int status = read_table(path, &columns, threads, threads == 1 ? 7 : 1 << 20, &out);
            bool is_missing = status < 0 && strstr(error_message(), "this build cannot read");
            EXPECT(is_missing || (status == 0 && equals(&out, &expected)));
        }
        free(path);
    }
    buffer_free(&expected);
    buffer_free(&out);
}

// Truncated anywhere, the footer is missing. Every page has a checksum, so a changed bit of the data is an error or is
// not part of any page that is read.
TEST(damage_is_an_error_with_the_byte) {
    struct buffer bytes = {0}, expected = {0}, out = {0};
    scratch_open();
    char *damaged = memory_string(scratch_path("damaged.parquet"));
    EXPECT_OK(file_read_all("tests/golden/tables/rows.jsonl", 1 << 20, &expected));
    EXPECT_OK(file_read_all("tests/golden/tables/dictionary_snappy_v1.parquet", 1 << 20, &bytes));
    // One file is changed in place: writing thousands takes seconds.
    write_quickly(damaged, &bytes, bytes.length);
    int descriptor = open(damaged, O_RDWR);
    EXPECT(descriptor >= 0);
    for (size_t length = bytes.length - 1; length >= 4; length -= length < 7 ? 1 : 3) {
        EXPECT(ftruncate(descriptor, (off_t)length) == 0);
        EXPECT(read_table(damaged, &columns, 1, 1 << 20, &out) < 0);
        EXPECT(strstr(error_message(), "Parquet data is damaged at byte "));
    }
    uint32_t footer_bytes;
    memcpy(&footer_bytes, bytes.data + bytes.length - 8, 4);
    int refused = 0;
    EXPECT(pwrite(descriptor, bytes.data, bytes.length, 0) == (ssize_t)bytes.length);
    for (size_t at = 4; at < bytes.length; at++) {
        char changed = (char)(bytes.data[at] ^ 1 << at % 8);
        EXPECT(pwrite(descriptor, &changed, 1, (off_t)at) == 1);
        bool is_data = at < bytes.length - 8 - footer_bytes;
        int status = read_table(damaged, &columns, at % 2 ? 3 : 1, 1 << 20, &out);
        EXPECT(status < 0 || !is_data || equals(&out, &expected));
        refused += status < 0;
        EXPECT(pwrite(descriptor, bytes.data + at, 1, (off_t)at) == 1);
    }
    EXPECT(refused > (int)bytes.length / 2);
    close(descriptor);
    free(damaged);
    scratch_close();
    buffer_free(&bytes);
    buffer_free(&expected);
    buffer_free(&out);
}

// ---- files made here, since no writer makes such ----

struct made_table {
    const char *page;
    size_t page_bytes;
    int64_t page_values, chunk_values, rows;
    int64_t encoding, level_encoding, repetition, chunk_type;
    bool has_no_page, has_late_page, has_no_group, has_empty_struct, has_long_names;
    const char *gives, *problem;  // one of them
};

enum { MADE_INT = 6, MADE_TEXT = 8, MADE_LIST = 9, MADE_STRUCT = 12 };
enum { LONG_NAME_BYTES = 1 << 16, LONG_NAMES = 1100 };

static void put_number(struct buffer *out, uint64_t value) {
    for (; value >= 0x80; value >>= 7)
        buffer_append_byte(out, (char)(value | 0x80));
    buffer_append_byte(out, (char)value);
}

// A field's header: how far its number is from the one before, and its type.
static void put_field(struct buffer *out, int step, int type) {
    buffer_append_byte(out, (char)(step << 4 | type));
}

static void put_int(struct buffer *out, int step, int64_t value) {
    put_field(out, step, MADE_INT);
    put_number(out, (uint64_t)value << 1);
}

static void put_list(struct buffer *out, int step, uint64_t count) {
    put_field(out, step, MADE_LIST);
    put_field(out, 15, MADE_STRUCT);
    put_number(out, count);
}

// An element of the schema: a text if it has no children.
static void put_element(struct buffer *out, const char *name, size_t length, int64_t repetition, int64_t children) {
    if (children == 0)
        put_int(out, 1, 6);
    put_int(out, children == 0 ? 2 : 3, repetition);
    put_field(out, 1, MADE_TEXT);
    put_number(out, length);
    buffer_append(out, name, length);
    if (children != 0)
        put_int(out, 1, children > 0 ? children : 0);
    buffer_append_byte(out, 0);
}

static void put_schema(struct buffer *out, const struct made_table *made) {
    char *name = memory_alloc(LONG_NAME_BYTES);
    memset(name, 'n', LONG_NAME_BYTES);
    put_list(out, 1, made->has_long_names ? LONG_NAMES + 2 : 2 + made->has_empty_struct);
    put_element(out, "root", 4, 0, 1 + made->has_empty_struct);
    if (made->has_empty_struct)
        put_element(out, "none", 4, 0, -1);
    if (made->has_long_names)
        put_element(out, name, LONG_NAME_BYTES, 0, LONG_NAMES);
    for (int i = 0; i < (made->has_long_names ? LONG_NAMES : 1); i++)
        put_element(out, "text", 4, made->repetition, 0);
    free(name);
}

static void put_group(struct buffer *out, const struct made_table *made, size_t page_end) {
    put_list(out, 1, 1);
    put_field(out, 3, MADE_STRUCT);
    put_int(out, 1, made->chunk_type ? made->chunk_type : 6);
    put_int(out, 3, 0);
    put_int(out, 1, made->chunk_values);
    put_int(out, 1, (int64_t)page_end - 4);
    put_int(out, 1, (int64_t)page_end - 4);
    put_int(out, 2, made->has_no_page ? 0 : made->has_late_page ? (int64_t)page_end : 4);
    buffer_append(out, "\0", 2);
    put_int(out, 2, made->rows);
    buffer_append_byte(out, 0);
}

static void make_table(const struct made_table *made, struct buffer *out) {
    buffer_clear(out);
    buffer_append_string(out, "PAR1");
    put_int(out, 1, 0);
    put_int(out, 1, (int64_t)made->page_bytes);
    put_int(out, 1, (int64_t)made->page_bytes);
    put_field(out, 2, MADE_STRUCT);
    put_int(out, 1, made->page_values);
    put_int(out, 1, made->encoding);
    put_int(out, 1, made->level_encoding ? made->level_encoding : 3);
    put_int(out, 1, 3);
    buffer_append(out, "\0", 2);
    buffer_append(out, made->page, made->page_bytes);
    size_t footer = out->length;
    put_int(out, 1, 1);
    put_schema(out, made);
    put_int(out, 1, made->rows);
    if (made->has_no_group) {
        buffer_append(out, "\x19", 2);
    } else {
        put_list(out, 1, 1);
        put_group(out, made, footer);
    }
    buffer_append_byte(out, 0);
    uint32_t footer_bytes = (uint32_t)(out->length - footer);
    buffer_append(out, &footer_bytes, sizeof footer_bytes);
    buffer_append_string(out, "PAR1");
}

#define PAGE(bytes) .page = bytes, .page_bytes = sizeof bytes - 1
#define COUNT(number) .page_values = number, .chunk_values = number, .rows = number

TEST(strange_tables_are_read_and_hostile_ones_refused) {
    static const char two_rows[] = "{\"text\":\"a\"}\n{\"text\":\"bc\"}\n";
    static const struct made_table tables[] = {
        {PAGE("\1\0\0\0a\2\0\0\0bc"), COUNT(2), .gives = two_rows},
        {PAGE("\1\0\0\0a\2\0\0\0bc"), COUNT(2), .has_empty_struct = true, .gives = two_rows},
        {PAGE("\2\0\0\0\4\1\1\0\0\0a\2\0\0\0bc"), COUNT(2), .repetition = 1, .gives = two_rows},
        {PAGE(""), .has_no_page = true, .gives = ""},
        {PAGE(""), .has_no_group = true, .gives = ""},
        // 2^61 miniblocks of 8 values are no value at all, by which nothing can be divided.
        {PAGE("\x80\1\x80\x80\x80\x80\x80\x80\x80\x80\x20\1\0"), COUNT(1), .encoding = 6,
         .problem = "the lengths or indices of a page are damaged"},
        // Nulls without end.
        {PAGE("\7\0\0\0\x80\x80\x80\x80\x80\x40\0"), COUNT(INT64_C(1) << 40), .repetition = 1,
         .problem = "the sizes of a page are out of range"},
        {PAGE("\1\0\0\0a\2\0\0\0bc"), .page_values = 2, .chunk_values = 2, .rows = 1,
         .problem = "a column has more values than its row group has rows"},
        {PAGE("\1\0\0\0a\2\0\0\0bc"), .page_values = 2, .chunk_values = 2, .rows = 3,
         .problem = "a column has fewer values than its row group has rows"},
        {PAGE("\2\0\0\0\4\2\1\0\0\0a\2\0\0\0bc"), COUNT(2), .repetition = 1,
         .problem = "a level of a page is higher than its column has"},
        {PAGE("\2\0\0\0\4\1\1\0\0\0a\2\0\0\0bc"), COUNT(2), .repetition = 1, .level_encoding = 7,
         .problem = "packed in an unknown way"},
        {PAGE("\1\0\0\0a\2\0\0\0bc"), COUNT(2), .chunk_type = 5, .problem = "a row group does not fit the schema"},
        {PAGE(""), COUNT(2), .has_late_page = true, .problem = "a column lies outside of the file"},
        {PAGE(""), .has_long_names = true, .problem = "the names of its columns are too long"},
    };
    struct buffer bytes = {0}, out = {0};
    scratch_open();
    char *path = memory_string(scratch_path("made.parquet"));
    for (size_t i = 0; i < sizeof tables / sizeof tables[0]; i++) {
        make_table(&tables[i], &bytes);
        write_quickly(path, &bytes, bytes.length);
        int status = read_table(path, &(struct table_columns){names, 1}, 1, 1 << 16, &out);
        if (tables[i].problem)
            EXPECT(status < 0 && strstr(error_message(), tables[i].problem));
        else
            EXPECT(status == 0 && strcmp(buffer_string(&out), tables[i].gives) == 0);
    }
    free(path);
    scratch_close();
    buffer_free(&bytes);
    buffer_free(&out);
}

// Arrow has no checksums: what is damaged is an error or gives other text, and never ends early without a word.
TEST(arrow_that_is_cut_or_changed_is_refused) {
    static const char *const of_arrow[] = {"stream.arrow", "lz4.arrow"};
    struct buffer bytes = {0}, out = {0};
    scratch_open();
    for (int i = 0; i < 2; i++) {
        char *from = memory_printf("tests/golden/tables/%s", of_arrow[i]),
             *path = memory_string(scratch_path("cut.arrow"));
        int refused = 0, whole = 0;
        EXPECT_OK(file_read_all(from, 1 << 20, &bytes));
        for (size_t length = 13; length < bytes.length; length += 1 + length / 40) {
            write_quickly(path, &bytes, length);
            int status = read_table(path, &columns, 1, 1 << 20, &out);
            refused += status < 0 && strstr(error_message(), "Arrow data is damaged at byte ");
            whole += status == 0;
        }
        EXPECT(refused > 80 && whole <= (i == 0 ? 3 : 0));  // a stream may end after any message
        for (size_t at = 8; at < bytes.length; at += 1 + at / 40) {
            bytes.data[at] ^= 0x55;
            write_quickly(path, &bytes, bytes.length);
            EXPECT(read_table(path, &columns, 1 + (int)(at % 3), 1 << 20, &out) == 0 || *error_message());
            bytes.data[at] ^= 0x55;
        }
        free(path);
        free(from);
    }
    buffer_free(&bytes);
    buffer_free(&out);
    scratch_close();
}

TEST(columns_are_found_by_path_and_by_name) {
    static const char file[] = "tests/golden/tables/plain_none_v1.parquet";
    struct buffer out = {0};
    const char *path = "messages.list.element.content", *number = "number", *missing = "body";
    EXPECT_OK(read_table(file, &(struct table_columns){&path, 1}, 1, 100, &out));
    EXPECT(strncmp(out.data, "{\"messages.list.element.content\":[]}\n", 37) == 0);
    EXPECT_ERROR(read_table(file, &(struct table_columns){&number, 1}, 1, 100, &out), "no column \"number\" of text");
    EXPECT_ERROR(read_table(file, &(struct table_columns){&missing, 1}, 1, 100, &out),
                 "only text, language, large, meta.url, tags, messages.role, messages.content; name the column");
    buffer_free(&out);
}

TEST(tables_are_no_text_for_readers_of_text) {
    struct buffer out = {0};
    bool is_plain = true;
    static const char file[] = "tests/golden/tables/plain_none_v1.parquet";
    EXPECT_OK(text_format_find(&is_plain, TEXT_FORMAT_AUTO, file));
    EXPECT(!is_plain);
    EXPECT_ERROR(read_whole(file, 1, 100, &out), "is a Parquet file; `bevatron preprocess");
    buffer_free(&out);
}

// Apache's files, which are not part of the repository.
TEST(apache_files_are_read_or_refused_by_name) {
    static const struct {
        const char *file, *column, *begins, *problem;
    } rows[] = {
        {"alltypes_plain.parquet", "string_col", "{\"string_col\":\"0\"}\n{\"string_col\":\"1\"}\n", NULL},
        {"delta_encoding_required_column.parquet", "c_customer_id:", NULL, NULL},
        {"hadoop_lz4_compressed.parquet", "c1", "{\"c1\":\"abc\"}\n", NULL},
        {"nested_lists.snappy.parquet", "a", "{\"a\":[\"a\",\"b\",\"c\",\"d\"]}\n", NULL},
        {"encrypt_columns_and_footer.parquet.encrypted", "text", NULL, "is an encrypted Parquet file"},
        {"rle-dict-uncompressed-corrupt-checksum.parquet", "binary_field", NULL, "the checksum of a page is wrong"},
        {"int32_decimal.parquet", "value", NULL, "no column \"value\" of text, nor any other"},
    };
    struct buffer out = {0};
    const char *shared = getenv("BEVATRON_SHARED");
    char *folder = memory_printf("%s/data/parquet-testing", shared ? shared : "../shared");
    if (!file_is_folder(folder)) {
        test_skip("there are no files of apache/parquet-testing in ../shared/data");
        free(folder);
        return;
    }
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char *path = file_join(folder, rows[i].file);
        const struct table_columns one = {&rows[i].column, 1};
        if (rows[i].problem)
            EXPECT_ERROR(read_table(path, &one, 1, 1 << 20, &out), rows[i].problem);
        else
            EXPECT_OK(read_table(path, &one, 1, 1 << 20, &out));
        EXPECT(!rows[i].begins || strncmp(buffer_string(&out), rows[i].begins, strlen(rows[i].begins)) == 0);
        free(path);
    }
    free(folder);
    buffer_free(&out);
}

TEST_MAIN(TEST_CASE(every_encoding_and_codec_gives_the_rows), TEST_CASE(damage_is_an_error_with_the_byte),
          TEST_CASE(strange_tables_are_read_and_hostile_ones_refused),
          TEST_CASE(arrow_that_is_cut_or_changed_is_refused), TEST_CASE(columns_are_found_by_path_and_by_name),
          TEST_CASE(tables_are_no_text_for_readers_of_text), TEST_CASE(apache_files_are_read_or_refused_by_name))
