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

static const struct metrics_curve *curve(const struct metrics_history *history, const char *name) {
    for (size_t i = 0; i < history->count; i++) {
        if (strcmp(history->curves[i].name, name) == 0)
            return &history->curves[i];
    }
    test_fail("no curve \"%s\"", name);
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

// The numbers of a run's jobs, each once in a row, and the last one's log.
TEST(jobs) {
    begin();
    log_set_level(LOG_ERROR);
    struct metrics_file file;
    struct metrics_history history;
    EXPECT_OK(metrics_file_open(&file, path));
    static const char *const jobs[] = {"7", "17", "17", NULL, "117_2"};
    for (int i = 0; i < 5; i++)
        metrics_file_run(&file,
                         &(struct metrics_start){.iteration = i, .job = jobs[i], .job_log = i < 4 ? "a" : "b c"});
    EXPECT_OK(metrics_history_read(&history, path));
    EXPECT_STRING(history.jobs, "7, 17, 117_2");
    EXPECT_STRING(history.job_log, "b c");
    EXPECT_INT(history.bad_lines, 0);
    metrics_history_free(&history);
    // Of hundreds the last ones are kept.
    for (int i = 1000; i < 1300; i++) {
        char job[16];
        snprintf(job, sizeof job, "%d", i);
        metrics_file_run(&file, &(struct metrics_start){.job = job});
    }
    EXPECT_OK(metrics_history_read(&history, path));
    EXPECT(strlen(history.jobs) < 250 && strncmp(history.jobs, "…, 1", 4) == 0);
    EXPECT(strstr(history.jobs, ", 1298, 1299") != NULL);
    EXPECT(history.job_log == NULL);
    metrics_history_free(&history);
    metrics_file_close(&file);
    end();
}

TEST(torn_line_is_cut_off) {
    begin();
    log_set_level(LOG_ERROR);
    struct metrics_file file;
    struct metrics_history history;
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
    EXPECT_OK(metrics_history_read(&history, path));
    EXPECT_INT(curve(&history, "lm loss")->count, 3);
    EXPECT_INT(history.bad_lines, 0);
    metrics_history_free(&history);
    EXPECT_OK(metrics_file_open(&file, path));
    struct metrics m = at(4, 6);
    metrics_file_train(&file, &m);
    metrics_file_close(&file);
    EXPECT_OK(metrics_history_read(&history, path));
    EXPECT_INT(curve(&history, "lm loss")->count, 4);
    EXPECT_INT(history.bad_lines, 0);
    EXPECT_NEAR(curve(&history, "lm loss")->y[3], 6, 0);
    EXPECT_INT(history.last_iteration, 4);
    EXPECT_INT(history.train_iters, 100);
    EXPECT_NEAR(history.last_tokens_per_second, 1234.5, 0);
    metrics_history_free(&history);
    // A file that is nothing but a torn line.
    EXPECT_INT(truncate(path, 17), 0);
    EXPECT_OK(metrics_file_open(&file, path));
    metrics_file_close(&file);
    uint64_t size = 99;
    EXPECT_OK(file_size(path, &size));
    EXPECT_INT(size, 0);
    EXPECT_OK(metrics_history_read(&history, path));
    EXPECT_INT(history.count, 0);
    metrics_history_free(&history);
    end();
}

TEST(resumed_run_overwrites) {
    begin();
    struct metrics_file file;
    struct metrics_history history;
    EXPECT_OK(metrics_file_open(&file, path));
    metrics_file_run(&file, &(struct metrics_start){0});
    for (int64_t i = 1; i <= 9; i++) {
        struct metrics m = at(i, 100 + (double)i);
        metrics_file_train(&file, &m);
    }
    struct metrics_eval eval = {.iteration = 9, .set = "validation", .losses = {{"lm loss", 3}}, .loss_count = 1};
    metrics_file_eval(&file, &eval);
    metrics_file_run(&file, &(struct metrics_start){.iteration = 5});
    struct metrics m = at(6, 6), again = at(6, 66);
    metrics_file_train(&file, &m);
    metrics_file_train(&file, &again);
    metrics_file_close(&file);
    EXPECT_OK(metrics_history_read(&history, path));
    const struct metrics_curve *loss = curve(&history, "lm loss");
    EXPECT_INT(loss->count, 6);
    EXPECT_NEAR(loss->y[4], 105, 0);
    EXPECT_NEAR(loss->y[5], 66, 0);
    EXPECT_INT(curve(&history, "lm loss validation")->count, 0);
    metrics_history_free(&history);
    end();
}

// A log interval longer than the run leaves few lines of kind "train"; the others say how far it is, too.
TEST(last_iteration_of_any_line) {
    begin();
    struct metrics_file file;
    struct metrics_history history;
    EXPECT_OK(metrics_file_open(&file, path));
    metrics_file_run(&file, &(struct metrics_start){0});
    struct metrics m = at(1, 4);
    metrics_file_train(&file, &m);
    struct metrics_eval eval = {.iteration = 40, .set = "validation", .losses = {{"lm loss", 3}}, .loss_count = 1};
    metrics_file_eval(&file, &eval);
    EXPECT_OK(metrics_history_read(&history, path));
    EXPECT_INT(history.last_iteration, 40);
    metrics_history_free(&history);
    append_text("{\"kind\":\"event\",\"iteration\":41,\"event\":\"saved\"}\n{\"kind\":\"sample\",\"text\":7}\n");
    EXPECT_OK(metrics_history_read(&history, path));
    EXPECT_INT(history.last_iteration, 41);
    EXPECT_INT(history.bad_lines, 0);
    metrics_history_free(&history);
    metrics_file_run(&file, &(struct metrics_start){.iteration = 20});
    metrics_file_close(&file);
    EXPECT_OK(metrics_history_read(&history, path));
    EXPECT_INT(history.last_iteration, 20);
    metrics_history_free(&history);
    end();
}

TEST(garbage_is_passed_over) {
    begin();
    struct metrics_file file;
    struct metrics_history history;
    EXPECT_OK(metrics_file_open(&file, path));
    struct metrics m = at(1, NAN);
    metrics_file_train(&file, &m);
    metrics_file_close(&file);
    append_text(
        "\nnot json\n[]\n{\"kind\":\"train\"}\n{\"kind\":\"train\",\"iteration\":-1,\"losses\":{}}\n"
        "{\"kind\":\"train\",\"iteration\":2,\"losses\":{\"lm loss\":\"x\"}}\n{\"kind\":\"eval\",\"iteration\":2}\n"
        "{\"kind\":\"later\",\"iteration\":2}\n\xff\xfe\n");
    append_text("{\"kind\":\"train\",\"iteration\":3,\"losses\":{\"lm loss\":4.5},\"train_iters\":1e300}\n");
    EXPECT_OK(metrics_history_read(&history, path));
    EXPECT_INT(history.bad_lines, 8);
    EXPECT_INT(curve(&history, "lm loss")->count, 2);
    EXPECT(isnan(curve(&history, "lm loss")->y[0]));
    EXPECT_NEAR(curve(&history, "lm loss")->y[1], 4.5, 0);
    metrics_history_free(&history);
    EXPECT_ERROR(metrics_history_read(&history, "/nonexistent"), "/nonexistent");
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
    struct metrics_history history;
    EXPECT_OK(metrics_history_read(&history, path));
    EXPECT_INT(history.bad_lines, 0);
    EXPECT_INT(curve(&history, "lm loss")->count, 1);
    metrics_history_free(&history);
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

TEST_MAIN(TEST_CASE(lines), TEST_CASE(jobs), TEST_CASE(torn_line_is_cut_off), TEST_CASE(resumed_run_overwrites),
          TEST_CASE(last_iteration_of_any_line), TEST_CASE(garbage_is_passed_over), TEST_CASE(full_disk),
          TEST_CASE(events), TEST_CASE(ends), TEST_CASE(two_runs))
