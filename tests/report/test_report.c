// The trainer's interface: what goes where, that a NULL report is accepted, and that a broken console ends nothing.
#include "base/file.h"
#include "base/log.h"
#include "report/console.h"
#include "report/metrics_file.h"
#include "pty.h"
#include "report/report.h"

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
    EXPECT_OK(file_read_all(path, 1 << 20, &text));
    int lines = 0;
    for (const char *at = buffer_string(&text); (at = strstr(at, "{\"kind\":\"train\"")); at++)
        lines++;
    EXPECT_INT(lines, 4);
    EXPECT(strstr(buffer_string(&text), "\"set\":\"test\",\"final\":true,\"losses\":{\"lm loss\":2}") != NULL);
    buffer_free(&text);
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

static void expect_view(const struct live *live, const struct metrics *m, double now, const char *expected) {
    double losses[100];
    for (int i = 0; i < 100; i++)
        losses[i] = 10.0 - 0.08 * i;
    struct buffer out = {0};
    live_compose(&out, live, m, (struct live_losses){losses, m->loss_count > 0 ? 100 : 0}, now);
    EXPECT_STRING(buffer_string(&out), expected);
    buffer_free(&out);
}

static const struct live full_view = {.started = 1000,
                                      .first_iteration = 100,
                                      .tokens_per_second = 12345.6,
                                      .teraflops = 405.49,
                                      .peak_teraflops = 989,
                                      .memory_bytes = 61.4e9,
                                      .saved_iteration = 100,
                                      .saved = 1001,
                                      .columns = 80,
                                      .has_symbols = true};
static const struct metrics full_metrics = {.iteration = 110,
                                            .train_iters = 500,
                                            .losses = {{"lm loss", 2.34567}},
                                            .loss_count = 1,
                                            .learning_rate = 3e-4,
                                            .grad_norm = 0.81649,
                                            .has_grad_norm = true};

TEST(live_view) {
    struct live live = full_view;
    struct metrics m = full_metrics;
    expect_view(&live, &m, 1005,
                "[========>                               ] 110/500  22%  ETA 3:15\n"
                "loss 2.3457 ██▇▇▆▆▅▅▄▄▃▃▂▂▁▁  12.3k tokens/s  MFU 41.0%  lr 3.00e-04\n"
                "grad norm 0.816  memory 61.4GB  saved 100, 0:04 ago");
    live.columns = 40;
    expect_view(&live, &m, 1005,
                "[===>          ] 110/500  22%  ETA 3:15\n"
                "loss 2.3457 ██▇▇▆▆▅▅▄▄▃▃▂▂▁▁\n"
                "12.3k tokens/s  MFU 41.0%  lr 3.00e-04\n"
                "grad norm 0.816  memory 61.4GB");
    live.columns = 160;
    expect_view(&live, &m, 26000,
                "[========>                               ] 110/500  22%  ETA 11 d 06:50 h\n"
                "loss 2.3457 ██▇▇▆▆▅▅▄▄▃▃▂▂▁▁  12.3k tokens/s  MFU 41.0%  lr 3.00e-04  grad norm 0.816  memory 61.4GB  "
                "saved 100, 6:56:39 ago");
    // Narrower still: what fits, and then no bar.
    live.columns = 20;
    expect_view(&live, &m, 1005, "[>   ] 110/500  22%\nloss 2.3457\n12.3k tokens/s\nMFU 41.0%");
    live.columns = 4;
    expect_view(&live, &m, 1005, "110/500\n");
}

TEST(live_view_without_symbols_colors_and_facts) {
    struct live live = full_view;
    struct metrics m = full_metrics;
    live.has_symbols = false;
    live.has_color = true;
    live.peak_teraflops = live.memory_bytes = live.saved = 0;
    expect_view(&live, &m, 1005,
                "[========>                               ] 110/500  22%  ETA 3:15\n"
                "\033[2mloss\033[0m 2.3457  12.3k tokens/s  \033[2mlr\033[0m 3.00e-04  \033[2mgrad norm\033[0m 0.816");
    m = (struct metrics){.iteration = 500, .train_iters = 500, .losses = {{"lm loss", NAN}}, .loss_count = 1};
    live.has_color = false;
    live.tokens_per_second = 0;
    expect_view(&live, &m, 1005, "[========================================] 500/500 100%\nloss nan  lr 0.00e+00");
    m = (struct metrics){.iteration = 0, .train_iters = 0};
    expect_view(&live, &m, 1005, "[>                                       ] 0/0   0%\nlr 0.00e+00");
}

static void expect_train_line(int columns, const struct metrics *m, const char *expected) {
    struct live live = {.columns = columns};
    struct buffer out = {0};
    live_train_line(&out, &live, m);
    EXPECT(strlen(buffer_string(&out)) > 8);
    EXPECT_STRING(buffer_string(&out) + (columns >= 60 ? 8 : 0), expected);  // behind the time
    buffer_free(&out);
}

TEST(short_lines) {
    struct metrics m = full_metrics;
    m.tokens_per_second = 12345.6;
    m.elapsed_ms = 1234.5;
    expect_train_line(120, &m,
                      "  iteration 110/500  lm loss 2.3457  lr 3.00e-04  grad norm 0.816  12.3k tokens/s  1234 ms\n");
    expect_train_line(40, &m, "iteration 110/500  lm loss 2.3457\n");
    m.skipped_iterations = 2;
    m.nan_iterations = 1;
    expect_train_line(80, &m, "  iteration 110/500  skipped 2  NaN 1  lm loss 2.3457  lr 3.00e-04\n");
    struct live live = {.columns = 80};
    struct buffer out = {0};
    live_eval_line(
        &out, &live,
        &(struct metrics_eval){.iteration = 110, .set = "validation", .losses = {{"lm loss", 2}}, .loss_count = 1});
    EXPECT_STRING(buffer_string(&out) + 8, "  validation at 110  lm loss 2.0000  perplexity 7.39\n");
    buffer_free(&out);
    const struct metrics_event saved = {
        .name = "saved", .iteration = 110, .text = "saved a checkpoint to run in 2.1 s"};
    live_event_line(&out, &live, &saved);
    EXPECT_STRING(buffer_string(&out) + 8, "  iteration 110  saved a checkpoint to run in 2.1 s\n");
    buffer_free(&out);
    live.columns = 30;
    live_event_line(&out, &live, &saved);
    EXPECT_STRING(buffer_string(&out), "iteration 110  saved\n");
    buffer_free(&out);
}

// The report's own lines on a terminal, its view below them.
static void report_on_terminal(void) {
    struct report *report = NULL;
    struct report_options options = {.console = stdout, .train_iters = 20000, .device_bytes = 2e9};
    if (report_open(&report, &options) < 0)
        _exit(1);
    struct metrics m = at(10000);
    m.train_iters = 10100;  // so near that no pause of this process changes the time left
    report_step(report, &m);
    report_interval(report, &m);
    report_event(report, &(struct metrics_event){.name = "saved", .iteration = 10000, .text = "saved to a folder"});
    report_print_long(report, "a line of Megatron's\n");
    report_print(report, "a line of the trainer\n");
    _exit(0);
}

// Between iterations the view follows the window; what is gone stays gone.
static void tick_on_terminal(void) {
    struct winsize narrow = {.ws_col = 40, .ws_row = 24};
    struct live live;
    struct metrics m = at(10000);
    m.train_iters = 10100;
    if (!live_open(&live, 0))
        _exit(1);
    live.memory_bytes = 2e9;
    live_tick(&live, &m, (struct live_losses){0});
    if (log_has_view())
        _exit(2);
    live_update(&live, &m, (struct live_losses){0});
    ioctl(STDERR_FILENO, TIOCSWINSZ, &narrow);
    live.last_shown = 0;
    live_tick(&live, &m, (struct live_losses){0});
    _exit(log_has_view() ? 0 : 3);
}

static void report_and_close(void) {
    struct report *report = NULL;
    struct report_options options = {.console = stdout, .train_iters = 20000, .no_live_view = true};
    if (report_open(&report, &options) < 0)
        _exit(1);
    struct metrics m = at(10000);
    report_step(report, &m);
    report_interval(report, &m);
    report_close(report);
}

TEST(on_a_terminal) {
    char *text = pty_text(80, report_on_terminal);
    const char *end = "  iteration 10000/10100  lm loss 6.0000  lr 0.00e+00  0 ms\n"
                      "03:04:05  iteration 10000  saved to a folder\na line of the trainer\n"
                      "[=======================================>] 10000/10100  99%  ETA 0:00\n"
                      "loss 6.0000  lr 0.00e+00  memory 2.00GB";
    // After a second the view also has the checkpoint.
    char *memory = strstr(text, "2.00GB");
    EXPECT(memory != NULL);
    memory[strlen("2.00GB")] = '\0';
    EXPECT(strlen(text) > strlen(end));
    const char *second = strchr(text, '\n');
    EXPECT(second && strlen(second) > strlen("\n03:04:05"));
    memcpy(text + (second + 1 - text), "03:04:05", strlen("03:04:05"));
    EXPECT_STRING(text + strlen("03:04:05"), end);
    free(text);
    text = pty_text(400 > TERMINAL_MOST_COLUMNS ? 250 : 400, report_and_close);
    EXPECT(strstr(text, "] iteration    10000/   20000 |"));
    EXPECT(!strstr(text, "50%"));
    free(text);
}

TEST(between_iterations) {
    char *text = pty_text(80, tick_on_terminal);
    EXPECT_STRING(text, "[=========>] 10000/10100  99%  ETA 0:00\nloss 6.0000  lr 0.00e+00  memory 2.00GB\n");
    free(text);
}

TEST(samples) {
    char folder[] = "/tmp/bevatron_report_XXXXXX", path[64];
    EXPECT(mkdtemp(folder) != NULL);
    snprintf(path, sizeof path, "%s/metrics.jsonl", folder);
    FILE *console = tmpfile();
    struct report *report = NULL;
    EXPECT_OK(report_open(&report, &(struct report_options){.console = console, .metrics_path = path}));
    report_run(report, 0, "{}");
    struct metrics_sample sample = {
        .wall_seconds = 5, .iteration = 30, .prompt = "Once \"upon\"", .text = " a\ntime\033[2J \xc2\x9b \xff"};
    report_sample(report, &sample);
    report_sample(NULL, &sample);
    report_close(report);
    struct buffer text = content_of(console);
    EXPECT_STRING(buffer_string(&text),
                  " sample at iteration 30 | \"Once \\\"upon\\\"\" | \" a\\ntime\\u001b[2J ?? \xef\xbf\xbd\"\n");
    buffer_free(&text);
    EXPECT_OK(file_read_all(path, 1 << 20, &text));
    EXPECT(strstr(text.data,
                  "{\"kind\":\"sample\",\"time\":5,\"iteration\":30,\"prompt\":\"Once \\\"upon\\\"\",\"text\":\" a"));
    buffer_free(&text);
    fclose(console);
    EXPECT_OK(file_remove_tree(folder));
}

// The run continues without them; tests/report/test_events.c has what is said.
TEST(unwritable) {
    struct report *report = NULL;
    struct report_options options = {.metrics_path = "/proc/nothing/metrics.jsonl",
                                     .tensorboard_folder = "/proc/nothing"};
    log_set_level(LOG_ERROR);
    EXPECT_OK(report_open(&report, &options));
    EXPECT_STRING(error_message(), "");
    struct metrics m = at(1);
    report_step(report, &m);
    report_interval(report, &m);
    report_close(report);
}

TEST_MAIN(TEST_CASE(every_sink), TEST_CASE(nobody_listens), TEST_CASE(full_console), TEST_CASE(live_view),
          TEST_CASE(live_view_without_symbols_colors_and_facts), TEST_CASE(short_lines), TEST_CASE(on_a_terminal),
          TEST_CASE(between_iterations), TEST_CASE(samples), TEST_CASE(unwritable))
