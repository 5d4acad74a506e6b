// The server for Prometheus: answers, and clients that are wrong, slow or many.
// tier: all
#include "base/clock.h"
#include "base/log.h"
#include "report/prometheus.h"
#include "test.h"
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

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
    struct metrics m = {.iteration = 7, .train_iters = 20, .losses = {{"lm loss", 2.5}}, .loss_count = 1};
    prometheus_step(p, &m);
    prometheus_train(p, &m);
    struct buffer text = ask(port, "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n");
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

TEST_MAIN(TEST_CASE(server), TEST_CASE(slow_clients), TEST_CASE(ten_thousand_strangers), TEST_CASE(no_port))
