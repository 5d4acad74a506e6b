// Chunks of lines: nothing is lost or cut at any chunk size, numbers and files are right, limits hold; the order and
// errors of the pipeline; JSON lines and bad ones.
#include "data/extract/inputs.h"
#include "data/extract/jsonl.h"
#include "data/extract/lines.h"
#include "data/pipeline.h"
#include "fixture.h"
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>

// Joins all lines as "FILE:NUMBER:LINE|", with '.' after those without a line end.
static void gather(const struct line_options *options, struct buffer *out) {
    struct line_reader *lines;
    struct line_chunk chunk = {0};
    buffer_clear(out);
    line_reader_open(&lines, options);
    int status;
    while ((status = line_reader_next(lines, &chunk)) > 0) {
        struct line_cursor cursor = {.chunk = &chunk};
        while (line_cursor_next(&cursor)) {
            buffer_printf(out, "%s:%" PRId64 ":", strrchr(chunk.path, '/') + 1, cursor.number);
            buffer_append(out, cursor.line, cursor.length);
            buffer_append_string(out, cursor.has_newline ? "|" : ".");
        }
    }
    EXPECT_OK(status);
    buffer_free(&chunk.text);
    line_reader_close(lines);
}

TEST(lines_are_the_same_for_every_chunk_size) {
    scratch_open();
    write_bytes(scratch_path("a"), "one\n\ntwo\r\nthree is longer than the others", 41);
    write_bytes(scratch_path("b"), "", 0);
    write_bytes(scratch_path("c"),
                "\xEF\xBB\xBF"
                "bom\n\xEF\xBB\xBF"
                "kept\n\n",
                16);
    const char *paths[] = {scratch_path("a"), scratch_path("b"), scratch_path("c")};
    struct buffer out = {0};
    for (size_t chunk = 1; chunk < 60; chunk++) {
        gather(&(struct line_options){.paths = paths, .path_count = 3, .chunk_bytes = chunk}, &out);
        EXPECT_STRING(out.data, "a:1:one|a:2:|a:3:two\r|a:4:three is longer than the others.c:1:bom|c:2:\xEF\xBB\xBF"
                                "kept|c:3:|");
    }
    buffer_free(&out);
    scratch_close();
}

TEST(long_lines_have_a_limit) {
    scratch_open();
    struct buffer text = {0};
    buffer_append_string(&text, "short\n");
    for (int i = 0; i < 5000; i++)
        buffer_append_byte(&text, 'x');
    buffer_append_string(&text, "\nshort\n");
    write_bytes(scratch_path("a"), text.data, text.length);
    const char *path = scratch_path("a");
    for (size_t chunk = 100; chunk < 20000; chunk *= 3) {
        struct line_options options = {.paths = &path, .path_count = 1, .chunk_bytes = chunk, .line_limit = 5000};
        struct line_reader *lines;
        struct line_chunk piece = {0};
        line_reader_open(&lines, &options);
        int status;
        while ((status = line_reader_next(lines, &piece)) > 0)
            ;
        EXPECT_OK(status);
        line_reader_close(lines);
        options.line_limit = 4999;
        line_reader_open(&lines, &options);
        while ((status = line_reader_next(lines, &piece)) > 0)
            ;
        EXPECT_INT(status, -1);
        EXPECT(strstr(error_message(), "a:2: the line is longer than 4999 bytes"));
        line_reader_close(lines);
        buffer_free(&piece.text);
    }
    buffer_free(&text);
    scratch_close();
}

// A pipe that never ends its line: the reader stops at the limit, so the writer is told at once.
TEST(endless_lines_end) {
    scratch_open();
    const char *path = scratch_path("pipe");
    EXPECT(mkfifo(path, 0600) == 0);
    signal(SIGPIPE, SIG_IGN);
    pid_t writer = fork();
    if (writer == 0) {
        int descriptor = open(path, O_WRONLY);
        char block[4096];
        memset(block, 'x', sizeof block);
        while (write(descriptor, "short\n", 6) < 0)
            ;
        while (write(descriptor, block, sizeof block) > 0)
            ;
        _exit(7);
    }
    struct line_file *file;
    struct line_piece piece = {0};
    EXPECT_OK(line_file_open(
        &file, &(struct line_file_options){.path = path, .threads = 1, .piece_bytes = 1 << 16, .line_limit = 100000}));
    int64_t short_lines = 0, long_lines = 0;
    while (line_file_next(file, &piece) > 0) {
        EXPECT_OK(line_piece_fill(&piece));
        short_lines += piece.text.length > 0;
        long_lines += piece.too_long;
        EXPECT(piece.text.capacity < 1 << 20);
    }
    line_file_close(file);
    EXPECT_INT(short_lines, 1);
    EXPECT_INT(long_lines, 1);
    int status;
    EXPECT(waitpid(writer, &status, 0) == writer);
    EXPECT_INT(WEXITSTATUS(status), 7);
    line_piece_free(&piece);
    scratch_close();
}

// ---- the pipeline ----

struct line_stream {
    int64_t produced, consumed, total;
    int64_t fail_produce, fail_work, fail_consume;  // at this number
    int running, most_running;
};

static int produce_number(void *context, void *item) {
    struct line_stream *stream = context;
    if (stream->produced == stream->fail_produce)
        return error_set("produce %" PRId64, stream->produced);
    if (stream->produced == stream->total)
        return 0;
    *(int64_t *)item = stream->produced++;
    return 1;
}

static int square_number(void *context, void *item, int thread) {
    struct line_stream *stream = context;
    int64_t *number = item;
    if (*number >= stream->fail_work)
        return error_set("work %" PRId64 " on thread %d", *number, thread);
    for (volatile int spin = (int)(*number * 7919 % 20000); spin > 0; spin--)
        ;
    *number = *number * *number;
    return 0;
}

static int check_number(void *context, void *item) {
    struct line_stream *stream = context;
    if (stream->consumed == stream->fail_consume)
        return error_set("consume %" PRId64, stream->consumed);
    int64_t expected = stream->consumed * stream->consumed;
    stream->consumed++;
    return *(int64_t *)item == expected ? 0 : error_set("out of order at %" PRId64, stream->consumed - 1);
}

static int run_stream(struct line_stream *stream, int threads, int items) {
    struct pipeline pipeline = {.threads = threads,
                                .items = items,
                                .item_bytes = sizeof(int64_t),
                                .context = stream,
                                .produce = produce_number,
                                .work = square_number,
                                .consume = check_number};
    return pipeline_run(&pipeline);
}

TEST(results_come_in_order) {
    for (int threads = 1; threads <= 8; threads++)
        for (int items = 1; items <= 16; items += 5) {
            struct line_stream stream = {.total = 500, .fail_produce = -1, .fail_work = INT64_MAX, .fail_consume = -1};
            EXPECT_OK(run_stream(&stream, threads, items));
            EXPECT_INT(stream.consumed, 500);
        }
}

// Everything before the first error is consumed, and that error is reported, whichever thread was faster.
TEST(the_first_error_in_order_counts) {
    for (int threads = 1; threads <= 6; threads++) {
        struct line_stream stream = {.total = 300, .fail_produce = -1, .fail_work = 123, .fail_consume = -1};
        EXPECT_ERROR(run_stream(&stream, threads, 12), "work 123 ");
        EXPECT_INT(stream.consumed, 123);
        stream = (struct line_stream){.total = 300, .fail_produce = 77, .fail_work = 90, .fail_consume = -1};
        EXPECT_ERROR(run_stream(&stream, threads, 12), "produce 77");
        EXPECT_INT(stream.consumed, 77);
        stream = (struct line_stream){.total = 300, .fail_produce = -1, .fail_work = 60, .fail_consume = 50};
        EXPECT_ERROR(run_stream(&stream, threads, 12), "consume 50");
    }
}

TEST(an_empty_stream_ends) {
    struct line_stream stream = {.total = 0, .fail_produce = -1, .fail_work = INT64_MAX, .fail_consume = -1};
    EXPECT_OK(run_stream(&stream, 3, 6));
}

// ---- inputs ----

TEST(patterns_are_expanded_in_byte_order) {
    scratch_open();
    write_bytes(scratch_path("b.txt"), "b", 1);
    write_bytes(scratch_path("a.txt"), "aa", 2);
    write_bytes(scratch_path("B.txt"), "ccc", 3);
    struct string_list names = {0}, files = {0};
    string_list_add(&names, scratch_path("*.txt"));
    string_list_add(&names, scratch_path("a.txt"));
    EXPECT_OK(inputs_expand(&files, &names));
    EXPECT_INT(files.count, 4);
    EXPECT_STRING(files.items[0], scratch_path("B.txt"));
    EXPECT_STRING(files.items[1], scratch_path("a.txt"));
    EXPECT_STRING(files.items[3], scratch_path("a.txt"));
    EXPECT_INT(inputs_bytes(&files), 8);
    string_list_free(&files);
    string_list_add(&names, scratch_path("*.none"));
    EXPECT_ERROR(inputs_expand(&files, &names), "no file matches");
    string_list_free(&files);
    string_list_free(&names);
    string_list_add(&names, scratch);
    EXPECT_ERROR(inputs_expand(&files, &names), "is a folder");
    string_list_free(&names);
    string_list_add(&names, "-");
    EXPECT_OK(inputs_expand(&files, &names));
    EXPECT_INT(inputs_bytes(&files), 0);
    string_list_free(&files);
    string_list_free(&names);
    scratch_close();
}

// ---- JSON lines ----

static int parse_line(struct jsonl_parser *parser, const char *line) {
    struct line_chunk chunk = {.path = "file", .first_line = 7};
    buffer_append_string(&chunk.text, line);
    struct line_cursor cursor = {.chunk = &chunk};
    EXPECT(line_cursor_next(&cursor));
    int status = jsonl_parse(parser, &cursor);
    buffer_free(&chunk.text);
    return status;
}

TEST(bad_json_lines) {
    static const char *const bad[] = {"{\"text\": \"a\"",
                                      "[]",
                                      "text",
                                      "{\"other\": \"a\"}",
                                      "{\"text\": 1}",
                                      "{\"text\": null}",
                                      "{\"text\": [\"a\", 1]}",
                                      "{\"text\": \"a\"} x",
                                      "{\"text\": \"\xFF\"}"};
    const char *keys[] = {"text"};
    struct jsonl_parser parser;
    jsonl_parser_init(&parser, &(struct jsonl_options){.keys = keys, .key_count = 1, .refuse_surrogates = true});
    EXPECT_ERROR(parse_line(&parser, "{\"text\": \"a\\udc00\"}"), "file:7: the member \"text\" holds a lone surrogate");
    EXPECT_INT(parse_line(&parser, "{\"other\": \"a\\udc00\", \"text\": \"\\udc00\", \"text\": \"b\"}"), 1);
    EXPECT_STRING(parser.found[0].text.data, "b");
    jsonl_parser_free(&parser);
    jsonl_parser_init(&parser, &(struct jsonl_options){.keys = keys, .key_count = 1});
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        EXPECT_ERROR(parse_line(&parser, bad[i]), "file:7: ");
        EXPECT_INT(error_exit_code(), EXIT_CODE_BAD_DATA);
    }
    EXPECT_INT(parse_line(&parser, " \t\r"), 0);
    EXPECT_INT(parser.blank_lines, 1);
    EXPECT_INT(parse_line(&parser, "{\"text\": \"\\ud83d\\ude00 \\ud800 \\u0000\"}\r"), 1);
    EXPECT_INT(parser.found[0].text.length, 10);
    EXPECT(memcmp(parser.found[0].text.data, "\xF0\x9F\x98\x80 \xEF\xBF\xBD \0", 10) == 0);
    jsonl_parser_free(&parser);

    struct jsonl_options skip = {.keys = keys, .key_count = 1, .skip_bad_lines = true, .replace_ill_formed = true};
    jsonl_parser_init(&parser, &skip);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        EXPECT_INT(parse_line(&parser, bad[i]), strchr(bad[i], '\xFF') != NULL);
    EXPECT_INT(parser.bad_lines, 8);
    EXPECT_INT(parser.repaired_lines, 1);
    EXPECT_STRING(parser.found[0].text.data, "\xEF\xBF\xBD");
    EXPECT(strstr(parser.problem, "file:7: "));
    EXPECT_INT(parse_line(&parser, "{\"text\": \"a\xE4\xB8z\xF0\x9F\x98 \x80\"}"), 1);
    EXPECT_STRING(parser.found[0].text.data, "a\xEF\xBF\xBDz\xEF\xBF\xBD \xEF\xBF\xBD");
    jsonl_parser_free(&parser);
}

// A member that is present instead of a missing one is listed, whatever its name.
TEST(missing_members_are_explained) {
    static const struct {
        const char *line, *problem;
    } cases[] = {
        {"{}", "no member \"text\", nor any other; name the member that holds the text with --json-keys"},
        {"{\"content\": \"a\", \"id\": 3}", "no member \"text\", only \"content\", \"id\"; name the member"},
        {"{\"a\": 1, \"b\": 1, \"c\": 1, \"d\": 1, \"e\": 1, \"f\": 1, \"g\": 1, \"h\": 1, \"i\": 1}",
         "\"g\", \"h\" and 1 more; name"},
        {"{\"\\u001b[31m\\u0000x\": 1, \"\": 2}", "only \"?[31m?x\", \"\"; name"},
        {"{\"0123456789012345678901234567890123456789ab\": 1}", "only \"0123456789012345678901234567890123456789…\";"},
        {"{\"012345678901234567890123456789012345678\xC3\xA4x\": 1}",
         "only \"012345678901234567890123456789012345678…\";"},
        {"{\"content\": NaN}", "no member \"text\"; name the member"},
    };
    const char *key = "text";
    struct jsonl_parser parser;
    jsonl_parser_init(&parser, &(struct jsonl_options){.keys = &key, .key_count = 1});
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        EXPECT_ERROR(jsonl_find(&parser, cases[i].line, strlen(cases[i].line)), cases[i].problem);
        EXPECT_INT(error_exit_code(), EXIT_CODE_BAD_DATA);
    }
    jsonl_parser_free(&parser);
}

// Files of JSON in other shapes than lines are recognized by their first line.
TEST(other_shapes_of_json) {
    static const struct {
        const char *line, *problem;
    } cases[] = {
        {"[{\"text\": \"a\"},", "JSON array, not JSON Lines; write one object per line: `jq -c '.[]' FILE"},
        {" [ ", "JSON array"},
        {"[{\"text\": \"a\"}]", "JSON array"},
        {"{", "pretty-printed JSON, not JSON Lines; write one object per line: `jq -c . FILE"},
        {"{\"id\": 5,", "pretty-printed JSON"},
        {"<mediawiki xmlns=\"x\">", "bevatron extract wiki"},
        {"[\"a\", \"b\"]", "every line is one JSON object"},
        {"{\"text\": \"a", "a string without its closing quote"},
    };
    const char *key = "text";
    struct jsonl_parser parser;
    jsonl_parser_init(&parser, &(struct jsonl_options){.keys = &key, .key_count = 1});
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        EXPECT_ERROR(jsonl_find(&parser, cases[i].line, strlen(cases[i].line)), cases[i].problem);
        EXPECT_INT(error_exit_code(), EXIT_CODE_BAD_DATA);
    }
    jsonl_parser_free(&parser);
}

TEST_MAIN(TEST_CASE(lines_are_the_same_for_every_chunk_size), TEST_CASE(long_lines_have_a_limit),
          TEST_CASE(endless_lines_end), TEST_CASE(results_come_in_order), TEST_CASE(the_first_error_in_order_counts),
          TEST_CASE(an_empty_stream_ends), TEST_CASE(patterns_are_expanded_in_byte_order), TEST_CASE(bad_json_lines),
          TEST_CASE(missing_members_are_explained), TEST_CASE(other_shapes_of_json))
