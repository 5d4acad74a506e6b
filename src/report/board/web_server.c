// The web board on libmicrohttpd. See web.h.
//
// Some threads of the library wait for all sockets and call `handle`. A request that waits for news is suspended, which
// costs no thread; web_server_tend, called by one thread, resumes it. The list of clients is guarded by a lock, under
// which the library is never called, since its own locks may be held when it calls us.
#include "report/board/web.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/memory.h"

#include <errno.h>
#include <microhttpd.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    THREADS = 4,
    MOST_CLIENTS = 10240,
    OTHER_FILES = 128,         // open files of the store and the library besides the clients' sockets
    REQUEST_BYTES = 16 << 10,  // of a request with all its headers, and of an answer's headers
    PENDING_BYTES = 64 << 20,
};
static const double send_seconds = 30, read_seconds = 60;

enum client_state { CLIENT_SENDS, CLIENT_WAITS, CLIENT_READS };

// A connection.
struct web_client {
    struct web_client *previous, *next;
    struct MHD_Connection *connection;
    int socket;
    enum client_state state;
    double since;     // start of the state
    int64_t after;    // the revision known to a waiting client
    bool has_waited;  // its request
    bool is_new;      // `handle` has not seen its request yet
    char *target;     // of its request
    size_t bytes;     // of the answer that it reads
};

struct web_server {
    const struct web_site *site;
    struct web_limits limits;
    struct MHD_Daemon *daemon;
    int socket;
    pthread_mutex_t lock;       // of the list, and of what it says about its clients
    struct web_client clients;  // head of the list
    bool is_stopping;
    _Atomic size_t pending_bytes;
};

// ---- the library ----

#define MICROHTTPD_SYMBOLS(ROW)                                                                                        \
    ROW(MHD_get_version)                                                                                               \
    ROW(MHD_start_daemon)                                                                                              \
    ROW(MHD_stop_daemon)                                                                                               \
    ROW(MHD_suspend_connection)                                                                                        \
    ROW(MHD_resume_connection)                                                                                         \
    ROW(MHD_get_connection_info)                                                                                       \
    ROW(MHD_lookup_connection_value)                                                                                   \
    ROW(MHD_get_connection_values)                                                                                     \
    ROW(MHD_set_connection_value)                                                                                      \
    ROW(MHD_create_response_from_buffer)                                                                               \
    ROW(MHD_add_response_header)                                                                                       \
    ROW(MHD_queue_response)                                                                                            \
    ROW(MHD_destroy_response)

struct microhttpd_symbols {
    MICROHTTPD_SYMBOLS(LIBRARY_FIELD)
};

// All versions with soname 12 have the functions above; waiting clients work well since 0.9.71.
static int check_version(const void *table, char *version, size_t size) {
    const struct microhttpd_symbols *candidate = table;
    const char *text = candidate->MHD_get_version();
    int major = 0, minor = 0, patch = 0;
    (void)sscanf(text, "%d.%d.%d", &major, &minor, &patch);
    if (major == 0 && (minor < 9 || (minor == 9 && patch < 71)))
        return error_set("is version %.20s, but 0.9.71 or later is needed", text);
    snprintf(version, size, "%s", text);
    return 0;
}

static const struct library microhttpd_row = {
    .id = LIBRARY_MICROHTTPD,
    .name = "microhttpd",
    .user = "web pages of the board",
    .variable = "BEVATRON_MICROHTTPD_LIBRARY",
    .sonames = LIBRARY_LIST("libmicrohttpd.so.12"),
    .folders = LIBRARY_LIST("/usr/local/lib", "/usr/local/lib64"),
    .package = "apt-get install libmicrohttpd12 (libmicrohttpd12t64 on Ubuntu 24.04 and Debian 13)",
    .instead = "use board --text or board --export",
    LIBRARY_SYMBOLS(MICROHTTPD_SYMBOLS),
    .check = check_version,
};

const struct library *web_library(void) {
    return &microhttpd_row;
}

int web_library_load(void) {
    return library_load(web_library());
}

static const struct microhttpd_symbols *library(void) {
    return library_symbols(LIBRARY_MICROHTTPD);
}

// ---- clients ----

static struct web_client *client_of(struct MHD_Connection *connection) {
    const union MHD_ConnectionInfo *info =
        library()->MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    return info ? info->socket_context : NULL;
}

static void set_state(struct web_server *server, struct web_client *client, enum client_state state) {
    pthread_mutex_lock(&server->lock);
    client->state = state;
    client->since = clock_now(server->limits.clock);
    pthread_mutex_unlock(&server->lock);
}

// A client connects or disconnects. The library closes the socket after this, so a socket in the list has one client.
static void note_connection(void *argument, struct MHD_Connection *connection, void **context,
                            enum MHD_ConnectionNotificationCode code) {
    struct web_server *server = argument;
    struct web_client *client = *context;
    if (code == MHD_CONNECTION_NOTIFY_STARTED) {
        const union MHD_ConnectionInfo *info =
            library()->MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
        client = memory_alloc(sizeof *client);
        *client = (struct web_client){.connection = connection,
                                      .socket = info ? info->connect_fd : -1,
                                      .since = clock_now(server->limits.clock),
                                      .previous = &server->clients};
        *context = client;
        pthread_mutex_lock(&server->lock);
        client->next = server->clients.next;
        client->next->previous = client;
        server->clients.next = client;
        pthread_mutex_unlock(&server->lock);
    } else if (client) {
        pthread_mutex_lock(&server->lock);
        client->previous->next = client->next;
        client->next->previous = client->previous;
        pthread_mutex_unlock(&server->lock);
        atomic_fetch_sub(&server->pending_bytes, client->bytes);
        free(client->target);
        free(client);
    }
}

// The target as sent. The library's own parsing is not used: for a query with many parts it would take more memory than
// a connection has, after which the library sends no answer. Therefore the text, which lies in the connection's own
// buffer, is cut for it at the query. Of cookies it parses the first header, which is therefore an empty one of ours.
static void *note_target(void *argument, const char *target, struct MHD_Connection *connection) {
    (void)argument;
    struct web_client *client = client_of(connection);
    char *query = strchr((char *)(uintptr_t)target, '?');
    if (client) {
        free(client->target);
        client->target = memory_string(target);
        client->has_waited = false;
        client->is_new = true;
    }
    if (query && query[1])
        query[1] = '\0';
    (void)library()->MHD_set_connection_value(connection, MHD_HEADER_KIND, "Cookie", "");
    return NULL;
}

static void note_completed(void *argument, struct MHD_Connection *connection, void **context,
                           enum MHD_RequestTerminationCode code) {
    struct web_server *server = argument;
    struct web_client *client = client_of(connection);
    (void)context;
    (void)code;
    if (!client)
        return;
    atomic_fetch_sub(&server->pending_bytes, client->bytes);
    client->bytes = 0;
    set_state(server, client, CLIENT_SENDS);
}

static const char *header(struct MHD_Connection *connection, const char *name) {
    return library()->MHD_lookup_connection_value(connection, MHD_HEADER_KIND, name);
}

static enum MHD_Result take_cookie(void *cookie, enum MHD_ValueKind kind, const char *name, const char *value) {
    (void)kind;
    if (strcasecmp(name, "Cookie") != 0 || !value || !*value)
        return MHD_YES;
    *(const char **)cookie = value;
    return MHD_NO;
}

// The client's header, after the empty one of note_target.
static const char *cookie_of(struct MHD_Connection *connection) {
    const char *cookie = NULL;
    (void)library()->MHD_get_connection_values(connection, MHD_HEADER_KIND, take_cookie, &cookie);
    return cookie;
}

static enum MHD_Result suspend(struct web_server *server, struct web_client *client, int64_t after) {
    library()->MHD_suspend_connection(client->connection);
    pthread_mutex_lock(&server->lock);
    bool is_stopping = server->is_stopping;
    client->has_waited = true;
    if (!is_stopping) {
        client->state = CLIENT_WAITS;
        client->since = clock_now(server->limits.clock);
        client->after = after;
    }
    pthread_mutex_unlock(&server->lock);
    if (is_stopping)
        library()->MHD_resume_connection(client->connection);
    return MHD_YES;
}

static void add_header(struct MHD_Response *out, const char *name, const char *value) {
    if (value && *value)
        (void)library()->MHD_add_response_header(out, name, value);
}

// Passes an answer to the library, which frees the body if it was allocated for it.
static enum MHD_Result reply(struct web_client *client, struct web_response *response) {
    struct MHD_Response *out;
    if (response->body) {
        out = library()->MHD_create_response_from_buffer(response->body_length, (void *)(uintptr_t)response->body,
                                                         MHD_RESPMEM_PERSISTENT);
    } else {
        out = library()->MHD_create_response_from_buffer(response->made.length, response->made.data,
                                                         MHD_RESPMEM_MUST_FREE);
        if (out)
            response->made = (struct buffer){0};
    }
    if (!out)
        return MHD_NO;
    for (size_t i = 0; i < WEB_HEADER_COUNT; i++)
        add_header(out, web_headers[i].name, web_headers[i].value);
    add_header(out, "Content-Type", response->type);
    add_header(out, "ETag", response->etag);
    add_header(out, "Location", response->location);
    add_header(out, "Set-Cookie", response->cookie);
    add_header(out, "Allow", response->status == 405 ? "GET, HEAD" : NULL);
    add_header(out, "WWW-Authenticate", response->status == 401 ? "Bearer" : NULL);
    add_header(out, "Retry-After", response->status == 503 ? "1" : NULL);
    // The rest of a request with a body is not read.
    add_header(out, "Connection", response->status == 405 || response->status == 413 ? "close" : NULL);
    enum MHD_Result result = library()->MHD_queue_response(client->connection, (unsigned)response->status, out);
    library()->MHD_destroy_response(out);
    return result;
}

// While many answers wait for slow readers, new requests are refused; the client retries.
static void answer_or_put_off(struct web_server *server, const struct web_request *request,
                              struct web_response *response) {
    static const char busy[] = "{\"error\":\"too many responses are still unread; try again in a second\"}";
    if (atomic_load(&server->pending_bytes) < server->limits.pending_bytes)
        web_answer(server->site, request, response);
    else
        *response = (struct web_response){
            .status = 503, .type = "application/json; charset=utf-8", .body = busy, .body_length = sizeof busy - 1};
}

static enum MHD_Result handle(void *argument, struct MHD_Connection *connection, const char *url, const char *method,
                              const char *version, const char *upload, size_t *upload_bytes, void **context) {
    struct web_server *server = argument;
    struct web_client *client = client_of(connection);
    (void)url, (void)version, (void)upload, (void)context;
    if (!client || !client->target)
        return MHD_NO;
    const char *length = header(connection, "Content-Length");
    struct web_request request = {
        .method = method,
        .target = client->target,
        .host = header(connection, "Host"),
        .authorization = header(connection, "Authorization"),
        .cookie = cookie_of(connection),
        .if_none_match = header(connection, "If-None-Match"),
        .has_body =
            *upload_bytes > 0 || (length && strcmp(length, "0") != 0) || header(connection, "Transfer-Encoding"),
        .has_waited = client->has_waited,
    };
    // The library first calls when it has the headers. Only a request with a body is answered that early.
    bool is_first = client->is_new;
    client->is_new = false;
    if (is_first && !request.has_body)
        return MHD_YES;
    struct web_response response;
    answer_or_put_off(server, &request, &response);
    if (response.status == WEB_MUST_WAIT)
        return suspend(server, client, response.after);
    client->bytes = response.made.length;
    atomic_fetch_add(&server->pending_bytes, client->bytes);
    set_state(server, client, CLIENT_READS);
    enum MHD_Result result = reply(client, &response);
    web_response_free(&response);
    return result;
}

// Raises the limit of open files as far as the system allows, for thousands of clients.
static int client_limit(const struct web_limits *limits) {
    struct rlimit files;
    int wanted = limits->clients ? limits->clients : MOST_CLIENTS;
    if (getrlimit(RLIMIT_NOFILE, &files) < 0)
        return wanted;
    rlim_t needed = (rlim_t)wanted + OTHER_FILES;
    if (files.rlim_cur < needed) {
        files.rlim_cur = needed < files.rlim_max ? needed : files.rlim_max;
        (void)setrlimit(RLIMIT_NOFILE, &files);
    }
    if (getrlimit(RLIMIT_NOFILE, &files) < 0 || files.rlim_cur >= needed)
        return wanted;
    int fitting = (int)files.rlim_cur - OTHER_FILES;
    return fitting > THREADS ? fitting : THREADS;
}

static void fill_limits(struct web_limits *limits) {
    limits->clients = client_limit(limits);
    limits->send_seconds = limits->send_seconds > 0 ? limits->send_seconds : send_seconds;
    limits->read_seconds = limits->read_seconds > 0 ? limits->read_seconds : read_seconds;
    limits->wait_seconds = limits->wait_seconds > 0 ? limits->wait_seconds : WEB_WAIT_SECONDS;
    limits->pending_bytes = limits->pending_bytes > 0 ? limits->pending_bytes : PENDING_BYTES;
}

// Signals go to the threads created before.
static struct MHD_Daemon *start_daemon(struct web_server *server) {
    unsigned clients = (unsigned)server->limits.clients, threads = clients < THREADS ? clients : THREADS;
    unsigned flags = MHD_USE_EPOLL_INTERNAL_THREAD | MHD_ALLOW_SUSPEND_RESUME;
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    struct MHD_Daemon *daemon = library()->MHD_start_daemon(
        flags, 0, NULL, NULL, handle, server, MHD_OPTION_LISTEN_SOCKET, server->socket, MHD_OPTION_THREAD_POOL_SIZE,
        threads, MHD_OPTION_CONNECTION_LIMIT, clients, MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)REQUEST_BYTES,
        MHD_OPTION_STRICT_FOR_CLIENT, 1, MHD_OPTION_NOTIFY_CONNECTION, note_connection, server,
        MHD_OPTION_URI_LOG_CALLBACK, note_target, server, MHD_OPTION_NOTIFY_COMPLETED, note_completed, server,
        MHD_OPTION_END);
    int error = errno;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    errno = error;
    return daemon;
}

int web_server_start(struct web_server **server, const struct web_site *site, int socket,
                     const struct web_limits *limits) {
    *server = NULL;
    if (web_library_load() < 0) {
        close(socket);
        return -1;
    }
    struct web_server *s = memory_alloc(sizeof *s);
    s->site = site;
    s->limits = limits ? *limits : (struct web_limits){0};
    fill_limits(&s->limits);
    s->socket = socket;
    s->clients.previous = s->clients.next = &s->clients;
    pthread_mutex_init(&s->lock, NULL);
    s->daemon = start_daemon(s);
    if (!s->daemon) {
        int error = errno;
        close(socket);
        pthread_mutex_destroy(&s->lock);
        free(s);
        return error_set("cannot start the web server: %s", strerror(error));
    }
    *server = s;
    return 0;
}

// Fills `list` with connections to resume, whose clients no longer wait. A suspended connection stays until it is
// resumed.
static size_t take_waiting(struct web_server *server, int64_t revision, struct MHD_Connection **list, size_t most) {
    double now = clock_now(server->limits.clock);
    size_t count = 0;
    pthread_mutex_lock(&server->lock);
    for (struct web_client *at = server->clients.next; at != &server->clients && count < most; at = at->next) {
        if (at->state != CLIENT_WAITS ||
            (at->after == revision && !server->is_stopping && now - at->since < server->limits.wait_seconds))
            continue;
        at->state = CLIENT_READS;
        at->since = now;
        list[count++] = at->connection;
    }
    pthread_mutex_unlock(&server->lock);
    return count;
}

static void resume_waiting(struct web_server *server, int64_t revision) {
    enum { AT_ONCE = 256 };
    struct MHD_Connection *list[AT_ONCE];
    size_t count;
    do {
        count = take_waiting(server, revision, list, AT_ONCE);
        for (size_t i = 0; i < count; i++)
            library()->MHD_resume_connection(list[i]);
    } while (count == AT_ONCE);
}

// The library notices the end of the connection and closes it.
static void cut_off_slow(struct web_server *server) {
    double now = clock_now(server->limits.clock);
    const struct web_limits *limits = &server->limits;
    pthread_mutex_lock(&server->lock);
    for (struct web_client *at = server->clients.next; at != &server->clients; at = at->next) {
        double limit = at->state == CLIENT_SENDS ? limits->send_seconds : limits->read_seconds;
        if (at->state != CLIENT_WAITS && now - at->since > limit)
            (void)shutdown(at->socket, SHUT_RDWR);
    }
    pthread_mutex_unlock(&server->lock);
}

void web_server_tend(struct web_server *server) {
    resume_waiting(server, board_store_revision(server->site->store));
    cut_off_slow(server);
}

void web_server_stop(struct web_server *server) {
    if (!server)
        return;
    pthread_mutex_lock(&server->lock);
    server->is_stopping = true;
    pthread_mutex_unlock(&server->lock);
    resume_waiting(server, 0);
    library()->MHD_stop_daemon(server->daemon);
    pthread_mutex_destroy(&server->lock);
    free(server);
}
