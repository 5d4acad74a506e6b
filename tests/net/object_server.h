// A small server that speaks enough of S3 for tests: objects are files ROOT/BUCKET/KEY; GET with ranges and If-Match,
// PUT, DELETE, multipart uploads, paged listings. It also plays STS, instances and containers, and any other web server
// under /web/ (files of ROOT/web; those below /web/plain/ without ranges).
//
// ROOT/.faults holds words, one per line, and each request to an object consumes the first: "ok", "500", "503", "404",
// "reset" (the connection ends at once), "short" (it ends in the middle of the body), "stall" (nothing comes until the
// client gives up), "changed" (another ETag), "region R" (the bucket is in another region), "expired", "expired 403",
// "skew", "to URL" (a redirect), "size N" (that many bytes), "late CODE" (an error of an upload after the status 200).
// ROOT/.instance holds such words for requests to the instance endpoint. ROOT/.log gets a line for each request. Only
// the access key AKIDTEST and those issued by STS and endpoints (ASIA…) are known; a session token "stale" has expired.
#ifndef TESTS_BASE_OBJECT_SERVER_H
#define TESTS_BASE_OBJECT_SERVER_H

#include "base/buffer.h"
#include "base/error.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/memory.h"
#include "base/process.h"
#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

struct object_server {
    const char *root;
    int listener, port;
    int page;  // keys per listing
    pthread_mutex_t lock;
    int next_upload;
    int64_t issued;  // credentials issued
};

struct exchange {
    struct object_server *server;
    int socket;
    struct buffer head, body;  // of the request
    char method[16], *path, *query;
    char fault[64];
    bool closes;
};

static const char *server_header(const struct exchange *exchange, const char *name) {
    static _Thread_local char value[4096];
    size_t length = strlen(name);
    for (const char *line = strstr(buffer_string(&exchange->head), "\r\n"); line; line = strstr(line + 2, "\r\n"))
        if (strncasecmp(line + 2, name, length) == 0 && line[2 + length] == ':') {
            const char *begin = line + 3 + length;
            begin += strspn(begin, " ");
            (void)snprintf(value, sizeof value, "%.*s", (int)strcspn(begin, "\r"), begin);
            return value;
        }
    return NULL;
}

static bool server_send(const struct exchange *exchange, const void *bytes, size_t count) {
    for (const char *p = bytes; count > 0;) {
        ssize_t sent = send(exchange->socket, p, count, MSG_NOSIGNAL);
        if (sent <= 0)
            return false;
        p += sent;
        count -= (size_t)sent;
    }
    return true;
}

static void server_reply(struct exchange *exchange, int status, const char *headers, const void *body, size_t count) {
    char date[64];
    time_t now = time(NULL) + (strcmp(exchange->fault, "skew") == 0 ? 7200 : 0);
    struct tm utc;
    (void)strftime(date, sizeof date, "%a, %d %b %Y %H:%M:%S GMT", gmtime_r(&now, &utc));
    char *head =
        memory_printf("HTTP/1.1 %d x\r\nDate: %s\r\nContent-Length: %zu\r\n%s\r\n", status, date, count, headers);
    bool is_short = strcmp(exchange->fault, "short") == 0 && count > 1;
    bool sent = server_send(exchange, head, strlen(head)) && server_send(exchange, body, is_short ? count / 2 : count);
    exchange->closes = exchange->closes || is_short || !sent;
    free(head);
}

static void server_refuse(struct exchange *exchange, int status, const char *code, const char *headers) {
    char *body = memory_printf(
        "<?xml version=\"1.0\"?>\n<Error><Code>%s</Code><Message>no &lt;%s&gt;</Message></Error>", code, code);
    server_reply(exchange, status, headers, body, strlen(body));
    free(body);
}

// Takes the first word of ROOT/NAME.
static void server_take_fault(struct exchange *exchange, const char *name) {
    struct object_server *server = exchange->server;
    char *path = file_join(server->root, name);
    struct buffer text = {0};
    exchange->fault[0] = 0;
    pthread_mutex_lock(&server->lock);
    if (file_exists(path) && file_read_all(path, 1 << 20, &text) == 0 && text.length > 0) {
        size_t length = strcspn(text.data, "\n");
        (void)snprintf(exchange->fault, sizeof exchange->fault, "%.*s", (int)length, text.data);
        size_t used = length < text.length ? length + 1 : length;
        (void)file_write_all(path, text.data + used, text.length - used);
    }
    pthread_mutex_unlock(&server->lock);
    buffer_free(&text);
    free(path);
}

static void server_log(struct exchange *exchange) {
    struct object_server *server = exchange->server;
    char *path = file_join(server->root, ".log"), *range = memory_string(server_header(exchange, "Range"));
    pthread_mutex_lock(&server->lock);
    FILE *log = fopen(path, "a");
    if (log) {
        fprintf(log, "%s %s?%s %s\n", exchange->method, exchange->path, exchange->query, range ? range : "");
        fclose(log);
    }
    pthread_mutex_unlock(&server->lock);
    free(range);
    free(path);
}

static void server_tag(const struct buffer *bytes, const struct exchange *exchange, char tag[68]) {
    struct sha256 hash;
    unsigned char digest[32];
    char hex[65];
    sha256_init(&hash);
    if (bytes->length > 0)
        sha256_update(&hash, bytes->data, bytes->length);
    sha256_final(&hash, digest);
    sha256_hex(digest, hex);
    (void)snprintf(tag, 68, "\"%.32s%s\"", hex, strcmp(exchange->fault, "changed") == 0 ? "x" : "");
}

static void server_decode(char *text) {
    char *out = text;
    for (; *text; text++) {
        unsigned byte;
        if (*text == '%' && sscanf(text + 1, "%2x", &byte) == 1) {
            *out++ = (char)byte;
            text += 2;
        } else {
            *out++ = *text;
        }
    }
    *out = 0;
}

// A parameter of the query, decoded; NULL if it is absent. The caller frees it.
static char *server_parameter(const struct exchange *exchange, const char *name) {
    size_t length = strlen(name);
    for (const char *item = exchange->query; *item; item += strcspn(item, "&"), item += *item == '&')
        if (strncmp(item, name, length) == 0 && (item[length] == '=' || item[length] == '&' || !item[length])) {
            size_t begin = item[length] == '=' ? length + 1 : length;
            char *value = memory_printf("%.*s", (int)(strcspn(item, "&") - begin), item + begin);
            server_decode(value);
            return value;
        }
    return NULL;
}

// ---- objects ----

static void server_get(struct exchange *exchange, const char *path, bool has_ranges) {
    struct buffer bytes = {0};
    char tag[68];
    if (!file_is_regular(path) || file_read_all(path, (size_t)1 << 30, &bytes) < 0) {
        server_refuse(exchange, 404, "NoSuchKey", "");
        return;
    }
    server_tag(&bytes, exchange, tag);
    const char *match = server_header(exchange, "If-Match");
    bool is_other = match && strcmp(match, tag) != 0;
    const char *range = has_ranges ? server_header(exchange, "Range") : NULL;
    unsigned long long first = 0, last = 0;
    bool is_ranged = range && sscanf(range, "bytes=%llu-%llu", &first, &last) == 2;
    if (is_other) {
        server_refuse(exchange, 412, "PreconditionFailed", "");
    } else if (is_ranged && first >= bytes.length) {
        char *headers = memory_printf("Content-Range: bytes */%zu\r\n", bytes.length);
        server_refuse(exchange, 416, "InvalidRange", headers);
        free(headers);
    } else if (is_ranged) {
        last = last < bytes.length ? last : bytes.length - 1;
        const char *huge = strncmp(exchange->fault, "size ", 5) == 0 ? exchange->fault + 5 : NULL;
        char *whole = huge ? memory_string(huge) : memory_printf("%zu", bytes.length);
        char *headers = memory_printf("ETag: %s\r\nContent-Range: bytes %llu-%llu/%s\r\n", tag, first, last, whole);
        free(whole);
        server_reply(exchange, 206, headers, bytes.data + first, (size_t)(last - first) + 1);
        free(headers);
    } else {
        char *headers = memory_printf("ETag: %s\r\n", tag);
        server_reply(exchange, 200, headers, bytes.length > 0 ? bytes.data : "", bytes.length);
        free(headers);
    }
    buffer_free(&bytes);
}

static void server_put(struct exchange *exchange, const char *path) {
    char tag[68], *headers;
    (void)file_make_parent(path);
    (void)file_write_all(path, exchange->body.length > 0 ? exchange->body.data : "", exchange->body.length);
    server_tag(&exchange->body, exchange, tag);
    headers = memory_printf("ETag: %s\r\n", tag);
    server_reply(exchange, 200, headers, "", 0);
    free(headers);
}

// The parts of an upload are in ROOT/.uploads/ID/NUMBER until they are joined.
static void server_upload(struct exchange *exchange, const char *path, const char *id) {
    char *part = server_parameter(exchange, "partNumber");
    char *folder = memory_printf("%s/.uploads/%s", exchange->server->root, id);
    bool is_known = file_is_folder(folder);
    if (!is_known) {
        server_refuse(exchange, 404, "NoSuchUpload", "");
    } else if (strcmp(exchange->method, "PUT") == 0) {
        char *file = memory_printf("%s/%s", folder, part ? part : "0");
        server_put(exchange, file);
        free(file);
    } else if (strcmp(exchange->method, "DELETE") == 0) {
        (void)file_remove_tree(folder);
        server_reply(exchange, 204, "", "", 0);
    } else if (strncmp(exchange->fault, "late ", 5) == 0) {
        server_refuse(exchange, 200, exchange->fault + 5, "");
    } else {
        struct buffer whole = {0}, bytes = {0};
        for (int i = 1;; i++) {
            char *file = memory_printf("%s/%d", folder, i);
            bool is_there = file_exists(file) && file_read_all(file, (size_t)1 << 30, &bytes) == 0;
            free(file);
            if (!is_there)
                break;
            buffer_append(&whole, buffer_string(&bytes), bytes.length);
            buffer_clear(&bytes);
        }
        (void)file_make_parent(path);
        (void)file_write_all(path, buffer_string(&whole), whole.length);
        (void)file_remove_tree(folder);
        const char *done =
            "<CompleteMultipartUploadResult><ETag>&quot;x-2&quot;</ETag></CompleteMultipartUploadResult>";
        server_reply(exchange, 200, "", done, strlen(done));
        buffer_free(&whole);
        buffer_free(&bytes);
    }
    free(folder);
    free(part);
}

static void server_begin_upload(struct exchange *exchange) {
    struct object_server *server = exchange->server;
    pthread_mutex_lock(&server->lock);
    int id = ++server->next_upload;
    pthread_mutex_unlock(&server->lock);
    char *folder = memory_printf("%s/.uploads/u%d", server->root, id);
    char *body =
        memory_printf("<InitiateMultipartUploadResult><UploadId>u%d</UploadId></InitiateMultipartUploadResult>", id);
    (void)file_make_folders(folder);
    server_reply(exchange, 200, "", body, strlen(body));
    free(folder);
    free(body);
}

// ---- listings ----

struct server_keys {
    char **names;
    size_t count;
};

static void server_walk(struct server_keys *keys, const char *folder, const char *prefix) {
    DIR *opened = opendir(folder);
    for (struct dirent *entry; opened && (entry = readdir(opened));) {
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
            continue;
        char *path = file_join(folder, entry->d_name);
        char *name = memory_printf("%s%s%s", prefix, *prefix ? "/" : "", entry->d_name);
        if (file_is_folder(path)) {
            server_walk(keys, path, name);
            free(name);
        } else {
            keys->names = memory_realloc(keys->names, (keys->count + 1) * sizeof *keys->names);
            keys->names[keys->count++] = name;
        }
        free(path);
    }
    if (opened)
        closedir(opened);
}

static int server_compare(const void *a, const void *b) {
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static void server_escape(struct buffer *out, const char *text) {
    for (; *text; text++)
        if (strchr("<>&\"", *text))
            buffer_printf(out, "&#%d;", *text);
        else
            buffer_append_byte(out, *text);
}

static void server_list(struct exchange *exchange, const char *folder) {
    char *prefix = server_parameter(exchange, "prefix"), *after = server_parameter(exchange, "continuation-token");
    char *delimiter = server_parameter(exchange, "delimiter");
    struct server_keys keys = {0};
    struct buffer out = {0};
    server_walk(&keys, folder, "");
    if (keys.count > 0)
        qsort(keys.names, keys.count, sizeof *keys.names, server_compare);
    buffer_append_string(&out, "<?xml version=\"1.0\"?>\n<ListBucketResult xmlns=\"x\"><!-- a page -->");
    int written = 0;
    const char *last = NULL;
    for (size_t i = 0; i < keys.count && written < exchange->server->page; i++) {
        const char *name = keys.names[i];
        size_t length = prefix ? strlen(prefix) : 0;
        if ((prefix && strncmp(name, prefix, length) != 0) || (after && strcmp(name, after) <= 0) ||
            (delimiter && strchr(name + length, '/')))
            continue;
        char *path = file_join(folder, name), tag[68];
        struct buffer bytes = {0};
        if (file_read_all(path, (size_t)1 << 30, &bytes) == 0) {
            server_tag(&bytes, exchange, tag);
            buffer_append_string(&out, "<Contents><Key>");
            server_escape(&out, name);
            buffer_append_string(&out, "</Key><ETag>");
            server_escape(&out, tag);
            buffer_printf(&out, "</ETag><Size>%zu</Size><Owner/></Contents>", bytes.length);
            last = name;
            written++;
        }
        buffer_free(&bytes);
        free(path);
    }
    bool is_full = written == exchange->server->page;
    buffer_printf(&out, "<IsTruncated>%s</IsTruncated>", is_full ? "true" : "false");
    if (is_full) {
        buffer_append_string(&out, "<NextContinuationToken>");
        server_escape(&out, last);
        buffer_append_string(&out, "</NextContinuationToken>");
    }
    buffer_append_string(&out, "</ListBucketResult>");
    server_reply(exchange, 200, "", out.data, out.length);
    for (size_t i = 0; i < keys.count; i++)
        free(keys.names[i]);
    free(keys.names);
    free(prefix);
    free(after);
    free(delimiter);
    buffer_free(&out);
}

// ---- authentication ----

// Answers for endpoints of instances and containers, and for STS. Every answer has new keys.
static bool server_plays_endpoint(struct exchange *exchange) {
    static const char roles[] = "/latest/meta-data/iam/security-credentials/";
    const char *path = exchange->path, *text = NULL;
    char expires[32];
    time_t soon = time(NULL) + 3600;
    struct tm utc;
    (void)strftime(expires, sizeof expires, "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&soon, &utc));
    struct buffer out = {0};
    pthread_mutex_lock(&exchange->server->lock);
    long long number = ++exchange->server->issued;
    pthread_mutex_unlock(&exchange->server->lock);
    if (strcmp(path, "/latest/api/token") == 0)
        text = "imds-token";
    else if (strcmp(path, roles) == 0)
        text = "a-role";
    else if (strcmp(path, "/creds") == 0 || strncmp(path, roles, strlen(roles)) == 0)
        buffer_printf(
            &out,
            "{\"AccessKeyId\": \"ASIA%lld\", \"SecretAccessKey\": \"s\", \"Token\": \"t\", \"Expiration\": \"%s\"}",
            number, expires);
    else if (strcmp(path, "/") == 0 && strcmp(exchange->method, "POST") == 0)
        buffer_printf(&out,
                      "<R><Credentials><AccessKeyId>ASIA%lld</AccessKeyId><SecretAccessKey>s</SecretAccessKey>"
                      "<SessionToken>t</SessionToken><Expiration>%s</Expiration></Credentials></R>",
                      number, expires);
    text = out.length > 0 ? out.data : text;
    bool needs_token = strncmp(path, "/latest/meta-data", 17) == 0;
    const char *token = server_header(exchange, "X-aws-ec2-metadata-token");
    if (text && needs_token && !(token && strcmp(token, "imds-token") == 0))
        server_reply(exchange, 401, "", "", 0);
    else if (text && strcmp(path, "/") == 0 && !strstr(buffer_string(&exchange->body), "RoleArn=arn%3Aaws"))
        server_refuse(exchange, 400, "ValidationError", "");
    else if (text)
        server_reply(exchange, 200, "", text, strlen(text));
    bool plays = text != NULL;
    buffer_free(&out);
    return plays;
}

// Whether the request is allowed; if not, it was answered.
static bool server_admits(struct exchange *exchange) {
    const char *given = server_header(exchange, "Authorization");
    bool is_known = given && (strstr(given, "Credential=AKIDTEST/") || strstr(given, "Credential=ASIA"));
    bool is_other = given && !is_known;
    const char *token = server_header(exchange, "x-amz-security-token");
    if (!given)
        server_refuse(exchange, 403, "AccessDenied", "");
    else if (is_other)
        server_refuse(exchange, 403, "InvalidAccessKeyId", "");
    else if (token && strcmp(token, "stale") == 0)
        server_refuse(exchange, 400, "ExpiredToken", "");
    else
        return true;
    return false;
}

// Whether the fault was the whole answer.
static bool server_fails(struct exchange *exchange) {
    const char *fault = exchange->fault;
    int status = (int)strtol(fault, NULL, 10);
    if (status > 0) {
        server_refuse(exchange, status, status == 503 ? "SlowDown" : status == 404 ? "NoSuchKey" : "InternalError", "");
    } else if (strcmp(fault, "reset") == 0) {
        struct linger hard = {1, 0};
        setsockopt(exchange->socket, SOL_SOCKET, SO_LINGER, &hard, sizeof hard);
        exchange->closes = true;
    } else if (strcmp(fault, "stall") == 0) {
        struct pollfd end = {.fd = exchange->socket, .events = POLLIN};
        (void)poll(&end, 1, 600000);
        exchange->closes = true;
    } else if (strncmp(fault, "region ", 7) == 0) {
        char *headers = memory_printf("x-amz-bucket-region: %s\r\n", fault + 7);
        server_refuse(exchange, 301, "PermanentRedirect", headers);
        free(headers);
    } else if (strncmp(fault, "to ", 3) == 0) {
        char *headers = memory_printf("Location: %s\r\n", fault + 3);
        server_reply(exchange, 302, headers, "", 0);
        free(headers);
    } else if (strncmp(fault, "expired", 7) == 0) {  // S3 answers 400, other services 403
        server_refuse(exchange, fault[7] ? 403 : 400, "ExpiredToken", "");
    } else if (strcmp(fault, "skew") == 0) {
        server_refuse(exchange, 403, "RequestTimeTooSkewed", "");
    } else {
        return false;
    }
    return true;
}

static void server_answer(struct exchange *exchange) {
    server_log(exchange);
    exchange->fault[0] = 0;
    if (strncmp(exchange->path, "/latest/", 8) == 0)
        server_take_fault(exchange, ".instance");
    if (server_fails(exchange) || server_plays_endpoint(exchange))
        return;
    server_take_fault(exchange, ".faults");
    if (server_fails(exchange))
        return;
    bool is_web = strncmp(exchange->path, "/web/", 5) == 0;
    char *path = memory_printf("%s%s", exchange->server->root, exchange->path);
    char *id = server_parameter(exchange, "uploadId"), *begins = server_parameter(exchange, "uploads");
    char *lists = server_parameter(exchange, "list-type");
    if (is_web)
        server_get(exchange, path, strncmp(exchange->path, "/web/plain/", 11) != 0);
    else if (!server_admits(exchange))
        ;
    else if (lists)
        server_list(exchange, path);
    else if (begins)
        server_begin_upload(exchange);
    else if (id)
        server_upload(exchange, path, id);
    else if (strcmp(exchange->method, "PUT") == 0)
        server_put(exchange, path);
    else if (strcmp(exchange->method, "DELETE") == 0) {
        char *parent = file_parent(path);
        (void)unlink(path);
        (void)rmdir(parent);  // folders exist only as parts of names
        free(parent);
        server_reply(exchange, 204, "", "", 0);
    } else
        server_get(exchange, path, true);
    free(path);
    free(id);
    free(begins);
    free(lists);
}

// ---- connections ----

// Reads one request; false at the end of the connection.
static bool server_read(struct exchange *exchange) {
    char bytes[65536], *end = NULL;
    buffer_clear(&exchange->head);
    buffer_clear(&exchange->body);
    while (!end) {
        ssize_t got = recv(exchange->socket, bytes, 1, 0);
        if (got <= 0)
            return false;
        buffer_append(&exchange->head, bytes, (size_t)got);
        end = exchange->head.length >= 4 ? strstr(exchange->head.data + exchange->head.length - 4, "\r\n\r\n") : NULL;
    }
    const char *given = server_header(exchange, "Content-Length");
    size_t left = given ? strtoull(given, NULL, 10) : 0;
    while (left > 0) {
        ssize_t got = recv(exchange->socket, bytes, left < sizeof bytes ? left : sizeof bytes, 0);
        if (got <= 0)
            return false;
        buffer_append(&exchange->body, bytes, (size_t)got);
        left -= (size_t)got;
    }
    char target[8192];
    if (sscanf(exchange->head.data, "%15s %8191s", exchange->method, target) != 2)
        return false;
    free(exchange->path);
    free(exchange->query);
    char *query = strchr(target, '?');
    exchange->query = memory_string(query ? query + 1 : "");
    if (query)
        *query = 0;
    server_decode(target);
    exchange->path = memory_string(target);
    return true;
}

static void *server_serve(void *argument) {
    struct exchange *exchange = argument;
    int no_delay = 1;
    setsockopt(exchange->socket, IPPROTO_TCP, TCP_NODELAY, &no_delay, sizeof no_delay);
    while (!exchange->closes && server_read(exchange))
        server_answer(exchange);
    close(exchange->socket);
    buffer_free(&exchange->head);
    buffer_free(&exchange->body);
    free(exchange->path);
    free(exchange->query);
    free(exchange);
    return NULL;
}

static void server_accept(struct object_server *server) {
    for (;;) {
        int socket = accept(server->listener, NULL, NULL);
        if (socket < 0 && (errno == EINTR || errno == ECONNABORTED))  // the client has gone
            continue;
        if (socket < 0)
            return;
        struct exchange *exchange = memory_alloc(sizeof *exchange);
        exchange->server = server;
        exchange->socket = socket;
        pthread_t thread;
        if (pthread_create(&thread, NULL, server_serve, exchange) == 0)
            pthread_detach(thread);
    }
}

// In a separate process, which ends with this one: a test may fork, and a child of a process with other threads can
// wait forever for a lock that one of them held.
static void server_start(struct object_server *server, const char *root, int page) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof address;
    *server = (struct object_server){.root = root, .page = page};
    pthread_mutex_init(&server->lock, NULL);
    server->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK(bind(server->listener, (struct sockaddr *)&address, sizeof address) == 0 &&
          listen(server->listener, 64) == 0);
    CHECK(getsockname(server->listener, (struct sockaddr *)&address, &length) == 0);
    server->port = ntohs(address.sin_port);
    pid_t self = getpid(), child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        process_end_with(self);
        server_accept(server);
        _exit(1);
    }
    close(server->listener);
}

#endif
