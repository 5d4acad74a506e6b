// The JSON tree reader, typed members and the writer.
#include "test.h"

#include "base/file.h"
#include "base/json.h"
#include "base/memory.h"

static struct json *parse(const char *text) {
    struct json *root;
    if (json_parse(&root, text, strlen(text), "text") < 0)
        test_fail("%s", error_message());
    return root;
}

// The text must be refused with a message that contains `place`.
static void expect_bad(const char *text, size_t length, const char *place) {
    struct json *root;
    // An exact copy on the heap, so that the sanitizer detects a read past the end.
    char *copy = malloc(length ? length : 1);
    memcpy(copy, text, length);
    error_clear();
    int result = json_parse(&root, copy, length, "file.json");
    free(copy);
    if (result == 0)
        test_fail("accepted: %s", text);
    EXPECT(root == NULL);
    if (!strstr(error_message(), place) || !strstr(error_message(), "file.json"))
        test_fail("%s: message \"%s\" lacks \"%s\"", text, error_message(), place);
}

TEST(tree) {
    struct json *root = parse(" {\"a\": [1, -2.5e3, \"x\\u00e9\\ud83d\\ude00\\u0000y\", true, false, null, [], {}],\n"
                              "  \"\": {\"b\": {\"c\": 0}}, \"a\": 2} ");
    EXPECT_INT(root->type, JSON_OBJECT);
    EXPECT_INT(root->count, 3);
    EXPECT_STRING(root->keys[0].string, "a");
    EXPECT_INT(root->keys[1].length, 0);
    const struct json *a = json_member(root, "a");  // the first of the two
    EXPECT_INT(a->type, JSON_ARRAY);
    EXPECT_INT(a->count, 8);
    EXPECT(a->items[0].number == 1 && a->items[1].number == -2500);
    EXPECT_STRING(a->items[1].string, "-2.5e3");
    EXPECT_INT(a->items[2].length, 9);
    EXPECT(memcmp(a->items[2].string, "x\xc3\xa9\xf0\x9f\x98\x80\0y", 10) == 0);
    EXPECT_INT(a->items[3].type, JSON_TRUE);
    EXPECT_INT(a->items[4].type, JSON_FALSE);
    EXPECT_INT(a->items[5].type, JSON_NULL);
    EXPECT(a->items[6].type == JSON_ARRAY && a->items[6].count == 0);
    EXPECT(a->items[7].type == JSON_OBJECT && a->items[7].count == 0);
    EXPECT(json_member(json_member(json_member(root, ""), "b"), "c")->number == 0);
    EXPECT(json_member(root, "none") == NULL && json_member(a, "x") == NULL && json_member(NULL, "x") == NULL);
    json_free(root);
}

TEST(scalars_at_the_root) {
    struct json *root = parse("\"\"");
    EXPECT(root->type == JSON_STRING && root->length == 0 && root->string[0] == '\0');
    json_free(root);
    root = parse("-0");
    EXPECT(root->type == JSON_NUMBER && root->number == 0 && signbit(root->number));
    json_free(root);
    root = parse("\t\r\n null ");
    EXPECT_INT(root->type, JSON_NULL);
    json_free(root);
}

TEST(lone_surrogates_become_replacement) {
    struct json *root = parse("[\"\\ud800\", \"\\udc00x\", \"\\ud800\\u0041\", \"\\ud800\\ud83d\\ude00\"]");
    EXPECT_STRING(root->items[0].string, "\xef\xbf\xbd");
    EXPECT_STRING(root->items[1].string, "\xef\xbf\xbdx");
    EXPECT_STRING(root->items[2].string, "\xef\xbf\xbd"
                                         "A");
    EXPECT_STRING(root->items[3].string, "\xef\xbf\xbd\xf0\x9f\x98\x80");
    json_free(root);
}

TEST(refused) {
    static const char *const cases[][2] = {
        {"", "line 1, column 1 (byte 0)"},
        {"   ", "byte 3"},
        {"{", "byte 1"},
        {"[1,]", "byte 3"},
        {"[1 2]", "byte 3"},
        {"{\"a\" 1}", "byte 5"},
        {"{\"a\":}", "byte 5"},
        {"{\"a\":1,}", "byte 7"},
        {"{a:1}", "byte 1"},
        {"{'a':1}", "byte 1"},
        {"[1}", "byte 2"},
        {"01", "leading zero"},
        {"-", "minus"},
        {"+1", "expected a value"},
        {".5", "expected a value"},
        {"1.", "after its point"},
        {"1e", "exponent"},
        {"1e+", "exponent"},
        {"0x10", "byte 1"},
        {"NaN", "expected a value"},
        {"Infinity", "expected a value"},
        {"-Infinity", "minus"},
        {"nul", "true, false or null"},
        {"tru]", "true, false or null"},
        {"truex", "byte 4"},
        {"\"abc", "closing quote"},
        {"\"abc\\", "closing quote"},
        {"\"\\x41\"", "escape"},
        {"\"\\u12g4\"", "four hexadecimal digits"},
        {"\"\\u12", "four hexadecimal digits"},
        {"\"a\tb\"", "control character"},
        {"\"a\nb\"", "control character"},
        {"\"\x80\"", "UTF-8"},
        {"\"\xc0\xaf\"", "UTF-8"},
        {"\"\xed\xa0\x80\"", "UTF-8"},
        {"\"\xf4\x90\x80\x80\"", "UTF-8"},
        {"\"abc\xe2\x82\"", "byte 4"},
        {"\xef\xbb\xbf{}", "byte order mark"},
        {"{} {}", "byte 3"},
        {"// note\n1", "expected a value"},
        {"[1,\n  2,\n  \xc3\xa9]", "line 3, column 3 (byte 11)"},
        {"[\"\xc3\xa9\xc3\xa9\",\n\"\xc3\xa9\", ?]", "line 2, column 6 (byte 15)"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        expect_bad(cases[i][0], strlen(cases[i][0]), cases[i][1]);
    expect_bad("[1]\0", 4, "byte 3");
    expect_bad("\"a\0b\"", 5, "control character");
}

TEST(depth_is_bounded) {
    char text[4 * JSON_MAX_DEPTH];
    struct json *root;
    for (size_t depth = JSON_MAX_DEPTH; depth <= JSON_MAX_DEPTH + 1; depth++) {
        memset(text, '[', depth);
        memset(text + depth, ']', depth);
        int result = json_parse(&root, text, 2 * depth, "deep");
        EXPECT_INT(result, depth <= JSON_MAX_DEPTH ? 0 : -1);
        json_free(root);
    }
    EXPECT(strstr(error_message(), "64 levels"));
}

TEST(every_prefix_is_refused) {
    const char *text = "{\"key\\u00e9\": [1.5e-3, \"v\xc3\xa9\", true, null], \"b\": {\"c\": []}}";
    for (size_t length = 0; length < strlen(text); length++)
        expect_bad(text, length, "line 1");
    json_free(parse(text));
}

TEST(typed_members) {
    struct json *root = parse("{\"i\": -9223372036854775808, \"big\": 9223372036854775808, \"e\": 1e3, \"f\": 1.5, "
                              "\"huge\": 1e999, \"s\": \"text\", \"nul\": \"a\\u0000b\", \"l\": []}");
    int64_t i;
    double d;
    const char *s;
    EXPECT_OK(json_get_int(root, "i", &i));
    EXPECT(i == INT64_MIN);
    EXPECT_OK(json_get_int(root, "e", &i));
    EXPECT_INT(i, 1000);
    EXPECT_ERROR(json_get_int(root, "big", &i), "\"big\" holds 9223372036854775808, which does not fit");
    EXPECT_ERROR(json_get_int(root, "huge", &i), "does not fit");
    EXPECT_ERROR(json_get_int(root, "f", &i), "whole number");
    EXPECT_ERROR(json_get_int(root, "s", &i), "\"s\" holds a string, expected a number");
    EXPECT_ERROR(json_get_int(root, "no", &i), "\"no\" is missing");
    EXPECT_OK(json_get_double(root, "f", &d));
    EXPECT(d == 1.5);
    EXPECT_ERROR(json_get_double(root, "huge", &d), "does not fit");
    EXPECT_ERROR(json_get_double(root, "l", &d), "an array");
    EXPECT_OK(json_get_string(root, "s", &s));
    EXPECT_STRING(s, "text");
    EXPECT_ERROR(json_get_string(root, "nul", &s), "NUL");
    EXPECT_ERROR(json_get_string(root, "i", &s), "a number, expected a string");
    json_free(root);
}

TEST(files) {
    struct json *root;
    char path[] = "/tmp/bevatron-test-XXXXXX";
    EXPECT(mkstemp(path) >= 0);
    EXPECT_OK(file_write_all(path, "{\"a\": [1,\n 2}", 13));
    EXPECT_ERROR(json_parse_file(&root, path, 1000), "line 2, column 3");
    EXPECT(strstr(error_message(), path));
    EXPECT_ERROR(json_parse_file(&root, path, 12), "allowed here");
    EXPECT_OK(file_write_all(path, "", 0));
    EXPECT_ERROR(json_parse_file(&root, path, 12), "end of the text");
    EXPECT_OK(file_remove_tree(path));
    EXPECT_ERROR(json_parse_file(&root, path, 12), "No such file");
}

TEST(writer_layout) {
    struct buffer out = {0};
    struct json_writer w = {.out = &out};
    for (int indent = 0; indent <= 2; indent += 2) {
        w = (struct json_writer){.out = &out, .indent = indent};
        json_begin_object(&w);
        json_key(&w, "a");
        json_int(&w, INT64_MIN);
        json_key(&w, "b");
        json_begin_array(&w);
        json_bool(&w, true);
        json_null(&w);
        json_begin_object(&w);
        json_end_object(&w);
        json_begin_array(&w);
        json_end_array(&w);
        json_cstring(&w, NULL);
        json_cstring(&w, "s");
        json_end_array(&w);
        json_key(&w, "c");
        json_double(&w, 0.1);
        json_end_object(&w);
        if (indent == 0)
            buffer_append_byte(&out, '\n');
    }
    EXPECT_STRING(out.data, "{\"a\":-9223372036854775808,\"b\":[true,null,{},[],null,\"s\"],\"c\":0.1}\n"
                            "{\n  \"a\": -9223372036854775808,\n  \"b\": [\n    true,\n    null,\n    {},\n    [],\n"
                            "    null,\n    \"s\"\n  ],\n  \"c\": 0.1\n}");
    buffer_free(&out);
}

TEST(writer_strings) {
    struct buffer out = {0};
    struct json_writer w = {.out = &out};
    json_string(&w, "a\"\\/\b\f\n\r\t\x01\x1f\x7f\0é", 15);
    EXPECT_STRING(out.data, "\"a\\\"\\\\/\\b\\f\\n\\r\\t\\u0001\\u001f\x7f\\u0000é\"");
    buffer_clear(&out);
    w = (struct json_writer){.out = &out};
    // One U+FFFD per maximal subpart, as with Python's "replace".
    json_string(&w, "x\x80\xe2\x82y\xf0\x9f\x98\xc0\xafz\xed\xa0\x80", 14);
    EXPECT_STRING(out.data, "\"x��y���z���\"");
    buffer_free(&out);
}

static void expect_double(double value, const char *text) {
    struct buffer out = {0};
    struct json_writer w = {.out = &out};
    json_double(&w, value);
    EXPECT_STRING(out.data, text);
    buffer_free(&out);
}

TEST(writer_doubles) {
    expect_double(0, "0");
    expect_double(-0.0, "-0");
    expect_double(3, "3");
    expect_double(0.1, "0.1");
    expect_double(0.1 + 0.2, "0.30000000000000004");
    expect_double(1.0 / 3, "0.3333333333333333");
    expect_double(1e21, "1e+21");
    expect_double(5e-324, "5e-324");
    expect_double(2.2250738585072014e-308, "2.2250738585072014e-308");
    expect_double(1.7976931348623157e308, "1.7976931348623157e+308");
    expect_double(INFINITY, "null");
    expect_double(NAN, "null");
}

TEST_MAIN(TEST_CASE(tree), TEST_CASE(scalars_at_the_root), TEST_CASE(lone_surrogates_become_replacement),
          TEST_CASE(refused), TEST_CASE(depth_is_bounded), TEST_CASE(every_prefix_is_refused), TEST_CASE(typed_members),
          TEST_CASE(files), TEST_CASE(writer_layout), TEST_CASE(writer_strings), TEST_CASE(writer_doubles))
