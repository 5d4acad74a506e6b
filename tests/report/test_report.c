// The trainer's door: what goes where, that NULL is a report to nobody, and that a broken console ends nothing.
#include "base/file.h"
#include "base/log.h"
#include "report/live.h"
#include "report/metrics_file.h"
#include "report/report.h"
#include "test.h"

static struct metrics at(int64_t iteration) {
    return (struct metrics){.iteration = iteration,
                            .train_iters = 20000,
                            .losses = {{"lm loss", 10 - 0.0004 * (double)iteration}},
                            .loss_count = 1,
                            .loss_scale = 1};
}

static struct buffer content_of(FILE *stream) {
    struct buffer text = {0};
    char block[4096];
    size_t count;
    rewind(stream);
    while ((count = fread(block, 1, sizeof block, stream)) > 0)
        buffer_append(&text, block, count);
    return text;
}

TEST(every_sink) {
    char folder[] = "/tmp/bevatron_report_XXXXXX", path[64];
    EXPECT(mkdtemp(folder) != NULL);
    snprintf(path, sizeof path, "%s/run/metrics.jsonl", folder);
    FILE *console = tmpfile();
    struct report *report = NULL;
    struct report_options options = {.console = console, .metrics_path = path};
    EXPECT_OK(report_open(&report, &options));
    report_run(report, 0, "{}");
    for (int64_t i = 1; i <= 20000; i++) {
        struct metrics m = at(i);
        report_step(report, &m);
        if (i % 5000 == 0)
            report_interval(report, &m);
    }
    struct metrics_eval eval = {
        .iteration = 20000, .set = "test", .is_final = true, .losses = {{"lm loss", 2}}, .loss_count = 1};
    report_eval(report, &eval);
    report_print(report, "a line of the trainer\n");
    struct buffer text = content_of(console);
    EXPECT(strstr(buffer_string(&text), "iteration    20000/   20000 |") != NULL);
    EXPECT(strstr(buffer_string(&text), "on test set") != NULL);
    EXPECT(strstr(buffer_string(&text), "\na line of the trainer\n") != NULL);
    buffer_free(&text);
    struct metrics_history history;
    EXPECT_OK(metrics_history_read(&history, path));
    EXPECT_INT(history.count, 2);
    EXPECT_INT(history.curves[0].count, 4);
    EXPECT_STRING(history.curves[1].name, "lm loss test");
    metrics_history_free(&history);
    // More steps than points are kept: averages of 8 then, of iterations 1 to 8 up to 19993 to 20000.
    FILE *picture = tmpfile();
    report_plot_loss(report, picture);
    text = content_of(picture);
    EXPECT(strstr(buffer_string(&text), "9.998 ┤") != NULL);
    EXPECT(strstr(buffer_string(&text), "2.001 ┤") != NULL);
    EXPECT(strstr(buffer_string(&text), "19996\n") != NULL);
    buffer_free(&text);
    fclose(picture);
    report_close(report);
    fclose(console);
    EXPECT_OK(file_remove_tree(folder));
}

TEST(nobody_listens) {
    struct metrics m = at(1);
    struct metrics_eval eval = {.set = "validation"};
    report_run(NULL, 0, NULL);
    report_step(NULL, &m);
    report_interval(NULL, &m);
    report_eval(NULL, &eval);
    report_print(NULL, "x\n");
    report_plot_loss(NULL, stdout);
    report_close(NULL);
}

TEST(full_console) {
    FILE *console = fopen("/dev/full", "w");
    if (!console)
        test_skip("no /dev/full here");
    struct report *report = NULL;
    struct report_options options = {.console = console};
    EXPECT_OK(report_open(&report, &options));
    for (int64_t i = 1; i <= 3; i++) {
        struct metrics m = at(i);
        report_step(report, &m);
        report_interval(report, &m);
    }
    report_close(report);
    fclose(console);
}

static void expect_line(const struct live *live, const struct metrics *m, double now, const char *expected) {
    struct buffer out = {0};
    live_compose(&out, live, m, now);
    EXPECT_STRING(buffer_string(&out), expected);
    buffer_free(&out);
}

TEST(live_line) {
    struct live live = {.started = 1000, .first_iteration = 100, .columns = 80};
    struct metrics m = {.iteration = 110,
                        .train_iters = 500,
                        .losses = {{"lm loss", 2.34567}},
                        .loss_count = 1,
                        .tokens_per_second = 12345.6};
    expect_line(&live, &m, 1005, "iteration 110/500 (22%), lm loss 2.3457, 12346 tokens/s, 3:15 left");
    expect_line(&live, &m, 1500, "iteration 110/500 (22%), lm loss 2.3457, 12346 tokens/s, 5:25:00 left");
    expect_line(&live, &m, 26000, "iteration 110/500 (22%), lm loss 2.3457, 12346 tokens/s, 11 d 06:50 h left");
    live.columns = 24;
    expect_line(&live, &m, 1005, "iteration 110/500 (22%)");
    live.columns = 120;
    m = (struct metrics){.iteration = 500, .train_iters = 500};
    expect_line(&live, &m, 1005, "[====================] iteration 500/500 (100%)");
    m = (struct metrics){.iteration = 250, .train_iters = 500};
    expect_line(&live, &m, 1150, "[==========>         ] iteration 250/500 (50%), 4:10 left");
}

TEST(unwritable) {
    struct report *report = NULL;
    struct report_options options = {.metrics_path = "/proc/nothing/metrics.jsonl"};
    EXPECT_ERROR(report_open(&report, &options), "/proc/nothing");
    EXPECT(report == NULL);
    options = (struct report_options){.tensorboard_folder = "/proc/nothing"};
    EXPECT_ERROR(report_open(&report, &options), "/proc/nothing");
}

TEST_MAIN(TEST_CASE(every_sink), TEST_CASE(nobody_listens), TEST_CASE(full_console), TEST_CASE(live_line),
          TEST_CASE(unwritable))
