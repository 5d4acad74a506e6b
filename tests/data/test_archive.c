// Archives as lines (tests/golden/make_tables.py): members of tar and records of WET, cut and changed ones, and pages.
#include "base/error.h"
#include "data/extract/inputs.h"
#include "data/extract/reader.h"
#include "fixture.h"
#include "reading.h"

static const char *const text = "text", *const both[] = {"url", "text"};
static const struct table_columns one = {&text, 1}, two = {both, 2};

static const char members[] =
    "{\"text\":\"one\"}\n{\"text\":\"two\"}\n{\"text\":\"a \\\"text\\\"\\nof lines\\n\"}\n{\"text\":\"\"}\n"
    "{\"text\":\"three\"}\n";

TEST(members_of_every_dialect_become_lines) {
    static const char *const files[] = {"gnu", "pax", "old"};
    struct buffer out = {0};
    for (int i = 0; i < 3; i++)
        for (size_t step = 7; step < 1 << 20; step *= 1000) {
            char *path = memory_printf("tests/golden/tables/%s.tar", files[i]);
            EXPECT_OK(read_table(path, &one, 1, step, &out));
            EXPECT(strcmp(buffer_string(&out), members) == 0);
            free(path);
        }
    buffer_free(&out);
}

TEST(archives_that_are_cut_or_changed_name_the_byte) {
    struct buffer bytes = {0}, out = {0};
    EXPECT_OK(file_read_all("tests/golden/tables/gnu.tar", 1 << 20, &bytes));
    scratch_open();
    write_quickly(scratch_path("a.tar"), &bytes, 520);
    EXPECT_ERROR(read_table(scratch_path("a.tar"), &one, 1, 100, &out), "a.tar ends at byte 520, inside what it holds");
    write_quickly(scratch_path("a.tar"), &bytes, 600);
    EXPECT_ERROR(read_table(scratch_path("a.tar"), &one, 1, 100, &out), "a.tar ends at byte 600, inside what it holds");
    bytes.data[1024] ^= 1;
    write_quickly(scratch_path("a.tar"), &bytes, bytes.length);
    EXPECT_ERROR(read_table(scratch_path("a.tar"), &one, 1, 100, &out), "byte 1024: the header of a member is damaged");
    buffer_free(&bytes);
    buffer_free(&out);
    scratch_close();
}

// A member with its header; the sum of a header counts its own eight bytes as blanks.
static void append_member(struct buffer *archive, char type, const char *name, const char *content) {
    char header[512] = {0};
    size_t size = strlen(content);
    (void)snprintf(header, 100, "%s", name);
    (void)snprintf(header + 124, 12, "%011o", (unsigned)size);
    memcpy(header + 148, "        ", 8);
    header[156] = type;
    memcpy(header + 257, "ustar\00000", 8);
    unsigned sum = 0;
    for (size_t i = 0; i < sizeof header; i++)
        sum += (unsigned char)header[i];
    (void)snprintf(header + 148, 8, "%06o", sum);
    buffer_append(archive, header, sizeof header);
    memset(header, 0, sizeof header);
    buffer_append(archive, content, size);
    buffer_append(archive, header, (512 - size % 512) % 512);
}

TEST(members_of_rare_types) {
    static const struct {
        char types[2];
        const char *first, *problem;  // NULL: the second member, a text, is read
    } cases[] = {
        {{'D', '0'}, "Ya\0", NULL},
        {{'x', '0'}, "9 size=4\n", NULL},
        {{'x', '0'}, "7 path=", "a pax header is damaged"},
        {{'x', '0'}, "22 GNU.sparse.major=1\n", "a sparse file of GNU tar"},
    };
    struct buffer bytes = {0}, out = {0};
    scratch_open();
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        buffer_clear(&bytes);
        append_member(&bytes, cases[i].types[0], "first", cases[i].first);
        append_member(&bytes, cases[i].types[1], "second.txt", "text");
        append_member(&bytes, '0', "third.txt", "more");
        write_quickly(scratch_path("a.tar"), &bytes, bytes.length);
        if (cases[i].problem)
            EXPECT_ERROR(read_table(scratch_path("a.tar"), &one, 1, 100, &out), cases[i].problem);
        else
            EXPECT_OK(read_table(scratch_path("a.tar"), &one, 1, 100, &out));
        EXPECT(cases[i].problem || strcmp(buffer_string(&out), "{\"text\":\"text\"}\n{\"text\":\"more\"}\n") == 0);
    }
    buffer_free(&bytes);
    buffer_free(&out);
    scratch_close();
}

TEST(texts_of_records_become_rows) {
    struct buffer out = {0};
    static const char file[] = "tests/golden/tables/texts.wet.gz";
    if (read_table(file, &one, 1, 7, &out) < 0 && strstr(error_message(), "this build cannot read")) {
        test_skip("this build has no zlib");
        return;
    }
    EXPECT(strcmp(buffer_string(&out), "{\"text\":\"WARC/1.0 is\\r\\n\\r\\na \u00fc text\\n\"}\n{\"text\":\"\"}\n") ==
           0);
    EXPECT_OK(read_table(file, &two, 1, 7, &out));
    EXPECT(strstr(buffer_string(&out), "{\"url\":\"https://b.org/?q=1:2\",\"text\":\"\"}\n"));
    const char *body = "body";
    EXPECT_ERROR(read_table(file, &(struct table_columns){&body, 1}, 1, 7, &out), "only text, url; name the column");
    buffer_free(&out);
}

TEST(records_that_are_pages_or_damaged_are_refused) {
    static const struct {
        const char *record, *problem;
    } cases[] = {
        {"WARC/1.0\r\nWARC-Type: response\r\nContent-Length: 3\r\n\r\nabc\r\n\r\n",
         "byte 0: a web page as it was sent"},
        {"WARC/1.0\r\nWARC-Type: conversion\r\nContent-Length: 30\r\n\r\nabc\r\n\r\n", "ends at byte 62, inside"},
        {"WARC/1.0\r\nWARC-Type: conversion\r\nContent-Length: 3x\r\n\r\nabc",
         "byte 0: a WARC record ends early or has no"},
        {"WARC/1.0\r\nContent-Length: 3\r\n\r\nabc\r\n\r\nWORC", "byte 38: a WARC record does not begin with WARC/"},
        {"WARC/1.0\r\nContent-Length: 99999999999999999999\r\n\r\nabc", "ends early or has no"},
    };
    struct buffer bytes = {0}, out = {0};
    scratch_open();
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        buffer_clear(&bytes);
        buffer_append_string(&bytes, cases[i].record);
        write_quickly(scratch_path("a.warc"), &bytes, bytes.length);
        EXPECT_ERROR(read_table(scratch_path("a.warc"), &one, 1, 100, &out), cases[i].problem);
    }
    buffer_free(&bytes);
    buffer_free(&out);
    scratch_close();
}

TEST_MAIN(TEST_CASE(members_of_every_dialect_become_lines), TEST_CASE(archives_that_are_cut_or_changed_name_the_byte),
          TEST_CASE(members_of_rare_types), TEST_CASE(texts_of_records_become_rows),
          TEST_CASE(records_that_are_pages_or_damaged_are_refused))
