// Tables as lines (tests/golden/make_tables.py): every encoding and codec, truncated and damaged files, the errors that
// name columns; and Apache's test files where they are.
#include "data/extract/codec.h"
#include "data/extract/reader.h"
#include "data/extract/text_format.h"
#include "base/error.h"
#include "fixture.h"
#include "reading.h"

static const char *const names[] = {"text", "language", "large", "meta.url", "tags", "messages.content"};
static const struct table_columns columns = {names, sizeof names / sizeof names[0]};

// All lines of a table; -1 with an error.
static int read_table(const char *path, const struct table_columns *wanted, int threads, size_t step,
                      struct buffer *out) {
    struct reader *reader;
    int64_t got;
    buffer_clear(out);
    TRY(reader_open_columns(&reader, path, threads, wanted));
    do {
        buffer_reserve(out, step);
        got = reader_read(reader, out->data + out->length, step);
        out->length += got > 0 ? (size_t)got : 0;
    } while (got > 0);
    reader_close(reader);
    return (int)got;
}

static bool equals(const struct buffer *a, const struct buffer *b) {
    return a->length == b->length && memcmp(a->data, b->data, a->length) == 0;
}

static const char *const parquet_files[] = {"dictionary_snappy_v1", "dictionary_snappy_v2", "dictionary_zstd_v1",
                                            "dictionary_zstd_v2",   "lengths_gzip_v1",      "lengths_gzip_v2",
                                            "plain_lz4_v1",         "plain_lz4_v2",         "plain_none_v1",
                                            "plain_none_v2",        "prefixes_brotli_v1",   "prefixes_brotli_v2"};
enum { PARQUET_FILES = sizeof parquet_files / sizeof parquet_files[0] };

TEST(every_encoding_and_codec_gives_the_rows) {
    struct buffer expected = {0}, out = {0};
    EXPECT_OK(file_read_all("tests/golden/tables/rows.jsonl", 1 << 20, &expected));
    for (int i = 0; i < PARQUET_FILES; i++) {
        char *path = memory_printf("tests/golden/tables/%s.parquet", parquet_files[i]);
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
    for (size_t length = 4; length < bytes.length; length += 3) {
        write_quickly(damaged, &bytes, length);
        EXPECT(read_table(damaged, &columns, 1, 1 << 20, &out) < 0);
        EXPECT(strstr(error_message(), "Parquet data is damaged at byte "));
    }
    uint32_t footer_bytes;
    memcpy(&footer_bytes, bytes.data + bytes.length - 8, 4);
    int refused = 0;
    for (size_t at = 4; at < bytes.length; at++) {
        bytes.data[at] ^= (char)(1 << at % 8);
        write_quickly(damaged, &bytes, bytes.length);
        bool is_data = at < bytes.length - 8 - footer_bytes;
        int status = read_table(damaged, &columns, at % 2 ? 3 : 1, 1 << 20, &out);
        EXPECT(status < 0 || !is_data || equals(&out, &expected));
        refused += status < 0;
        bytes.data[at] ^= (char)(1 << at % 8);
    }
    EXPECT(refused > (int)bytes.length / 2);
    free(damaged);
    scratch_close();
    buffer_free(&bytes);
    buffer_free(&expected);
    buffer_free(&out);
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
          TEST_CASE(columns_are_found_by_path_and_by_name), TEST_CASE(tables_are_no_text_for_readers_of_text),
          TEST_CASE(apache_files_are_read_or_refused_by_name))
