// The web board on real sockets: answers and headers, clients that wait, are slow, send garbage, or are thousands.
// tier: all
#include "base/clock.h"
#include "base/error.h"
#include "base/file.h"
#include "report/board/web.h"
#include "moved_clock.h"
#include "test.h"

#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

// Only reached if something is wrong.
static const double patience = 300;

static char folder[64];
static struct web_site site;
static struct web_address address;
static struct web_server *server;

static void begin(const struct web_limits *limits) {
    static const char line[] = "{\"kind\":\"train\",\"time\":2,\"iteration\":1,\"losses\":{\"lm loss\":4.5}}\n";
    if (web_library_load() < 0)
        test_skip("%s", error_message());
    memcpy(folder, "/tmp/bevatron-test-XXXXXX", 26);
    EXPECT(mkdtemp(folder) != NULL);
    char *path = file_join(folder, "metrics.jsonl");
    EXPECT_OK(file_write_all(path, line, sizeof line - 1));
    free(path);
    site = (struct web_site){.host = "127.0.0.1"};
    EXPECT_OK(board_store_open(&site.store, &(struct board_store_options){.logdir = folder, .no_threads = true}));
    board_store_scan(site.store);
    EXPECT_OK(web_listen(&address, "127.0.0.1", 0, false));
    EXPECT(address.is_loopback && address.port > 0 && strcmp(address.text, "127.0.0.1") == 0);
    EXPECT_OK(web_server_start(&server, &site, address.socket, limits));
}

static void end(void) {
    web_server_stop(server);
    board_store_close(site.store);
    EXPECT_OK(file_remove_tree(folder));
}

static int connect_to(int port) {
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int descriptor = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (descriptor >= 0 && connect(descriptor, (struct sockaddr *)&to, sizeof to) < 0) {
        close(descriptor);
        return -1;
    }
    return descriptor;
}

static int connect_client(void) {
    int descriptor = connect_to(address.port);
    EXPECT(descriptor >= 0);
    return descriptor;
}

static void send_text(int client, const char *text) {
    EXPECT_INT(send(client, text, strlen(text), MSG_NOSIGNAL), strlen(text));
}

// Tends the server until the client has something to read or its connection has ended.
static void await(int client) {
    struct pollfd one = {.fd = client, .events = POLLIN};
    double until = clock_seconds() + patience;
    while (poll(&one, 1, 20) == 0) {
        web_server_tend(server);
        EXPECT(clock_seconds() < until);
    }
}

// Reads up to the end of the connection, or up to the end of an answer without a body; NUL-terminated.
static size_t read_all(int client, char *text, size_t size) {
    size_t length = 0;
    for (;;) {
        await(client);
        ssize_t got = recv(client, text + length, size - 1 - length, 0);
        length += got > 0 ? (size_t)got : 0;
        if (got <= 0 || length == size - 1)
            break;
    }
    text[length] = '\0';
    return length;
}

static char answer[1 << 20];

// The status of a whole exchange; the text is in `answer`. 0 if the connection ended without an answer.
static int ask(const char *text) {
    int client = connect_client(), status = 0;
    send_text(client, text);
    read_all(client, answer, sizeof answer);
    close(client);
    (void)sscanf(answer, "HTTP/1.1 %d", &status);
    return status;
}

static int ask_target(const char *target) {
    char text[512];
    snprintf(text, sizeof text, "GET %s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", target);
    return ask(text);
}

TEST(answers) {
    static const char *const headers[] = {"Content-Security-Policy: default-src 'self'",
                                          "frame-ancestors 'none'",
                                          "X-Content-Type-Options: nosniff",
                                          "Referrer-Policy: no-referrer",
                                          "ETag: \"",
                                          "Cache-Control: private, no-cache",
                                          "Content-Type: text/html"};
    begin(NULL);
    EXPECT_INT(ask_target("/"), 200);
    for (size_t i = 0; i < sizeof headers / sizeof headers[0]; i++)
        if (!strstr(answer, headers[i]))
            test_fail("no \"%s\" in %s", headers[i], answer);
    EXPECT(strstr(answer, "\r\n\r\n<!doctype html>") != NULL);
    EXPECT(strstr(answer, "Access-Control") == NULL);
    EXPECT_INT(ask("HEAD / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"), 200);
    EXPECT(strstr(answer, "\r\n\r\n") == answer + strlen(answer) - 4);
    EXPECT_INT(ask_target("/api/runs"), 200);
    EXPECT(strstr(answer, "\"revision\"") != NULL);
    EXPECT_INT(ask_target("/../../../etc/passwd"), 404);
    EXPECT_INT(ask_target("/api/curves?id=%00"), 400);
    EXPECT_INT(ask("GET / HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n"), 403);
    EXPECT_INT(ask("GET / HTTP/1.1\r\nConnection: close\r\n\r\n") / 100, 4);
    EXPECT_INT(ask("DELETE / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"), 405);
    EXPECT(strstr(answer, "Allow: GET, HEAD") != NULL);
    // A body is refused before it has come, and the connection closed.
    EXPECT_INT(ask("POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000000000\r\n\r\nabc"), 405);
    EXPECT_INT(ask("GET / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000000000\r\n\r\n"), 413);
    EXPECT_INT(ask("GET / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nffff\r\n"), 413);
    end();
}

// Two requests, the second sent at once, on one connection.
TEST(one_connection) {
    begin(NULL);
    EXPECT_INT(ask("GET /style.css HTTP/1.1\r\nHost: localhost\r\n\r\n"
                   "GET /api/runs HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"),
               200);
    EXPECT(strstr(answer, "text/css") != NULL && strstr(answer, "\"runs\"") != NULL);
    end();
}

TEST(garbage) {
    // The library waits for more after some of it: those clients are slow ones.
    begin(&(struct web_limits){.send_seconds = 0.2});
    static const char *const garbage[] = {"\r\n\r\n\r\n",
                                          "GET\r\n\r\n",
                                          "GET / HTTP/9.9\r\n\r\n",
                                          "\x16\x03\x01\x02\r\n\r\n",
                                          "GET / HTTP/1.1\r\nHost localhost\r\n\r\n",
                                          "GET  /\r\n\r\n"};
    for (size_t i = 0; i < sizeof garbage / sizeof garbage[0]; i++) {
        int client = connect_client();
        send_text(client, garbage[i]);
        (void)shutdown(client, SHUT_WR);  // the server may have ended the connection by now
        read_all(client, answer, sizeof answer);
        if (strncmp(answer, "HTTP/1.1 2", 10) == 0)
            test_fail("garbage %zu was served: %.40s", i, answer);
        close(client);
    }
    // A target, and a header, larger than any.
    static char large[200000];
    for (int i = 0; i < 2; i++) {
        int client = connect_client();
        memset(large, 'a', sizeof large - 1);
        memcpy(large, i ? "GET / HTTP/1.1\r\nHost: " : "GET /", i ? 22 : 5);
        (void)!send(client, large, sizeof large - 1, MSG_NOSIGNAL);
        (void)shutdown(client, SHUT_WR);
        read_all(client, answer, sizeof answer);
        EXPECT(strncmp(answer, "HTTP/1.1 2", 10) != 0);
        close(client);
    }
    end();
    begin(NULL);
    // A hundred runs in one query are no exaggeration.
    struct buffer text = {0};
    buffer_append_string(&text, "GET /api/curves?x=step&points=500&tag=lm%20loss");
    for (int i = 0; i < 100; i++)
        buffer_printf(&text, "&id=%08x", i);
    buffer_append_string(&text, " HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    EXPECT_INT(ask(buffer_string(&text)), 404);
    EXPECT(strstr(answer, "\"error\"") != NULL);
    buffer_free(&text);
    end();
}

// More parts than the library has memory for are no reason to be silent. The answer comes before the server would
// cut anybody off.
TEST(queries_of_many_parts) {
    begin(&(struct web_limits){.send_seconds = patience, .read_seconds = patience});
    for (int parts = 100; parts <= 3200; parts *= 2) {
        struct buffer text = {0};
        buffer_append_string(&text, "GET /api/log?id=ab");
        for (int i = 0; i < parts; i++)
            buffer_append_string(&text, "&a=1");
        buffer_append_string(&text, " HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
        EXPECT_INT(ask(buffer_string(&text)), parts < WEB_MOST_PAIRS ? 404 : 400);
        EXPECT(!strstr(answer, "\"ab\""));
        buffer_free(&text);
    }
    end();
}

// Cookies with many parts are one text, too; headers that do not fit are an error.
TEST(cookies_of_many_parts) {
    begin(&(struct web_limits){.send_seconds = patience, .read_seconds = patience});
    for (int parts = 50; parts <= 12150; parts *= 3) {
        struct buffer text = {0};
        buffer_append_string(&text, "GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nCookie: a=1");
        for (int i = 0; i < parts; i++)
            buffer_append_string(&text, "; a=1");
        buffer_append_string(&text, "\r\n\r\n");
        EXPECT_INT(ask(buffer_string(&text)), text.length < 12000 ? 200 : 431);
        buffer_free(&text);
    }
    end();
}

// Those who send nothing, or a byte from time to time, or do not read, are cut off; others are served meanwhile. A
// second passes from one byte to the next.
TEST(slow_clients) {
    static struct moved_clock moved;
    moved_clock_open(&moved, true);
    begin(&(struct web_limits){.clock = &moved.clock});
    int silent = connect_client(), dripping = connect_client(), deaf = connect_client();
    static const char drops[] = "GET / HTTP/1.1\r\nX: ",
                      request[] = "GET /style.css HTTP/1.1\r\nHost: localhost\r\n\r\n";
    // Requests for far more than the buffers of both sides hold, of which no answer is read.
    int sent = 0;
    while (sent < 200000 && send(deaf, request, sizeof request - 1, MSG_NOSIGNAL | MSG_DONTWAIT) > 0)
        sent++;
    double until = clock_seconds() + patience;
    for (size_t i = 0;; i++) {
        char drop = i < sizeof drops - 1 ? drops[i] : 'x';
        if (send(dripping, &drop, 1, MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
            break;
        clock_sleep(0.005);
        moved_clock_move(&moved, 1);
        web_server_tend(server);
        EXPECT(clock_seconds() < until);
    }
    EXPECT_INT(ask_target("/"), 200);
    EXPECT_INT(read_all(silent, answer, sizeof answer), 0);
    struct pollfd gone = {.fd = deaf, .events = 0};
    while (poll(&gone, 1, 20) == 0 || !(gone.revents & (POLLHUP | POLLERR))) {
        moved_clock_move(&moved, 1);
        web_server_tend(server);
        EXPECT(clock_seconds() < until);
    }
    close(silent);
    close(dripping);
    close(deaf);
    end();
}

static void ask_for_news(int client) {
    char text[128];
    snprintf(text, sizeof text, "GET /api/runs?after=%lld HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n",
             (long long)board_store_revision(site.store));
    send_text(client, text);
}

// Far more clients wait than there are threads. They are answered when a file has grown, or when their time is over.
TEST(news) {
    enum { CLIENTS = 200 };
    int clients[CLIENTS];
    begin(NULL);
    for (int i = 0; i < CLIENTS; i++) {
        clients[i] = connect_client();
        ask_for_news(clients[i]);
    }
    EXPECT_INT(ask_target("/api/runs"), 200);
    struct pollfd first = {.fd = clients[0], .events = POLLIN};
    EXPECT_INT(poll(&first, 1, 50), 0);
    char *path = file_join(folder, "metrics.jsonl");
    FILE *file = fopen(path, "a");
    EXPECT(file != NULL);
    fputs("{\"kind\":\"train\",\"time\":3,\"iteration\":2,\"losses\":{\"lm loss\":4.25}}\n", file);
    fclose(file);
    free(path);
    board_store_scan(site.store);
    for (int i = 0; i < CLIENTS; i++) {
        read_all(clients[i], answer, sizeof answer);
        EXPECT(strncmp(answer, "HTTP/1.1 200", 12) == 0 && strstr(answer, "4.25"));
        close(clients[i]);
    }
    end();
    begin(&(struct web_limits){.wait_seconds = 0.2});
    int client = connect_client();
    ask_for_news(client);
    read_all(client, answer, sizeof answer);
    EXPECT(strncmp(answer, "HTTP/1.1 200", 12) == 0);
    close(client);
    // The server may be stopped while some wait.
    for (int i = 0; i < CLIENTS; i++) {
        clients[i] = connect_client();
        ask_for_news(clients[i]);
    }
    end();
    for (int i = 0; i < CLIENTS; i++)
        close(clients[i]);
}

// Clients that ask and do not read hold memory: beyond the limit others are told to come back.
TEST(answers_that_nobody_reads) {
    static const char request[] = "GET /api/runs HTTP/1.1\r\nHost: localhost\r\n\r\n";
    double until = clock_seconds() + patience;
    begin(&(struct web_limits){.pending_bytes = 1, .send_seconds = 1000, .read_seconds = 1000});
    EXPECT_INT(ask_target("/api/runs"), 200);
    int deaf = connect_client();
    // Once the buffers of both sides are full, an answer is pending.
    do {
        while (send(deaf, request, sizeof request - 1, MSG_NOSIGNAL | MSG_DONTWAIT) > 0)
            continue;
        EXPECT(errno == EAGAIN && clock_seconds() < until);
    } while (ask_target("/") != 503);
    EXPECT(strstr(answer, "Retry-After: 1") != NULL);
    close(deaf);
    while (ask_target("/api/runs") != 200)
        EXPECT(clock_seconds() < until);
    end();
}

// In a process of its own, which may have as many files open as the server: opens connections and holds them until
// `go` is closed. Every tenth sends a part of a request.
static void hold_connections(int port, int wanted, const int go[2], int report) {
    struct rlimit files;
    int count = 0;
    close(go[1]);
    if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
        files.rlim_cur = files.rlim_max;
        (void)setrlimit(RLIMIT_NOFILE, &files);
    }
    while (count < wanted) {
        int descriptor = connect_to(port);
        if (descriptor < 0)
            break;
        if (count++ % 10 == 0)
            (void)!send(descriptor, "GET / HT", 8, MSG_NOSIGNAL);
    }
    (void)!write(report, &count, sizeof count);
    char byte;
    (void)!read(go[0], &byte, 1);
    _exit(0);
}

TEST(ten_thousand_connections) {
    enum { WANTED = 10000 };
    int go[2], report[2], count = 0, status;
    begin(&(struct web_limits){.send_seconds = 1000});
    EXPECT(pipe(go) == 0 && pipe(report) == 0);
    pid_t child = fork();
    EXPECT(child >= 0);
    if (child == 0)
        hold_connections(address.port, WANTED, go, report[1]);
    close(go[0]);
    await(report[0]);
    EXPECT_INT(read(report[0], &count, sizeof count), sizeof count);
    struct rlimit files;
    EXPECT_INT(getrlimit(RLIMIT_NOFILE, &files), 0);
    printf("    %d connections; a process may have %llu files open\n", count, (unsigned long long)files.rlim_cur);
    EXPECT(count == WANTED || files.rlim_max < WANTED + 256);
    // With all of them open, another client is served; if the system allows fewer, once they have gone.
    if (files.rlim_cur >= WANTED + 256)
        EXPECT_INT(ask_target("/"), 200);
    close(go[1]);
    EXPECT_INT(waitpid(child, &status, 0), child);
    EXPECT_INT(ask_target("/"), 200);
    close(report[0]);
    close(report[1]);
    end();
}

TEST(ports) {
    struct web_address first, second;
    EXPECT_OK(web_listen(&first, "127.0.0.1", 0, false));
    EXPECT_ERROR(web_listen(&second, "127.0.0.1", first.port, false), "is in use");
    EXPECT_OK(web_listen(&second, "localhost", first.port, true));
    EXPECT(second.port > first.port && second.port <= first.port + WEB_NEXT_PORTS && second.is_loopback);
    close(first.socket);
    close(second.socket);
    EXPECT_ERROR(web_listen(&first, "192.0.2.1", 0, false), "is not an address of this machine");
    EXPECT_ERROR(web_listen(&first, "no such name", 0, false), "--host no such name");
    EXPECT_OK(web_listen(&first, "0.0.0.0", 0, false));
    EXPECT(!first.is_loopback);
    close(first.socket);
}

TEST_MAIN(TEST_CASE(answers), TEST_CASE(one_connection), TEST_CASE(garbage), TEST_CASE(queries_of_many_parts),
          TEST_CASE(cookies_of_many_parts), TEST_CASE(slow_clients), TEST_CASE(news),
          TEST_CASE(answers_that_nobody_reads), TEST_CASE(ten_thousand_connections), TEST_CASE(ports))
