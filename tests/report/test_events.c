// Events: what the command of --on-event is told, the last words of a run that fails on the first rank or another, by
// an error or by die(), and outputs that cannot be opened or written.
#include "../base/capture.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/json.h"
#include "base/log.h"
#include "report/report.h"
#include "report/metrics_file.h"
#include "moved_clock.h"
#include "test.h"
#include <signal.h>
#include <sys/stat.h>

static struct capture capture;
static char folder[64], path[128], hook[512];
static const double LONG_SECONDS = 600;

static void begin(void) {
    snprintf(folder, sizeof folder, "/tmp/bevatron_events_XXXXXX");
    EXPECT(mkdtemp(folder) != NULL);
    snprintf(path, sizeof path, "%s/metrics.jsonl", folder);
    // One line per event.
    snprintf(hook, sizeof hook,
             "printf '%%s|%%s|%%s|%%s|%%s\\n' \"$BEVATRON_EVENT\" \"$BEVATRON_ITERATION\" \"$BEVATRON_EXIT_CODE\" "
             "\"$BEVATRON_RUN\" \"$BEVATRON_TEXT\" >>%s/events; cat >>%s/input; echo \"$BEVATRON_MESSAGE_JSON\" "
             ">>%s/messages",
             folder, folder, folder);
}

static void end(void) {
    EXPECT_OK(file_remove_tree(folder));
}

static struct buffer content(const char *name) {
    char full[160];
    struct buffer text = {0};
    snprintf(full, sizeof full, "%s/%s", folder, name);
    EXPECT_OK(file_read_all(full, 1 << 20, &text));
    return text;
}

static void expect_content(const char *name, const char *expected) {
    struct buffer text = content(name);
    EXPECT_STRING(buffer_string(&text), expected);
    buffer_free(&text);
}

// Number of occurrences of a text in a file.
static int count(const char *name, const char *wanted) {
    struct buffer text = content(name);
    int found = 0;
    for (const char *at = buffer_string(&text); (at = strstr(at, wanted)); at++)
        found++;
    buffer_free(&text);
    return found;
}

static struct on_event *open_hook(void) {
    return on_event_open(&(struct on_event_options){.command = hook, .run = "my run", .job = "17"});
}

TEST(hook_facts) {
    begin();
    struct on_event *on_event = open_hook();
    on_event_tell(on_event, &(struct metrics_event){.name = "saved", .iteration = 10, .text = "say \"$(x)\""});
    on_event_tell(on_event, &(struct metrics_event){.name = "failed", .iteration = 11, .exit_code = 213});
    on_event_close(on_event, LONG_SECONDS);
    expect_content("events", "saved|10||my run|say \"$(x)\"\nfailed|11|213|my run|\n");
    expect_content("messages",
                   "\"my run: saved at iteration 10: say \\\"$(x)\\\"\"\n\"my run: failed at iteration 11\"\n");
    struct buffer input = content("input");
    const char *second = strchr(input.data, '\n') + 1;
    struct json *root = NULL;
    const char *text;
    int64_t number;
    EXPECT_OK(json_parse(&root, input.data, (size_t)(second - input.data), "input"));
    EXPECT_OK(json_get_string(root, "text", &text));
    EXPECT_STRING(text, "say \"$(x)\"");
    EXPECT_OK(json_get_string(root, "job", &text));
    EXPECT_STRING(text, "17");
    EXPECT(json_member(root, "exit_code")->type == JSON_NULL);
    EXPECT_OK(json_get_int(root, "pid", &number));
    EXPECT_INT(number, getpid());
    json_free(root);
    EXPECT_OK(json_parse(&root, second, strlen(second), "input"));
    EXPECT_OK(json_get_int(root, "exit_code", &number));
    EXPECT_INT(number, 213);
    json_free(root);
    buffer_free(&input);
    EXPECT(on_event_open(&(struct on_event_options){.run = "no command"}) == NULL);
    on_event_tell(NULL, &(struct metrics_event){.name = "saved"});
    on_event_close(NULL, 1);
    end();
}

// A long message is cut where a variable would be too long for the system.
TEST(hook_long_text) {
    begin();
    char *text = malloc(300000);
    memset(text, 'x', 299999);
    text[299999] = '\0';
    struct on_event *on_event = open_hook();
    on_event_tell(on_event, &(struct metrics_event){.name = "saved", .iteration = 10, .text = text});
    on_event_close(on_event, LONG_SECONDS);
    free(text);
    struct buffer events = content("events");
    EXPECT(events.length > 8000 && events.length < 9000);
    buffer_free(&events);
    end();
}

static struct metrics at(int64_t iteration, double loss, bool is_skipped) {
    return (struct metrics){.iteration = iteration,
                            .train_iters = 9,
                            .losses = {{"lm loss", loss}},
                            .loss_count = 1,
                            .loss_scale = 1,
                            .is_skipped = is_skipped};
}

TEST(events_of_a_run) {
    begin();
    log_set_level(LOG_ERROR);
    struct on_event *on_event = open_hook();
    struct report *report = NULL;
    EXPECT_OK(report_open(
        &report, &(struct report_options){.metrics_path = path, .on_event = on_event, .train_iters = 9, .ranks = 2}));
    report_run(report, 0, "{}");
    for (int64_t i = 1; i <= 6; i++) {
        struct metrics m = at(i, i == 2 || i == 3 ? (double)NAN : 1, i == 3);
        report_step(report, &m);
        if (i % 3 == 0)
            report_interval(report, &m);
    }
    report_event(report, &(struct metrics_event){.name = "saved", .iteration = 6, .text = "saved"});
    report_event(report, &(struct metrics_event){.name = "finished", .iteration = 6, .text = "done"});
    report_close(report);
    on_event_close(on_event, LONG_SECONDS);
    expect_content("events", "started|0||my run|started after iteration 0 of 9\n"
                             "nan|3||my run|the loss was not finite in 2 of the last 3 iterations\n"
                             "skipped|3||my run|1 of the last 3 iterations made no update: the gradient was not "
                             "finite\n"
                             "saved|6||my run|saved\n"
                             "finished|6|0|my run|done\n");
    EXPECT_INT(count("metrics.jsonl", "\"kind\":\"event\""), 4);
    EXPECT_INT(count("metrics.jsonl", "\"event\":\"nan\""), 1);
    EXPECT(metrics_file_has_end(path, 0));
    end();
}

// The first rank has a report, the third one only the path.
static struct farewell first, third;
static struct report *report;

static void open_both(void) {
    log_set_level(LOG_ERROR);
    struct on_event *on_event = open_hook();
    EXPECT_OK(report_open(&report, &(struct report_options){.metrics_path = path, .on_event = on_event, .ranks = 4}));
    report_run(report, 0, "{}");
    first = (struct farewell){.report = report, .on_event = on_event, .metrics_path = path, .ranks = 4};
    third = (struct farewell){.on_event = on_event, .metrics_path = path, .rank = 3, .ranks = 4};
    farewell_open(&first);
    farewell_open(&third);
    atomic_store(&first.iteration, 41);
    atomic_store(&third.iteration, 42);
}

static void close_both(void) {
    farewell_close(&third);
    report_close(report);
    on_event_close(first.on_event, LONG_SECONDS);
}

TEST(first_words_count) {
    begin();
    open_both();
    error_set_code(EXIT_CODE_BAD_DATA, "the index is broken");
    farewell_say(&third, error_exit_code(), error_message());
    EXPECT_STRING(error_message(), "the index is broken");
    error_clear();
    farewell_say(&first, EXIT_CODE_PEER_LOST, "rank 3 is lost");
    farewell_say(&first, EXIT_CODE_ERROR, "again");
    close_both();
    EXPECT_INT(count("metrics.jsonl", "\"event\":\"failed\""), 1);
    EXPECT_INT(count("metrics.jsonl", ": the index is broken\",\"exit_code\":215}"), 1);
    EXPECT_INT(count("metrics.jsonl", "\"iteration\":42,\"event\""), 1);
    EXPECT_INT(count("events", "failed|42|215|my run|rank 3 on "), 1);
    EXPECT_INT(count("events", "\n"), 2);
    end();
}

static void *say_third(void *unused) {
    (void)unused;
    farewell_say(&third, EXIT_CODE_NOT_FINITE, "the loss is nan");
    return NULL;
}

// All ranks know; the first one says it, and the third one, whose turn comes later, finds that.
TEST(causes) {
    static struct moved_clock moved;
    pthread_t thread;
    begin();
    open_both();
    moved_clock_open(&moved, false);
    third.clock = &moved.clock;
    EXPECT_INT(pthread_create(&thread, NULL, say_third, NULL), 0);
    moved_clock_await(&moved, 1);
    farewell_say(&first, EXIT_CODE_NOT_FINITE, "the loss is nan");
    moved_clock_move(&moved, 0.7);
    pthread_join(thread, NULL);
    close_both();
    EXPECT_INT(count("events", "nan|41||my run|the loss is nan\nfailed|41|213|my run|the loss is nan\n"), 1);
    EXPECT_INT(count("metrics.jsonl", "\"event\":\"nan\""), 1);
    EXPECT_INT(count("metrics.jsonl", "\"event\":\"failed\""), 1);
    end();
}

TEST(stopped_and_usage) {
    begin();
    open_both();
    farewell_say(&first, EXIT_CODE_STOPPED, "stopped by SIGTERM before the end");
    close_both();
    EXPECT_INT(count("events", "stopped|41|210|"), 1);
    EXPECT_OK(file_remove_tree(folder));
    begin();
    open_both();
    farewell_say(&first, EXIT_CODE_USAGE, "wrong flags");
    close_both();
    EXPECT_INT(count("events", "\n"), 1);
    EXPECT_INT(count("metrics.jsonl", "\"event\""), 0);
    end();
}

// Before there is a report, the first rank creates the file.
TEST(failed_start) {
    begin();
    struct farewell farewell = {.metrics_path = path, .ranks = 1};
    farewell_open(&farewell);
    farewell_say(&farewell, EXIT_CODE_BAD_DATA, "no data");
    farewell_close(&farewell);
    EXPECT_INT(count("metrics.jsonl", "\"event\":\"failed\",\"text\":\"no data\",\"exit_code\":215}"), 1);
    end();
}

static void die_in_a_run(void) {
    open_both();
    farewell_close(&third);
    die_set_witness(NULL, NULL);
    farewell_open(&first);
    die_code(EXIT_CODE_HANG, "collective \"x\" has waited 600 s");
}

TEST(dying) {
    begin();
    capture_run(&capture, die_in_a_run);
    EXPECT_INT(capture.status, EXIT_CODE_HANG);
    EXPECT_INT(count("metrics.jsonl", "\"event\":\"hang\""), 1);
    EXPECT_INT(count("metrics.jsonl", "\"event\":\"failed\",\"text\":\"collective \\\"x\\\" has waited 600 s\","
                                      "\"exit_code\":212}"),
               1);
    end();
}

static void crash_in_a_run(void) {
    open_both();
    farewell_open(&first);
    raise(SIGBUS);
}

// A fault leaves its line, and is still what the process dies of.
TEST(crashing) {
    begin();
    capture_run(&capture, crash_in_a_run);
    EXPECT(capture.status != 0);  // with sanitizers, their handler comes next and exits
    EXPECT_INT(count("metrics.jsonl", ",\"iteration\":41,\"event\":\"failed\",\"text\":\"rank 0 was ended by signal 7 "
                                      "(SIGBUS)\",\"exit_code\":135}\n"),
               1);
    EXPECT(metrics_file_has_end(path, 0));
    end();
}

static void run_with_broken_outputs(void) {
    struct report_options options = {.metrics_path = "/dev/full",
                                     .tensorboard_folder = "/dev/full/x",
                                     .wandb = {.folder = "/proc/nothing", .project = "p", .name = "n"},
                                     .prometheus = {.textfile = "/proc/nothing/x.prom"},
                                     .train_iters = 9};
    log_set_level(LOG_INFO);
    CHECK(report_open(&report, &options) == 0);
    report_run(report, 0, "{}");
    for (int64_t i = 1; i <= 3; i++) {
        struct metrics m = at(i, 1, false);
        report_step(report, &m);
        report_interval(report, &m);
    }
    report_event(report, &(struct metrics_event){.name = "finished", .text = "done"});
    report_close(report);
}

// Every output that cannot be opened or written is named once, and nothing else happens.
TEST(broken_outputs) {
    if (access("/dev/full", W_OK) < 0)
        test_skip("no /dev/full here");
    capture_run(&capture, run_with_broken_outputs);
    EXPECT_INT(capture.status, 0);
    int warnings = 0;
    for (const char *line = capture.text; (line = strstr(line, "warning: ")); line++)
        warnings++;
    EXPECT_INT(warnings, 4);
    EXPECT(strstr(capture.text, "cannot write metrics to /dev/full: No space left on device") != NULL);
    EXPECT(strstr(capture.text, "(--tensorboard-dir)") != NULL);
    EXPECT(strstr(capture.text, "(--wandb-save-dir)") != NULL);
    EXPECT(strstr(capture.text, "(--prometheus-textfile)") != NULL);
}

// Only a file that would be lost is an error.
TEST(files_of_others) {
    begin();
    EXPECT_OK(file_write_all(path, "my notes\n", 9));
    EXPECT_ERROR(report_open(&report, &(struct report_options){.metrics_path = path}), "is not a file of metrics");
    EXPECT_ERROR(report_open(&report, &(struct report_options){.prometheus = {.textfile = path}}),
                 "is not a file of --prometheus-textfile");
    expect_content("metrics.jsonl", "my notes\n");
    end();
}

TEST_MAIN(TEST_CASE(hook_facts), TEST_CASE(hook_long_text), TEST_CASE(events_of_a_run), TEST_CASE(first_words_count),
          TEST_CASE(causes), TEST_CASE(stopped_and_usage), TEST_CASE(failed_start), TEST_CASE(dying),
          TEST_CASE(crashing), TEST_CASE(broken_outputs), TEST_CASE(files_of_others))
