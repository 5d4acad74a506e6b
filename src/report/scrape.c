// GET /metrics. See prometheus.h.
#include "report/prometheus.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/interrupt.h"
#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

// ---- the Host header ----

bool host_is_loopback(const char *address) {
    struct in_addr four;
    struct in6_addr six;
    if (inet_pton(AF_INET, address, &four) == 1)
        return (ntohl(four.s_addr) >> 24) == 127;
    if (inet_pton(AF_INET6, address, &six) == 1)
        return IN6_IS_ADDR_LOOPBACK(&six);
    return strcasecmp(address, "localhost") == 0 || strcasecmp(address, "localhost.") == 0;
}

// "[::1]:6006" and "localhost:6006" without the port; false if other text follows the name.
static bool strip_port(const char *header, char *name, size_t size) {
    bool is_bracketed = header[0] == '[';
    const char *begin = header + is_bracketed;
    size_t length = strcspn(begin, is_bracketed ? "]" : ":");
    const char *rest = begin + length;
    if (is_bracketed && *rest++ != ']')
        return false;
    if (*rest && (*rest != ':' || strspn(rest + 1, "0123456789") != strlen(rest + 1)))
        return false;
    if (length == 0 || length >= size)
        return false;
    memcpy(name, begin, length);
    name[length] = '\0';
    return true;
}

bool host_header_is_ours(const char *own, const char *header) {
    char name[256];
    if (!header || !strip_port(header, name, sizeof name))
        return false;
    return host_is_loopback(name) || (own && strcasecmp(name, own) == 0);
}

// ---- the server ----

// BACKLOG: a client that the kernel does not queue tries again only after a second.
enum { MOST_CLIENTS = 16, BACKLOG = 1024 };
static const double CLIENT_SECONDS = 3;  // for the whole conversation

struct scrape_client {
    int socket;  // -1: free
    double until;
    char request[SCRAPE_REQUEST_BYTES];
    size_t received;
    struct buffer answer;
    size_t sent;
};

struct scrape {
    int listener, wake;           // wake: an eventfd, readable once the thread is to end
    struct scrape_source source;  // without a function for a switch
    atomic_bool *is_on;           // of a switch
    const char *what;
    char host[256];  // the server's address; "" if other machines can reach it
    struct scrape_client clients[MOST_CLIENTS];
    pthread_t thread;
};

// ---- requests ----

static bool is_word(const char *bytes, size_t length, const char *word) {
    return length == strlen(word) && memcmp(bytes, word, length) == 0;
}

// End of the header: an empty line.
static bool is_complete(const char *bytes, size_t length) {
    for (const char *at = bytes; (at = memchr(at, '\n', (size_t)(bytes + length - at))); at++) {
        size_t left = (size_t)(bytes + length - at) - 1;
        if ((left > 0 && at[1] == '\n') || (left > 1 && at[1] == '\r' && at[2] == '\n'))
            return true;
    }
    return false;
}

// The value of a header in lines that end with an empty one; "" if it is missing. False if it does not fit.
static bool read_header(const char *bytes, size_t length, const char *name, char *value, size_t size) {
    size_t name_bytes = strlen(name);
    *value = '\0';
    for (const char *at = bytes; (at = memchr(at, '\n', (size_t)(bytes + length - at)));) {
        const char *line = ++at, *end = memchr(line, '\n', (size_t)(bytes + length - line));
        if (!end || (size_t)(end - line) <= name_bytes || line[name_bytes] != ':' ||
            strncasecmp(line, name, name_bytes) != 0)
            continue;
        for (line += name_bytes + 1; line < end && (*line == ' ' || *line == '\t');)
            line++;
        while (end > line && (end[-1] == '\r' || end[-1] == ' ' || end[-1] == '\t'))
            end--;
        if ((size_t)(end - line) >= size || memchr(line, 0, (size_t)(end - line)))
            return false;
        memcpy(value, line, (size_t)(end - line));
        value[end - line] = '\0';
        return true;
    }
    return true;
}

// Programs may omit the headers, browsers do not.
static bool is_of_other_site(const char *bytes, size_t length, const char *host) {
    char name[256], site[32];
    if (!host)
        return false;
    if (!read_header(bytes, length, "Host", name, sizeof name) ||
        !read_header(bytes, length, "Sec-Fetch-Site", site, sizeof site))
        return true;
    return (*name && !host_header_is_ours(host, name)) || strcmp(site, "cross-site") == 0;
}

enum scrape_request scrape_parse(const char *bytes, size_t length, const char *host) {
    if (!is_complete(bytes, length))
        return length >= SCRAPE_REQUEST_BYTES ? SCRAPE_TOO_LARGE : SCRAPE_INCOMPLETE;
    const char *end = memchr(bytes, '\n', length);
    size_t line = (size_t)(end - bytes);
    line -= line > 0 && bytes[line - 1] == '\r';
    const char *target = memchr(bytes, ' ', line);
    const char *version = target ? memchr(target + 1, ' ', line - (size_t)(target + 1 - bytes)) : NULL;
    if (!version || memchr(bytes, 0, line) || line - (size_t)(version + 1 - bytes) != 8 ||
        memcmp(version + 1, "HTTP/1.", 7) != 0)
        return SCRAPE_BAD_REQUEST;
    size_t method_bytes = (size_t)(target - bytes), target_bytes = (size_t)(version - target) - 1;
    bool is_head = is_word(bytes, method_bytes, "HEAD");
    if (!is_head && !is_word(bytes, method_bytes, "GET"))
        return SCRAPE_BAD_METHOD;
    if (is_of_other_site(bytes, length, host))
        return SCRAPE_OTHER_HOST;
    const char *query = memchr(++target, '?', target_bytes);
    size_t path_bytes = query ? (size_t)(query - target) : target_bytes;
    if (is_word(target, path_bytes, "/metrics"))
        return is_head ? SCRAPE_METRICS_HEAD : SCRAPE_METRICS;
    return is_word(target, path_bytes, "/") ? SCRAPE_INDEX : SCRAPE_NOT_FOUND;
}

// A switch's action and answer.
static void turn_over(const struct scrape *scrape, struct buffer *body) {
    bool is_on = !atomic_load(scrape->is_on);
    atomic_store(scrape->is_on, is_on);
    buffer_printf(body, "%s: %s\n", scrape->what, is_on ? "on" : "off");
}

static void answer(const struct scrape *scrape, struct scrape_client *client, enum scrape_request request) {
    static const char *const statuses[] = {
        [SCRAPE_METRICS] = "200 OK",
        [SCRAPE_METRICS_HEAD] = "200 OK",
        [SCRAPE_INDEX] = "200 OK",
        [SCRAPE_NOT_FOUND] = "404 Not Found",
        [SCRAPE_BAD_METHOD] = "405 Method Not Allowed",
        [SCRAPE_BAD_REQUEST] = "400 Bad Request",
        [SCRAPE_OTHER_HOST] = "403 Forbidden",
        [SCRAPE_TOO_LARGE] = "431 Request Header Fields Too Large",
    };
    OWNED_BY(buffer_free) struct buffer body = {0};
    if (!scrape->source.compose && (request == SCRAPE_METRICS || request == SCRAPE_METRICS_HEAD))
        request = SCRAPE_NOT_FOUND;
    bool has_metrics = request == SCRAPE_METRICS || request == SCRAPE_METRICS_HEAD;
    if (has_metrics)
        scrape->source.compose(scrape->source.context, &body);
    else if (request == SCRAPE_INDEX && scrape->is_on)
        turn_over(scrape, &body);
    else if (request == SCRAPE_INDEX)
        buffer_append_string(&body, "bevatron: the metrics are at /metrics\n");
    else
        buffer_printf(&body, "%s\n", statuses[request]);
    buffer_printf(&client->answer,
                  "HTTP/1.1 %s\r\nContent-Type: text/plain; %scharset=utf-8\r\nContent-Length: %zu\r\n"
                  "%sCache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\nConnection: close\r\n\r\n",
                  statuses[request], has_metrics ? "version=0.0.4; " : "", body.length,
                  request == SCRAPE_BAD_METHOD ? "Allow: GET, HEAD\r\n" : "");
    if (request != SCRAPE_METRICS_HEAD)
        buffer_append(&client->answer, buffer_string(&body), body.length);
}

// ---- clients ----

static void end_client(struct scrape_client *client) {
    close(client->socket);
    buffer_free(&client->answer);
    *client = (struct scrape_client){.socket = -1};
}

// Reads and writes as much as possible without blocking.
static void serve_client(const struct scrape *scrape, struct scrape_client *client) {
    bool is_open = true;
    while (is_open && client->answer.length == 0) {
        ssize_t count = recv(client->socket, client->request + client->received,
                             sizeof client->request - client->received, MSG_DONTWAIT);
        if (count < 0 && (errno == EAGAIN || errno == EINTR))
            return;
        is_open = count > 0;
        client->received += is_open ? (size_t)count : 0;
        enum scrape_request request =
            scrape_parse(client->request, client->received, scrape->host[0] ? scrape->host : NULL);
        if (is_open && request != SCRAPE_INCOMPLETE)
            answer(scrape, client, request);
    }
    while (is_open && client->sent < client->answer.length) {
        ssize_t count = send(client->socket, client->answer.data + client->sent, client->answer.length - client->sent,
                             MSG_DONTWAIT | MSG_NOSIGNAL);
        if (count < 0 && (errno == EAGAIN || errno == EINTR))
            return;
        is_open = count > 0;
        client->sent += is_open ? (size_t)count : 0;
    }
    end_client(client);
}

// A free place, or that of the longest-connected client: a client that sends a request is served at once, so clients
// that stay are idle.
static struct scrape_client *make_room(struct scrape *scrape) {
    struct scrape_client *oldest = &scrape->clients[0];
    for (int i = 0; i < MOST_CLIENTS; i++) {
        struct scrape_client *client = &scrape->clients[i];
        if (client->socket < 0)
            return client;
        if (client->until < oldest->until)
            oldest = client;
    }
    end_client(oldest);
    return oldest;
}

static void accept_client(struct scrape *scrape) {
    int connected = accept4(scrape->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (connected < 0) {
        // Without descriptors the listener stays readable: do not spin on it.
        if (errno != EAGAIN && errno != EINTR && errno != ECONNABORTED)
            clock_sleep(0.1);
        return;
    }
    struct scrape_client *client = make_room(scrape);
    client->socket = connected;
    client->until = clock_seconds() + CLIENT_SECONDS;
    // Data sent while it waited to be accepted is answered before another client may take its place.
    serve_client(scrape, client);
}

// Time left for the first client, in milliseconds; -1 if there is none.
static int time_left(const struct scrape *scrape) {
    double now = clock_seconds(), next = -1;
    for (int i = 0; i < MOST_CLIENTS; i++) {
        const struct scrape_client *client = &scrape->clients[i];
        if (client->socket >= 0 && (next < 0 || client->until < next))
            next = client->until;
    }
    return next < 0 ? -1 : next <= now ? 0 : (int)((next - now) * 1000) + 1;
}

static void *serve(void *opaque) {
    struct scrape *scrape = opaque;
    for (;;) {
        struct pollfd files[2 + MOST_CLIENTS] = {{.fd = scrape->wake, .events = POLLIN}};
        for (int i = 0; i < MOST_CLIENTS; i++) {
            const struct scrape_client *client = &scrape->clients[i];
            files[2 + i].fd = client->socket;
            files[2 + i].events = client->answer.length > 0 ? POLLOUT : POLLIN;
        }
        files[1] = (struct pollfd){.fd = scrape->listener, .events = POLLIN};
        if (poll(files, 2 + MOST_CLIENTS, time_left(scrape)) < 0 && errno != EINTR)
            return NULL;
        if (files[0].revents)
            return NULL;
        // Time in which this thread did not run does not count against a client that has sent data since.
        double now = clock_seconds();
        for (int i = 0; i < MOST_CLIENTS; i++) {
            if (files[2 + i].fd >= 0 && files[2 + i].revents)
                serve_client(scrape, &scrape->clients[i]);
            else if (files[2 + i].fd >= 0 && scrape->clients[i].until <= now)
                end_client(&scrape->clients[i]);
        }
        if (files[1].revents)
            accept_client(scrape);
    }
}

// ---- the server ----

static int listen_on(const char *address, int port) {
    char service[16];
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE | AI_NUMERICSERV}, *found = NULL;
    snprintf(service, sizeof service, "%d", port);
    int status = getaddrinfo(address, service, &hints, &found);
    if (status != 0)
        return error_set("cannot find the address %s: %s", address, gai_strerror(status));
    int listener = -1, error = 0;
    for (struct addrinfo *at = found; at && listener < 0; at = at->ai_next) {
        int yes = 1;
        listener = socket(at->ai_family, at->ai_socktype | SOCK_CLOEXEC | SOCK_NONBLOCK, at->ai_protocol);
        if (listener >= 0)
            setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
        if (listener >= 0 && bind(listener, at->ai_addr, at->ai_addrlen) == 0 && listen(listener, BACKLOG) == 0)
            break;
        error = errno;
        if (listener >= 0)
            close(listener);
        listener = -1;
    }
    freeaddrinfo(found);
    return listener >= 0 ? listener : error_set("cannot listen on %s port %d: %s", address, port, strerror(error));
}

// Starts serving; the purpose of the server is already in *scrape.
static int open_server(struct scrape *scrape, const char *address, int port) {
    int listener = listen_on(address, port);
    TRY(listener);
    if (host_is_loopback(address))
        snprintf(scrape->host, sizeof scrape->host, "%s", address);
    scrape->listener = listener;
    scrape->wake = eventfd(0, EFD_CLOEXEC);
    for (int i = 0; i < MOST_CLIENTS; i++)
        scrape->clients[i].socket = -1;
    if (scrape->wake < 0 || !thread_start(&scrape->thread, serve, scrape)) {
        close(listener);
        if (scrape->wake >= 0)
            close(scrape->wake);
        return error_set("cannot start a thread for port %d", port);
    }
    return 0;
}

int scrape_open_switch(struct scrape **opened, atomic_bool *is_on, const char *what, int port) {
    struct scrape *scrape = memory_alloc(sizeof *scrape);
    *scrape = (struct scrape){.is_on = is_on, .what = what};
    *opened = NULL;
    if (open_server(scrape, "127.0.0.1", port) < 0) {
        free(scrape);
        return -1;
    }
    *opened = scrape;
    return 0;
}

int scrape_open(struct scrape **opened, struct scrape_source source, const char *address, int port) {
    struct scrape *scrape = memory_alloc(sizeof *scrape);
    *scrape = (struct scrape){.source = source};
    *opened = NULL;
    if (open_server(scrape, address, port) < 0) {
        free(scrape);
        return -1;
    }
    bool is_v6 = strchr(address, ':') != NULL;
    log_info("metrics for Prometheus are served at http://%s%s%s:%d/metrics", is_v6 ? "[" : "", address,
             is_v6 ? "]" : "", port);
    *opened = scrape;
    return 0;
}

void scrape_close(struct scrape *scrape) {
    if (!scrape)
        return;
    uint64_t one = 1;
    if (write(scrape->wake, &one, sizeof one) == (ssize_t)sizeof one)
        pthread_join(scrape->thread, NULL);
    for (int i = 0; i < MOST_CLIENTS; i++)
        if (scrape->clients[i].socket >= 0)
            end_client(&scrape->clients[i]);
    close(scrape->listener);
    close(scrape->wake);
    free(scrape);
}
