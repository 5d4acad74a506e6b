// The line reader, and the scanning loops under it at every offset and length.
#include "test.h"

#include "base/json.h"
#include "base/memory.h"
#include "base/rng.h"
#include "base/json_lex.h"
#include "base/utf8.h"

static const char *const keys[] = {"text", "title"};

// Uses an exact copy on the heap, so that the sanitizer detects a read past the end.
static int find(const char *line, size_t length, struct json_text found[2]) {
    char *copy = malloc(length ? length : 1);
    memcpy(copy, line, length);
    int result = json_find_strings(copy, length, keys, found, 2);
    free(copy);
    return result;
}

TEST(members) {
    struct json_text found[2] = {0};
    const char *line = "{\"id\": 12, \"meta\": {\"text\": \"inner\", \"x\": [[], {}, NaN, -Infinity, Infinity]}, "
                       "\"text\": [\"first\", \"one\"], \"text\": \"a\\n\\u00e9\\u0000b\", \"te\": \"\", "
                       "\"t\\u0069tle\": [\"one\", \"\", \"\\ud83d\\ude00\"]}\r\n";
    EXPECT_OK(find(line, strlen(line), found));
    EXPECT(found[0].found && !found[0].is_array && found[1].found && found[1].is_array);
    EXPECT_INT(found[0].count, 1);
    EXPECT_INT(found[0].lengths[0], 6);
    EXPECT_INT(found[0].text.length, 6);
    EXPECT(memcmp(found[0].text.data, "a\n\xc3\xa9\0b", 7) == 0);
    EXPECT_INT(found[1].count, 3);
    EXPECT_INT(found[1].lengths[0], 3);
    EXPECT_INT(found[1].lengths[1], 0);
    EXPECT_INT(found[1].lengths[2], 4);
    EXPECT_STRING(found[1].text.data, "one\xf0\x9f\x98\x80");
    // The same memory again: nothing of the last line may remain.
    EXPECT_OK(find("{\"title\": []}", 13, found));
    EXPECT(!found[0].found && found[0].count == 0 && found[0].text.length == 0);
    EXPECT(found[1].found && found[1].is_array && found[1].count == 0 && found[1].text.length == 0);
    EXPECT_OK(find("{}", 2, found));
    EXPECT(!found[0].found && !found[1].found);
    EXPECT_OK(find("{\"text\": \"\"}", 12, found));
    EXPECT(found[0].found && found[0].count == 1 && found[0].lengths[0] == 0);
    // The last of equal names counts, whatever the types of the others.
    EXPECT_OK(find("{\"text\": null, \"text\": [1], \"text\": \"z\"}", 40, found));
    EXPECT_STRING(found[0].text.data, "z");
    json_text_free(&found[0]);
    json_text_free(&found[1]);
}

TEST(keys_compare_as_whole_text) {
    struct json_text found[2] = {0};
    EXPECT_OK(find("{\"tex\": \"a\", \"texts\": \"b\", \"text\\u0000\": \"c\"}", 45, found));
    EXPECT(!found[0].found);
    json_text_free(&found[0]);
}

TEST(refused) {
    static const char *const cases[][2] = {
        {"", "byte 0 of 0: not an object"},
        {"[\"text\"]", "not an object"},
        {"\"text\"", "not an object"},
        {"{\"text\": \"a\"", "byte 12 of 12"},
        {"{\"text\": \"a\"} x", "byte 14"},
        {"{\"text\": \"a}", "byte 9"},
        {"{\"text\": null}", "valid JSON, but \"text\" is null, not a string"},
        {"{\"text\": 5}", "\"text\" is a number"},
        {"{\"text\": \"a\", \"text\": true}", "\"text\" is a truth value"},
        {"{\"text\": null", "not a valid JSON line: byte 13 of 13"},
        {"{\"text\": {\"a\": \"b\"}}", "\"text\" is an object"},
        {"{\"text\": [\"a\", 5]}", "\"text\" is an array of something else than strings"},
        {"{\"text\": [\"a\",]}", "not a valid JSON line"},
        {"{\"text\": [\"a\" \"b\"]}", "byte 14"},
        {"{\"text\": \"a\",}", "byte 13"},
        {"{\"text\" \"a\"}", "colon"},
        {"{\"other\": \"a\tb\"}", "control"},
        {"{\"other\": [1, 2, 03]}", "leading zero"},
        {"{\"text\": \"\xff\"}", "byte 10 of 13: bytes that are not UTF-8"},
        {"{\"other\": \"\xff\"}", "UTF-8"},
        {"{\"\xff\": 1}", "UTF-8"},
        {"\xef\xbb\xbf{}", "byte order mark"},
    };
    struct json_text found[2] = {0};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        EXPECT_ERROR(find(cases[i][0], strlen(cases[i][0]), found), cases[i][1]);
        EXPECT_INT(error_exit_code(), EXIT_CODE_BAD_DATA);
    }
    const char *line = "{\"a\": [1, {\"b\": \"\\u00e9\"}], \"text\": \"x\xc3\xa9\\\\\", \"title\": [\"y\"]}";
    for (size_t length = 0; length < strlen(line); length++)
        EXPECT_ERROR(find(line, length, found), "not a valid JSON line");
    EXPECT_OK(find(line, strlen(line), found));
    json_text_free(&found[0]);
    json_text_free(&found[1]);
}

// One byte of every value, at every place of runs of up to 70 bytes: checks where the run ends, what was copied, and
// that nothing beyond the slack was touched.
TEST(scan_finds_every_byte_everywhere) {
    enum { MOST = 70 };
    for (size_t length = 0; length <= MOST; length += length < 40 ? 1 : 10) {
        char *text = malloc(length ? length : 1), *out = malloc(length + SCAN_SLACK_BYTES);
        for (int value = 0; value < 256; value++) {
            for (size_t at = 0; at <= length; at++) {
                memset(text, 'a', length);
                memset(out, '#', length + SCAN_SLACK_BYTES);
                if (at < length)
                    text[at] = (char)value;
                bool special = value < 0x20 || value == '"' || value == '\\';
                size_t run = special ? at : length;
                bool high = false, high_copied = false;
                EXPECT_INT(scan_plain(text, length, &high), run);
                EXPECT_INT(scan_copy_plain(out, text, length, &high_copied), run);
                EXPECT(high == (value >= 0x80 && at < length) && high_copied == high);
                EXPECT(memcmp(out, text, run) == 0);
                for (size_t i = run + SCAN_SLACK_BYTES; i < length + SCAN_SLACK_BYTES; i++)
                    EXPECT(out[i] == '#');
            }
        }
        free(text);
        free(out);
    }
}

// The bytes after the end of the run must not matter.
TEST(scan_ignores_what_follows) {
    char text[64];
    for (size_t at = 0; at < 48; at++) {
        memset(text, 0xC3, sizeof text);
        memset(text, 'a', at);
        text[at] = '"';
        bool high = false;
        EXPECT_INT(scan_plain(text, sizeof text, &high), at);
        EXPECT(!high);
        char out[64 + SCAN_SLACK_BYTES];
        EXPECT_INT(scan_copy_plain(out, text, sizeof text, &high), at);
        EXPECT(!high);
    }
}

// Random texts through the writer and back.
TEST(random_strings_survive) {
    struct mt19937 mt;
    struct json_text found[2] = {0};
    struct buffer line = {0}, text = {0};
    mt19937_seed(&mt, 3);
    for (int round = 0; round < 3000; round++) {
        buffer_clear(&line);
        buffer_clear(&text);
        uint64_t kind = mt19937_interval(&mt, 3), characters = mt19937_interval(&mt, 120);
        for (uint64_t i = 0; i < characters; i++) {
            static const uint32_t most[4] = {0x7F, 0x7FF, 0xFFFF, 0x10FFFF};
            char bytes[4];
            buffer_append(&text, bytes, utf8_encode((uint32_t)mt19937_interval(&mt, most[kind]), bytes));
        }
        struct json_writer w = {.out = &line};
        json_begin_object(&w);
        json_key(&w, "text");
        json_string(&w, buffer_string(&text), text.length);
        json_end_object(&w);
        EXPECT_OK(find(line.data, line.length, found));
        EXPECT_INT(found[0].text.length, text.length);
        EXPECT(memcmp(buffer_string(&found[0].text), buffer_string(&text), text.length) == 0);
    }
    json_text_free(&found[0]);
    buffer_free(&line);
    buffer_free(&text);
}

TEST_MAIN(TEST_CASE(members), TEST_CASE(keys_compare_as_whole_text), TEST_CASE(refused),
          TEST_CASE(scan_finds_every_byte_everywhere), TEST_CASE(scan_ignores_what_follows),
          TEST_CASE(random_strings_survive))
