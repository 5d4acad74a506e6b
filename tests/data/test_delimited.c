// CSV, TSV and JSON arrays as lines: beside Python (tests/golden/make_delimited.py), rows cut anywhere, hostile files.
#include "data/extract/jsonl.h"
#include "data/extract/reader.h"
#include "data/extract/inputs.h"
#include "base/error.h"
#include "fixture.h"
#include "reading.h"

static const char *const names[] = {"text", "title"};
static const struct table_columns columns = {names, 2};

TEST(awkward_fields_are_those_of_python) {
    static const char *const files[] = {"awkward.csv", "awkward.tsv", "awkward.json"};
    struct buffer expected = {0}, out = {0};
    EXPECT_OK(file_read_all("tests/golden/tables/awkward.jsonl", 1 << 20, &expected));
    for (int i = 0; i < 3; i++) {
        char *path = memory_printf("tests/golden/tables/%s", files[i]);
        bool is_plain = true;
        EXPECT_OK(text_format_find(&is_plain, TEXT_FORMAT_AUTO, path));
        EXPECT(!is_plain);
        for (size_t step = 3; step < 10000; step *= 50) {
            EXPECT_OK(read_table(path, &columns, 1, step, &out));
            EXPECT_STRING(buffer_string(&out), expected.data);
        }
        free(path);
    }
    buffer_free(&expected);
    buffer_free(&out);
}

// The file NAME with this content; its lines are in out.
static int read_content(const char *name, const char *content, size_t length, struct buffer *out) {
    const struct buffer bytes = {.data = (char *)(uintptr_t)content, .length = length};
    char *path = memory_string(scratch_path(name));
    write_quickly(path, &bytes, length);
    int status = read_table(path, &columns, 1, 1 << 16, out);
    free(path);
    return status;
}

static const struct odd_file {
    const char *name, *content;
    size_t length;        // 0: that of the string
    const char *lines;    // or
    const char *problem;  // of the whole file
} odd_files[] = {
    {"a.csv", "text,title\na,b\n", .lines = "{\"text\":\"a\",\"title\":\"b\"}\n"},
    {"a.csv", "\xEF\xBB\xBFtext,title\r\n\r\n\"\",\r\na,b",
     .lines = "\n{\"text\":\"\",\"title\":\"\"}\n{\"text\":\"a\",\"title\":\"b\"}\n"},
    {"a.csv", "\"title\",x,text\r1,2,3\r", .lines = "{\"text\":\"3\",\"title\":\"1\"}\n"},
    {"a.csv", "text,title,text\n1,2,3\n", .lines = "{\"text\":\"3\",\"title\":\"2\"}\n"},
    {"a.csv", "text,title\na \"b\",'c'\n", .lines = "{\"text\":\"a \\\"b\\\"\",\"title\":\"'c'\"}\n"},
    {"a.csv", "text,title\n", .lines = ""},
    // Bad rows, and the next one.
    {"a.csv", "text,title\n\"a\n\",b,c\nd\n1,2\n",
     .lines = "!the row at line 2 of the file has 3 fields, but the header 2; fields with separators or line ends need "
              "quotes\n"
              "!the row at line 4 of the file has 1 field, but the header 2; fields with separators or line ends need "
              "quotes\n"
              "{\"text\":\"1\",\"title\":\"2\"}\n"},
    {"a.csv", "text,title\n\"a\" ,b\n1,2\n",
     .lines = "!line 2 of the file has text after the quote that ends a field; quotes in a field are doubled\n"
              "{\"text\":\"1\",\"title\":\"2\"}\n"},
    {"a.csv", "text,title\n1,2\na,\n\"b,c\n1,2\n",
     .lines = "{\"text\":\"1\",\"title\":\"2\"}\n{\"text\":\"a\",\"title\":\"\"}\n"
              "!line 4 of the file has a quote without an end, which takes in the rest of the file\n"},
    {"a.csv", "text,title\na,\0b\n1,2\n", 20,
     .lines = "!line 2 of the file has a NUL byte\n{\"text\":\"1\",\"title\":\"2\"}\n"},
    // Headers.
    {"a.csv", "", .problem = "has no column \"text\" of text, nor any other; name the column"},
    {"a.csv", "id;text\n1;a\n", .problem = "has no column \"text\" of text, only id;text; name the column"},
    {"a.tsv", "id,title\ttext\na\tb\n",
     .problem = "has no column \"title\" of text, only id,title, text; name the column"},
    {"a.csv", "\"text,title\n1,2\n", .problem = "a.csv:1: the header has a quote without an end"},
    {"a.csv", "text,\0title\n1,2\n", 16, .problem = "a.csv:1: the header has a NUL byte"},
    {"a.csv", "PK\003\004aaaaaaaa", .problem = "is a zip archive"},
    {"a.csv", "\xFF\xFEt\0e\0x\0t\0\n\0", 12, .problem = "is UTF-16 text; convert it: `iconv"},
    // JSON arrays.
    {"a.json", "\xEF\xBB\xBF [\n{\"text\":\"a\",\n \"x\":[{\"}\":1}]} , \"s\\\"],\",\"\"]\n",
     .lines = "{\"text\":\"a\",\r \"x\":[{\"}\":1}]} \n{\"text\":\"s\\\"],\"}\n{\"text\":\"\"}\n"},
    {"a.json", "[]", .lines = ""},
    {"a.json", " [ \n ] ", .lines = ""},
    {"a.txt", "[{\"text\":1}]", .lines = "{\"text\":1}\n"},
    {"a.json", "[1,{\"text\":\"\n{}\"},]",
     .lines = "1\n{\"text\":\"\r{}\"}\n!the JSON array has a comma without an element beside it\n"},
    {"a.json", "[{\"text\":\"a\"}\n{\"text\":\"b\"}]", .lines = "{\"text\":\"a\"}\r{\"text\":\"b\"}\n"},
    {"a.json", "[\"a\":\"b\"}]", .lines = "{\"text\":\"a\":\"b\"}}\n"},
    {"a.json", "[{\"text\":\"a\"}", .problem = "a.json ends at byte 13, inside its JSON array; copy or download"},
    {"a.json", "[{\"text\":\"a]", .problem = "inside its JSON array"},
    {"a.json", "[{}]\n[{}]", .problem = "byte 5: text follows the end of the JSON array; make lines"},
};

TEST(hostile_files_are_bad_rows_or_errors) {
    struct buffer out = {0};
    scratch_open();
    for (size_t i = 0; i < sizeof odd_files / sizeof odd_files[0]; i++) {
        const struct odd_file *file = &odd_files[i];
        size_t length = file->length ? file->length : strlen(file->content);
        if (file->problem)
            EXPECT_ERROR(read_content(file->name, file->content, length, &out), file->problem);
        else
            EXPECT_OK(read_content(file->name, file->content, length, &out));
        if (file->lines)
            EXPECT_STRING(out.data, file->lines);
    }
    scratch_close();
    buffer_free(&out);
}

// Files are read in pieces of 64 KiB; a mark may be the last byte of one and its second half the first of the next.
TEST(rows_are_cut_anywhere) {
    struct buffer content = {0}, out = {0}, expected = {0};
    scratch_open();
    for (int pad = 0; pad < 24; pad++) {
        buffer_clear(&content);
        buffer_clear(&expected);
        buffer_append_string(&content, "\xEF\xBB\xBFtext,title\r\n");
        for (int i = 0; i < (1 << 16) - 40 + pad; i++)
            buffer_append_byte(&content, 'x');
        buffer_printf(&expected, "{\"text\":\"%s\",\"title\":\"\"}\n{\"text\":\"\\\"a\\r\\n\",\"title\":\"b\\\"\"}\n",
                      content.data + 15);
        buffer_append_string(&content, ",\"\"\r\n\"\"\"a\r\n\",\"b\"\"\"\r\n");
        EXPECT_OK(read_content("a.csv", content.data, content.length, &out));
        EXPECT_STRING(out.data, expected.data);
    }
    scratch_close();
    buffer_free(&content);
    buffer_free(&expected);
    buffer_free(&out);
}

// A header is short, so that a file of another kind does not fill the memory.
TEST(an_endless_header_is_an_error) {
    struct buffer content = {0}, out = {0};
    scratch_open();
    buffer_append_string(&content, "text,title,\"");
    for (int i = 0; i < 1 << 20; i++)
        buffer_append_byte(&content, '\n');
    EXPECT_ERROR(read_content("a.csv", content.data, content.length, &out),
                 "a.csv:1: the row is longer than 1048576 bytes; check its quotes");
    scratch_close();
    buffer_free(&content);
    buffer_free(&out);
}

// The mark of bad rows may begin any line of JSON Lines, but it brings nothing unprintable into an error.
TEST(bad_rows_are_bad_lines) {
    static const char line[] = "!a\x1B[2J\xFF";
    struct jsonl_parser parser;
    jsonl_parser_init(&parser, &(struct jsonl_options){.keys = names, .key_count = 2});
    EXPECT_ERROR(jsonl_find(&parser, line, strlen(line)), "a?[2J?");
    jsonl_parser_free(&parser);
}

TEST_MAIN(TEST_CASE(awkward_fields_are_those_of_python), TEST_CASE(hostile_files_are_bad_rows_or_errors),
          TEST_CASE(rows_are_cut_anywhere), TEST_CASE(an_endless_header_is_an_error), TEST_CASE(bad_rows_are_bad_lines))
