// The text for Prometheus, its file and its server: names, labels that need escapes, values that are not finite, a file
// that is replaced whole, and clients that are wrong, slow or many.
#include "report/prometheus.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "report/scrape.h"
#include "moved_clock.h"
#include "test.h"
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
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
    prometheus_step(p, &m, false);
    prometheus_step(p, &m, true);
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
        prometheus_step(p, &m, false);
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
#define PARSE(text) scrape_parse(text, sizeof text - 1)
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
    EXPECT_INT(scrape_parse(large, sizeof large), SCRAPE_TOO_LARGE);
    EXPECT_INT(scrape_parse(large, sizeof large - 1), SCRAPE_INCOMPLETE);
}

static int connect_to(int port) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    inet_pton(AF_INET, "127.0.0.1", &address.sin_addr);
    int client = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (client >= 0 && connect(client, (struct sockaddr *)&address, sizeof address) < 0) {
        close(client);
        return -1;
    }
    return client;
}

// Sends a request and returns the whole answer. On a busy machine this process may be too slow for the server.
static struct buffer ask(int port, const char *request) {
    struct buffer text = {0};
    for (int attempt = 0; attempt < 50 && text.length == 0; attempt++) {
        char bytes[4096];
        ssize_t count;
        int client = connect_to(port);
        EXPECT(client >= 0);
        (void)send(client, request, strlen(request), MSG_NOSIGNAL);
        while ((count = recv(client, bytes, sizeof bytes, 0)) > 0)
            buffer_append(&text, bytes, (size_t)count);
        close(client);
    }
    return text;
}

// A server on a port that was free a moment ago.
static struct prometheus *serve(int *port) {
    struct prometheus *p = NULL;
    for (int attempt = 0; attempt < 50; attempt++) {
        struct sockaddr_in address = {.sin_family = AF_INET};
        socklen_t length = sizeof address;
        int probe = socket(AF_INET, SOCK_STREAM, 0);
        EXPECT(bind(probe, (struct sockaddr *)&address, sizeof address) == 0);
        EXPECT(getsockname(probe, (struct sockaddr *)&address, &length) == 0);
        close(probe);
        *port = ntohs(address.sin_port);
        EXPECT_OK(prometheus_open(
            &p, &(struct prometheus_options){.address = "127.0.0.1", .port = *port, .run = "r", .train_iters = 20}));
        int client = connect_to(*port);
        if (client >= 0) {
            close(client);
            return p;
        }
        prometheus_close(p);
    }
    test_fail("no port could be had");
}

TEST(server) {
    int port = 0;
    log_set_level(LOG_ERROR);
    struct prometheus *p = serve(&port);
    struct metrics m = at(7);
    prometheus_step(p, &m, false);
    prometheus_train(p, &m);
    struct buffer text = ask(port, "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
    EXPECT(strncmp(text.data, "HTTP/1.1 200 OK\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\n", 73) ==
           0);
    EXPECT(strstr(text.data, "\nbevatron_iteration{run=\"r\"} 7\n") != NULL);
    const char *body = strstr(text.data, "\r\n\r\n") + 4, *length = strstr(text.data, "Content-Length: ");
    EXPECT_INT(strtol(length + 16, NULL, 10), strlen(body));
    buffer_free(&text);
    text = ask(port, "HEAD /metrics HTTP/1.1\r\n\r\n");
    EXPECT(strstr(text.data, " 200 OK") != NULL && strstr(text.data, "bevatron_") == NULL);
    buffer_free(&text);
    static const struct {
        const char *request, *status;
    } wrong[] = {{"GET /../x HTTP/1.1\r\n\r\n", "HTTP/1.1 404 "},
                 {"DELETE /metrics HTTP/1.1\r\n\r\n", "HTTP/1.1 405 "},
                 {"\x16\x03\x01\x02\n\n", "HTTP/1.1 400 "}};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        text = ask(port, wrong[i].request);
        EXPECT(strncmp(buffer_string(&text), wrong[i].status, strlen(wrong[i].status)) == 0);
        EXPECT(strstr(text.data, "bevatron_") == NULL);
        buffer_free(&text);
    }
    prometheus_close(p);
    EXPECT(connect_to(port) < 0);
}

// Clients that say nothing fill all places; the oldest make room for others.
TEST(slow_clients) {
    enum { CLIENTS = 17 };
    int port = 0, clients[CLIENTS];
    log_set_level(LOG_ERROR);
    struct prometheus *p = serve(&port);
    for (int i = 0; i < CLIENTS; i++) {
        clients[i] = connect_to(port);
        if (clients[i] >= 0 && i % 2)
            (void)send(clients[i], "GET /met", 8, MSG_NOSIGNAL);
    }
    struct buffer text = ask(port, "GET /metrics HTTP/1.1\r\n\r\n");
    EXPECT(strstr(buffer_string(&text), "bevatron_iteration") != NULL);
    buffer_free(&text);
    for (int i = 0; i < CLIENTS; i++)
        if (clients[i] >= 0)
            close(clients[i]);
    prometheus_close(p);
}

static int count_files(void) {
    int count = 0;
    for (int fd = 0; fd < 1024; fd++)
        count += fcntl(fd, F_GETFD) >= 0;
    return count;
}

// Another process makes ten thousand connections and holds as many as it may. Some say nothing, some a part of a
// request, some nonsense. Meanwhile metrics are served, and afterwards no descriptor is left.
TEST(ten_thousand_strangers) {
    enum { STRANGERS = 10000, HELD = 400, ASKED = 20 };
    static int held[HELD];
    static char nonsense[20000];
    int port = 0, status;
    log_set_level(LOG_ERROR);
    struct prometheus *p = serve(&port);
    memset(nonsense, 'x', sizeof nonsense);
    int before = count_files();
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        int made = 0;
        for (int i = 0; i < STRANGERS; i++) {
            int client = connect_to(port);
            made += client >= 0;
            if (client >= 0 && i % 3 > 0)
                (void)!send(client, i % 3 == 1 ? "GET /met" : nonsense, i % 3 == 1 ? 8 : sizeof nonsense,
                            MSG_NOSIGNAL | MSG_DONTWAIT);
            if (i >= HELD)
                close(held[i % HELD]);
            held[i % HELD] = client;
        }
        _exit(made == STRANGERS ? 0 : 1);
    }
    for (int i = 0; i < ASKED; i++) {
        struct buffer text = ask(port, "GET /metrics HTTP/1.1\r\n\r\n");
        EXPECT(strstr(buffer_string(&text), "bevatron_iteration") != NULL);
        buffer_free(&text);
    }
    EXPECT_INT(waitpid(child, &status, 0), child);
    EXPECT(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    struct buffer text = ask(port, "GET /metrics HTTP/1.1\r\n\r\n");
    EXPECT(strstr(buffer_string(&text), "bevatron_iteration") != NULL);
    buffer_free(&text);
    for (double end = clock_seconds() + 60; count_files() > before && clock_seconds() < end;)
        clock_sleep(0.02);
    EXPECT_INT(count_files(), before);
    prometheus_close(p);
}

// A port that is taken, or an address that is not ours, is reported, and the run has no server.
TEST(no_port) {
    int port = 0;
    log_set_level(LOG_ERROR);
    struct prometheus *p = serve(&port), *other = NULL;
    EXPECT_OK(prometheus_open(&other, &(struct prometheus_options){.address = "127.0.0.1", .port = port}));
    prometheus_close(other);
    EXPECT_OK(prometheus_open(&other, &(struct prometheus_options){.address = "not an address", .port = port}));
    prometheus_close(other);
    EXPECT_STRING(error_message(), "");
    prometheus_close(p);
    EXPECT_OK(prometheus_open(&p, &(struct prometheus_options){0}));
    EXPECT(p == NULL);
}

TEST_MAIN(TEST_CASE(text), TEST_CASE(fast_steps), TEST_CASE(parser), TEST_CASE(server), TEST_CASE(slow_clients),
          TEST_CASE(ten_thousand_strangers), TEST_CASE(no_port))
