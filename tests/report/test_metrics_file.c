// metrics.jsonl: what is written reads back as curves, through kills, resumptions, garbage and full disks.
#include "../base/capture.h"
#include "base/file.h"
#include "base/json.h"
#include "base/log.h"
#include "report/metrics_file.h"
#include "test.h"
#include <fcntl.h>
#include <unistd.h>

static char folder[] = "/tmp/bevatron_metrics_XXXXXX";
static char path[128];

static void begin(void) {
    snprintf(folder, sizeof folder, "/tmp/bevatron_metrics_XXXXXX");
    EXPECT(mkdtemp(folder) != NULL);
    snprintf(path, sizeof path, "%s/a/b/metrics.jsonl", folder);
}

static void end(void) {
    EXPECT_OK(file_remove_tree(folder));
}

static struct metrics at(int64_t iteration, double loss) {
    return (struct metrics){.wall_seconds = 1e9 + (double)iteration,
                            .iteration = iteration,
                            .train_iters = 100,
                            .losses = {{"lm loss", loss}},
                            .loss_count = 1,
                            .tokens_per_second = 1234.5,
                            .elapsed_ms = 7,
                            .loss_scale = 1};
}

static void append_text(const char *text) {
    int descriptor = open(path, O_WRONLY | O_APPEND);
    EXPECT(descriptor >= 0);
    EXPECT_INT(write(descriptor, text, strlen(text)), strlen(text));
    close(descriptor);
}

TEST(lines) {
    begin();
    struct metrics_file file;
    EXPECT_OK(metrics_file_open(&file, path));
    metrics_file_run(&file, &(struct metrics_start){.wall_seconds = 1e9, .config_json = "{\n  \"num_layers\": 12\n}"});
    struct metrics m = at(1, 10.5);
    m.has_grad_norm = true;
    m.grad_norm = INFINITY;
    metrics_file_train(&file, &m);
    struct metrics_eval eval = {.iteration = 1, .set = "validation", .losses = {{"lm loss", 10.25}}, .loss_count = 1};
    metrics_file_eval(&file, &eval);
    metrics_file_close(&file);
    metrics_file_close(&file);
    struct buffer text = {0};
    EXPECT_OK(file_read_all(path, 1 << 20, &text));
    EXPECT_STRING(
        buffer_string(&text),
        "{\"kind\":\"run\",\"time\":1000000000,\"iteration\":0,\"program\":\"bevatron " BEVATRON_VERSION
        "\",\"version\":\"" BEVATRON_VERSION "\",\"config\":{   \"num_layers\": 12 }}\n"
        "{\"kind\":\"train\",\"time\":1000000001,\"iteration\":1,\"train_iters\":100,\"consumed_samples\":0,"
        "\"skipped_samples\":0,\"losses\":{\"lm loss\":10.5},\"learning_rate\":0,\"global_batch_size\":0,"
        "\"elapsed_ms\":7,\"tokens_per_second\":1234.5,\"loss_scale\":1,\"grad_norm\":null,"
        "\"skipped_iterations\":0,\"nan_iterations\":0}\n"
        "{\"kind\":\"eval\",\"time\":0,\"iteration\":1,\"consumed_samples\":0,\"set\":\"validation\",\"final\":false,"
        "\"losses\":{\"lm loss\":10.25},\"elapsed_ms\":0}\n");
    for (const char *line = text.data; *line; line = strchr(line, '\n') + 1) {
        struct json *root = NULL;
        EXPECT_OK(json_parse(&root, line, (size_t)(strchr(line, '\n') - line), "line"));
        json_free(root);
    }
    buffer_free(&text);
    end();
}

static void expect_lines(const char *expected) {
    struct buffer text = {0};
    EXPECT_OK(file_read_all(path, 1 << 20, &text));
    struct buffer iterations = {0};
    for (const char *at = buffer_string(&text), *end; (end = strchr(at, '\n')); at = end + 1) {
        struct json *root = NULL;
        int64_t iteration = 0;
        EXPECT_OK(json_parse(&root, at, (size_t)(end - at), "line"));
        EXPECT_OK(json_get_int(root, "iteration", &iteration));
        buffer_printf(&iterations, " %lld", (long long)iteration);
        json_free(root);
    }
    EXPECT_STRING(buffer_string(&iterations), expected);
    buffer_free(&iterations);
    buffer_free(&text);
}

TEST(torn_line_is_cut_off) {
    begin();
    log_set_level(LOG_ERROR);
    struct metrics_file file;
    EXPECT_OK(metrics_file_open(&file, path));
    for (int64_t i = 1; i <= 3; i++) {
        struct metrics m = at(i, 10 - (double)i);
        metrics_file_train(&file, &m);
    }
    metrics_file_close(&file);
    // A torn line longer than the block in which the end is looked for.
    append_text("{\"kind\":\"train\",\"iteration\":4,\"text\":\"");
    for (int i = 0; i < 1000; i++)
        append_text("xxxxxxxxxx");
    EXPECT_NEAR(metrics_file_last_step(path), 7, 0);
    EXPECT_OK(metrics_file_open(&file, path));
    struct metrics m = at(4, 6);
    metrics_file_train(&file, &m);
    metrics_file_close(&file);
    expect_lines(" 1 2 3 4");
    // A file that is nothing but a torn line.
    EXPECT_INT(truncate(path, 17), 0);
    EXPECT_OK(metrics_file_open(&file, path));
    metrics_file_close(&file);
    uint64_t size = 99;
    EXPECT_OK(file_size(path, &size));
    EXPECT_INT(size, 0);
    EXPECT_NEAR(metrics_file_last_step(path), 0, 0);
    end();
}

// The last line of training counts, whatever follows it.
TEST(last_step) {
    begin();
    struct metrics_file file;
    EXPECT_OK(metrics_file_open(&file, path));
    struct metrics first = at(1, 4), second = at(2, 4);
    second.elapsed_ms = 250;
    metrics_file_train(&file, &first);
    metrics_file_train(&file, &second);
    struct metrics_eval eval = {
        .iteration = 2, .set = "validation", .losses = {{"lm loss", 3}}, .loss_count = 1, .elapsed_ms = 9};
    metrics_file_eval(&file, &eval);
    metrics_file_close(&file);
    EXPECT_NEAR(metrics_file_last_step(path), 250, 0);
    append_text("\nnot json\n[]\n{\"kind\":\"train\"}\n{\"kind\":\"train\",\"elapsed_ms\":\"x\"}\n\xff\xfe\n"
                "{\"kind\":\"train\",\"elapsed_ms\":1");
    EXPECT_NEAR(metrics_file_last_step(path), 250, 0);
    EXPECT_NEAR(metrics_file_last_step("/nonexistent"), 0, 0);
    EXPECT_INT(error_exit_code(), EXIT_CODE_OK);
    end();
}

TEST(full_disk) {
    log_set_level(LOG_ERROR);
    struct metrics_file file;
    if (access("/dev/full", W_OK) < 0)
        test_skip("no /dev/full here");
    EXPECT_OK(metrics_file_open(&file, "/dev/full"));
    struct metrics m = at(1, 1);
    metrics_file_train(&file, &m);
    EXPECT_INT(file.appender.lost, 1);
    metrics_file_train(&file, &m);
    EXPECT_INT(file.appender.lost, 2);
    metrics_file_close(&file);
    EXPECT_ERROR(metrics_file_open(&file, "/proc/nothing/metrics.jsonl"), "/proc/nothing");
    EXPECT_ERROR(metrics_file_open(&file, "/tmp"), "/tmp");
}

// All members that a start can have, events, and lines of other kinds.
TEST(events) {
    begin();
    struct metrics_file file;
    struct buffer text = {0}, line = {0};
    EXPECT_OK(metrics_file_open(&file, path));
    metrics_file_run(&file, &(struct metrics_start){.wall_seconds = 1e9,
                                                    .host = "a",
                                                    .process = 7,
                                                    .ranks = 4,
                                                    .tokens_per_sample = 128,
                                                    .flops_per_token = 6e6,
                                                    .peak_teraflops = 312});
    metrics_file_event(&file, &(struct metrics_event){.name = "saved", .iteration = 5, .text = "to \"x\"\n"});
    metrics_file_event(
        &file, &(struct metrics_event){.name = "failed", .iteration = 6, .text = "it failed", .exit_code = 213});
    struct json_writer json = {.out = &line};
    metrics_line_begin(&json, "sample", 1e9, 6);
    json_key(&json, "text");
    json_cstring(&json, "abc");
    json_end_object(&json);
    metrics_file_line(&file, &line);
    struct metrics m = at(7, 1);
    m.memory_bytes = 123456789;
    m.has_system = true;
    m.processors = 1.5;
    m.data_wait_ms = 0.25;
    m.teraflops = 156;
    metrics_file_train(&file, &m);
    metrics_file_close(&file);
    EXPECT_OK(file_read_all(path, 1 << 20, &text));
    EXPECT(strstr(text.data, "\"host\":\"a\",\"pid\":7,\"ranks\":4,\"tokens_per_sample\":128,"
                             "\"flops_per_token\":6000000,\"peak_teraflops\":312,") != NULL);
    EXPECT(strstr(text.data, ",\"iteration\":5,\"event\":\"saved\",\"text\":\"to \\\"x\\\"\\n\"}\n") != NULL);
    EXPECT(strstr(text.data, ",\"event\":\"failed\",\"text\":\"it failed\",\"exit_code\":213}\n") != NULL);
    EXPECT(strstr(text.data, "{\"kind\":\"sample\",\"time\":1000000000,\"iteration\":6,\"text\":\"abc\"}\n") != NULL);
    EXPECT(strstr(text.data, "\"memory_bytes\":123456789,\"cpu_cores\":1.5,\"data_wait_ms\":0.25}\n") != NULL);
    EXPECT(strstr(text.data, "\"mfu\":0.5,") != NULL);
    buffer_free(&text);
    end();
}

// A rank or a supervisor that does not write the file reads its end and appends to it.
TEST(ends) {
    begin();
    struct metrics_event failed = {.name = "failed", .iteration = 3, .text = "killed", .exit_code = 137};
    EXPECT(!metrics_file_has_end(path, 0));
    EXPECT_ERROR(metrics_file_add_event(path, &failed, false), path);
    struct metrics_file file;
    EXPECT_OK(metrics_file_open(&file, path));
    metrics_file_run(&file, &(struct metrics_start){.wall_seconds = 1e9});
    metrics_file_event(&file, &(struct metrics_event){.name = "saved", .iteration = 3});
    EXPECT(!metrics_file_has_end(path, 0));
    error_set("kept");
    EXPECT_OK(metrics_file_add_event(path, &failed, false));
    EXPECT(metrics_file_has_end(path, 0));
    EXPECT(!metrics_file_has_end(path, 4e9));
    EXPECT_STRING(error_message(), "kept");
    error_clear();
    // The end stays visible behind the few lines that may follow it, and a torn one.
    for (int i = 0; i < 20; i++) {
        struct metrics m = at(4 + i, 1);
        metrics_file_train(&file, &m);
    }
    append_text("{\"kind\":\"event\",\"ti");
    EXPECT(metrics_file_has_end(path, 0));
    metrics_file_close(&file);
    // A file of another kind is not touched.
    char other[160];
    snprintf(other, sizeof other, "%s/notes.txt", folder);
    EXPECT_OK(file_write_all(other, "notes\n", 6));
    EXPECT_ERROR(metrics_file_add_event(other, &failed, true), "is not a file of metrics");
    end();
}

static void open_a_second_time(void) {
    struct metrics_file second;
    (void)metrics_file_open(&second, path);
}

// Two runs in one folder: the second says so, and does not take a line that the first is writing for a torn one.
TEST(two_runs) {
    static struct capture capture;
    begin();
    struct metrics_file first;
    EXPECT_OK(metrics_file_open(&first, path));
    append_text("{\"kind\":");
    log_set_level(LOG_INFO);
    capture_run(&capture, open_a_second_time);
    EXPECT(strstr(capture.text, "another process is writing to") != NULL);
    uint64_t size = 0;
    EXPECT_OK(file_size(path, &size));
    EXPECT_INT(size, 8);
    metrics_file_close(&first);
    capture_run(&capture, open_a_second_time);
    EXPECT(strstr(capture.text, "another process") == NULL);
    EXPECT_OK(file_size(path, &size));
    EXPECT_INT(size, 0);
    end();
}

TEST_MAIN(TEST_CASE(lines), TEST_CASE(torn_line_is_cut_off), TEST_CASE(last_step), TEST_CASE(full_disk),
          TEST_CASE(events), TEST_CASE(ends), TEST_CASE(two_runs))
