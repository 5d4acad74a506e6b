// The text for Prometheus and its file: names, labels that need escapes, values that are not finite, a file that is
// replaced whole; and requests. The server: test_prometheus_server.c.
#include "report/prometheus.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "moved_clock.h"
#include "test.h"
#include <sys/stat.h>
#include <unistd.h>

static char folder[64], path[128];

static void begin(void) {
    log_set_level(LOG_ERROR);
    snprintf(folder, sizeof folder, "/tmp/bevatron_prometheus_XXXXXX");
    EXPECT(mkdtemp(folder) != NULL);
    snprintf(path, sizeof path, "%s/a/run.prom", folder);
}

static void end(void) {
    EXPECT_OK(file_remove_tree(folder));
}

static struct metrics at(int64_t iteration) {
    return (struct metrics){.iteration = iteration,
                            .train_iters = 20,
                            .consumed_samples = 8 * iteration,
                            .losses = {{"lm loss", 2.5}, {"sop loss", NAN}},
                            .loss_count = 2,
                            .learning_rate = 1e-4,
                            .global_batch_size = 8,
                            .elapsed_ms = 250,
                            .tokens_per_second = 1e5,
                            .grad_norm = INFINITY,
                            .has_grad_norm = true,
                            .memory_bytes = 1 << 30,
                            .loss_scale = 1};
}

static bool has_line(const struct buffer *text, const char *line) {
    char *wanted = malloc(strlen(line) + 3);
    snprintf(wanted, strlen(line) + 3, "\n%s\n", line);
    bool is_there = strstr(buffer_string(text), wanted) != NULL;
    free(wanted);
    return is_there;
}

// Every sample follows its HELP and TYPE, and no name comes twice.
static void expect_form(const struct buffer *text) {
    char name[128] = "", other[128], type[32], seen[8192] = " ";
    for (const char *line = buffer_string(text), *next; *line; line = next) {
        const char *newline = strchr(line, '\n');
        EXPECT(newline != NULL);
        next = newline + 1;
        if (sscanf(line, "# HELP %127s", name) == 1) {
            char word[140];
            snprintf(word, sizeof word, " %s ", name);
            EXPECT(strstr(seen, word) == NULL && strlen(seen) + strlen(word) < sizeof seen);
            strncat(seen, word + 1, sizeof seen - strlen(seen) - 1);
        } else if (sscanf(line, "# TYPE %127s %31s", other, type) == 2) {
            EXPECT_STRING(other, name);
            bool is_counter = strlen(name) > 6 && strcmp(name + strlen(name) - 6, "_total") == 0;
            EXPECT_STRING(type, is_counter ? "counter" : "gauge");
        } else {
            EXPECT(strncmp(line, name, strlen(name)) == 0 && strchr("{ ", line[strlen(name)]) != NULL);
        }
    }
}

TEST(text) {
    begin();
    struct prometheus *p = NULL;
    EXPECT_OK(prometheus_open(&p, &(struct prometheus_options){.textfile = path,
                                                               .run = "a\\b\"c\nd\xff",
                                                               .job = "17",
                                                               .first_iteration = 3,
                                                               .train_iters = 20,
                                                               .ranks = 4}));
#define LABELS "{run=\"a\\\\b\\\"c\\nd\xef\xbf\xbd\",job_id=\"17\""
    struct buffer text = {0};
    EXPECT_OK(file_read_all(path, 1 << 20, &text));
    EXPECT(has_line(&text, "bevatron_iteration" LABELS "} 3"));
    EXPECT(has_line(&text, "bevatron_run_state" LABELS ",state=\"running\"} 1"));
    expect_form(&text);
    struct metrics m = at(5);
    m.is_skipped = true;
    prometheus_step(p, &m);
    struct metrics broken = m;
    broken.losses[0].value = NAN;
    prometheus_step(p, &broken);
    prometheus_train(p, &m);
    struct metrics_eval eval = {.iteration = 5, .set = "validation", .losses = {{"lm loss", 3.5}}, .loss_count = 1};
    prometheus_eval(p, &eval);
    eval.losses[0].value = 3.25;
    prometheus_eval(p, &eval);
    eval.set = "test";
    prometheus_eval(p, &eval);
    prometheus_event(p, &(struct metrics_event){.name = "saved", .iteration = 5});
    prometheus_event(p, &(struct metrics_event){.name = "failed", .iteration = 6});
    buffer_clear(&text);
    EXPECT_OK(file_read_all(path, 1 << 20, &text));
    static const char *const lines[] = {
        "bevatron_iteration" LABELS "} 5",
        "bevatron_samples_total" LABELS "} 40",
        "bevatron_loss" LABELS ",loss=\"lm loss\"} 2.5",
        "bevatron_loss" LABELS ",loss=\"sop loss\"} NaN",
        "bevatron_grad_norm" LABELS "} +Inf",
        "bevatron_learning_rate" LABELS "} 0.0001",
        "bevatron_iteration_seconds" LABELS "} 0.25",
        "bevatron_memory_bytes" LABELS "} 1073741824",
        "bevatron_skipped_iterations_total" LABELS "} 2",
        "bevatron_nan_iterations_total" LABELS "} 1",
        "bevatron_evaluation_loss" LABELS ",loss=\"lm loss\",set=\"validation\"} 3.25",
        "bevatron_evaluation_loss" LABELS ",loss=\"lm loss\",set=\"test\"} 3.25",
        "bevatron_events_total" LABELS ",event=\"saved\"} 1",
        "bevatron_events_total" LABELS ",event=\"hang\"} 0",
        "bevatron_checkpoint_iteration" LABELS "} 5",
        "bevatron_run_state" LABELS ",state=\"running\"} 0",
        "bevatron_run_state" LABELS ",state=\"failed\"} 1",
        "bevatron_ranks" LABELS "} 4",
        "bevatron_train_iterations" LABELS "} 20",
    };
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++)
        if (!has_line(&text, lines[i]))
            test_fail("no line %s in\n%s", lines[i], text.data);
    expect_form(&text);
    buffer_free(&text);
    prometheus_close(p);
    prometheus_close(NULL);
    // The next start replaces the file of this one; only one file is there.
    struct stat status;
    EXPECT(stat(path, &status) == 0 && (status.st_mode & 0444) == 0444);
    EXPECT_OK(prometheus_open(&p, &(struct prometheus_options){.textfile = path}));
    prometheus_close(p);
    EXPECT_INT(unlink(path), 0);
    char *parent = file_parent(path);
    EXPECT(file_is_empty_folder(parent));
    free(parent);
    end();
}

// Intervals that follow one another within 5 seconds share a write; the last one is not lost.
TEST(fast_steps) {
    begin();
    struct prometheus *p = NULL;
    struct buffer text = {0};
    static struct moved_clock moved;
    moved_clock_open(&moved, true);
    EXPECT_OK(
        prometheus_open(&p, &(struct prometheus_options){.textfile = path, .train_iters = 20, .clock = &moved.clock}));
    for (int i = 1; i <= 1000; i++) {
        struct metrics m = at(i);
        moved.now = 0.015625 * i;
        prometheus_step(p, &m);
        prometheus_train(p, &m);
        // After 5, 10 and 15 seconds.
        char line[64];
        snprintf(line, sizeof line, "bevatron_iteration %d", i / 320 * 320);
        buffer_clear(&text);
        EXPECT_OK(file_read_all(path, 1 << 20, &text));
        EXPECT(has_line(&text, line));
    }
    buffer_clear(&text);
    prometheus_close(p);
    EXPECT_OK(file_read_all(path, 1 << 20, &text));
    EXPECT(has_line(&text, "bevatron_iteration 1000"));
    buffer_free(&text);
    end();
}

TEST(parser) {
#define PARSE(text) scrape_parse(text, sizeof text - 1, NULL)
    EXPECT_INT(PARSE("GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n"), SCRAPE_METRICS);
    EXPECT_INT(PARSE("GET /metrics?x=1 HTTP/1.0\n\n"), SCRAPE_METRICS);
    EXPECT_INT(PARSE("HEAD /metrics HTTP/1.1\r\n\r\n"), SCRAPE_METRICS_HEAD);
    EXPECT_INT(PARSE("GET / HTTP/1.1\r\n\r\n"), SCRAPE_INDEX);
    EXPECT_INT(PARSE("GET /metrics HTTP/1.1\r\nHost: a\r\n"), SCRAPE_INCOMPLETE);
    EXPECT_INT(PARSE(""), SCRAPE_INCOMPLETE);
    EXPECT_INT(PARSE("GET /../../etc/passwd HTTP/1.1\r\n\r\n"), SCRAPE_NOT_FOUND);
    EXPECT_INT(PARSE("GET /metricsx HTTP/1.1\r\n\r\n"), SCRAPE_NOT_FOUND);
    EXPECT_INT(PARSE("POST /metrics HTTP/1.1\r\n\r\n"), SCRAPE_BAD_METHOD);
    EXPECT_INT(PARSE("GET /metrics\r\n\r\n"), SCRAPE_BAD_REQUEST);
    EXPECT_INT(PARSE("GET /metrics HTTP/2.0\r\n\r\n"), SCRAPE_BAD_REQUEST);
    EXPECT_INT(PARSE("GET /met\0rics HTTP/1.1\r\n\r\n"), SCRAPE_BAD_REQUEST);
    EXPECT_INT(PARSE("\r\n\r\n"), SCRAPE_BAD_REQUEST);
    EXPECT_INT(PARSE("GET  HTTP/1.1\r\n\r\n"), SCRAPE_NOT_FOUND);
    static char large[SCRAPE_REQUEST_BYTES];
    memset(large, 'x', sizeof large);
    EXPECT_INT(scrape_parse(large, sizeof large, NULL), SCRAPE_TOO_LARGE);
    EXPECT_INT(scrape_parse(large, sizeof large - 1, NULL), SCRAPE_INCOMPLETE);
}

// A page whose name an attacker's DNS points here must not read what the run is called and where it is.
TEST(other_sites) {
#define ASK(headers)                                                                                                   \
    scrape_parse("GET /metrics HTTP/1.1\r\n" headers "\r\n", strlen("GET /metrics HTTP/1.1\r\n" headers "\r\n"),       \
                 "127.0.0.1")
    EXPECT_INT(ASK("Host: localhost:9400\r\n"), SCRAPE_METRICS);
    EXPECT_INT(ASK("Accept: */*\r\nhost:127.0.0.1:9400\r\n"), SCRAPE_METRICS);
    EXPECT_INT(ASK("Host: [::1]:9400 \r\n"), SCRAPE_METRICS);
    EXPECT_INT(ASK(""), SCRAPE_METRICS);
    EXPECT_INT(ASK("Host: evil.example\r\n"), SCRAPE_OTHER_HOST);
    EXPECT_INT(ASK("Host: 127.0.0.1.evil.example:9400\r\n"), SCRAPE_OTHER_HOST);
    EXPECT_INT(ASK("Host: 127.0.0.1:9400\r\nSec-Fetch-Site: cross-site\r\n"), SCRAPE_OTHER_HOST);
    EXPECT_INT(ASK("Host: 127.0.0.1:9400\r\nSec-Fetch-Site: none\r\n"), SCRAPE_METRICS);
    static const char request[] = "GET /metrics HTTP/1.1\nHost: trainer-0.svc:9400\n\n";
    EXPECT_INT(scrape_parse(request, sizeof request - 1, NULL), SCRAPE_METRICS);
    EXPECT_INT(scrape_parse(request, sizeof request - 1, "::1"), SCRAPE_OTHER_HOST);
    static char longer[600] = "GET /metrics HTTP/1.1\nHost: ";
    memset(longer + strlen(longer), 'a', 400);
    memcpy(longer + strlen(longer), "\n\n", 3);
    EXPECT_INT(scrape_parse(longer, strlen(longer), "127.0.0.1"), SCRAPE_OTHER_HOST);
}

TEST_MAIN(TEST_CASE(text), TEST_CASE(fast_steps), TEST_CASE(parser), TEST_CASE(other_sites))
