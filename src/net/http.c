// Requests over libcurl, which is loaded when the first address is used. See http.h.
#include "net/http.h"
#include "base/error.h"
#include "base/interrupt.h"
#include "base/library.h"
#include "base/lifeline.h"
#include "base/memory.h"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

// CURLOPT_REDIR_PROTOCOLS's replacement is missing in libcurl before 7.85.
#define CURL_DISABLE_DEPRECATION
// The checks are macros named like the functions, and so like the fields below.
#define CURL_DISABLE_TYPECHECK
#include <curl/curl.h>

// Only functions of libcurl 7.42 are called, whatever the build's header offers.
#define CURL_SYMBOLS(ROW)                                                                                              \
    ROW(curl_version_info)                                                                                             \
    ROW(curl_easy_cleanup)                                                                                             \
    ROW(curl_easy_getinfo)                                                                                             \
    ROW(curl_easy_init)                                                                                                \
    ROW(curl_easy_perform)                                                                                             \
    ROW(curl_easy_reset)                                                                                               \
    ROW(curl_easy_setopt)                                                                                              \
    ROW(curl_easy_strerror)                                                                                            \
    ROW(curl_global_init)                                                                                              \
    ROW(curl_slist_append)                                                                                             \
    ROW(curl_slist_free_all)

struct curl_symbols {
    CURL_SYMBOLS(LIBRARY_FIELD)
};

static inline const struct curl_symbols *curl_symbols(void) {
    return library_symbols(LIBRARY_CURL);
}

enum { OLDEST_VERSION = 0x072a00 };

static int check_version(const void *table, char *version, size_t size) {
    const struct curl_symbols *candidate = table;
    const curl_version_info_data *found = candidate->curl_version_info(CURLVERSION_FIRST);
    if (found->version_num < OLDEST_VERSION)
        return error_set("is libcurl %.20s, but 7.42 or later is needed", found->version);
    snprintf(version, size, "%s", found->version);
    return 0;
}

// Debian has one libcurl per TLS library; all have the same functions.
static const struct library curl_row = {
    .id = LIBRARY_CURL,
    .name = "libcurl",
    .user = "s3:// and https:// addresses",
    .variable = "BEVATRON_CURL_LIBRARY",
    .sonames = LIBRARY_LIST("libcurl.so.4", "libcurl-gnutls.so.4"),
    .folders = LIBRARY_LIST("/usr/local/lib64", "/usr/local/lib", "$CONDA_PREFIX/lib"),
    .package = "apt-get install libcurl4 ca-certificates",
    .instead = "copy the data to a disk",
    LIBRARY_SYMBOLS(CURL_SYMBOLS),
    .check = check_version,
};

const struct library *http_library(void) {
    return &curl_row;
}

enum { MOST_HEADER_BYTES = 1 << 18, MOST_REDIRECTS = 10, CONNECT_SECONDS = 10, STALL_SECONDS = 60, MOST_IDLE = 64 };

struct http_client {
    CURL *curl;
    struct http_client *next;  // next idle client
};

static pthread_once_t begun = PTHREAD_ONCE_INIT;
static pthread_mutex_t idle_lock = PTHREAD_MUTEX_INITIALIZER;
static struct http_client *idle;
static int idle_count;

static void begin_library(void) {
    (void)curl_symbols()->curl_global_init(CURL_GLOBAL_DEFAULT);
}

int http_load(void) {
    return library_load(http_library());
}

// ---- the pool ----

static struct http_client *take_client(void) {
    pthread_once(&begun, begin_library);
    pthread_mutex_lock(&idle_lock);
    struct http_client *client = idle;
    if (client) {
        idle = client->next;
        idle_count--;
    }
    pthread_mutex_unlock(&idle_lock);
    if (client)
        return client;
    client = memory_alloc(sizeof *client);
    client->curl = curl_symbols()->curl_easy_init();
    CHECK(client->curl);
    return client;
}

static void free_client(struct http_client *client) {
    curl_symbols()->curl_easy_cleanup(client->curl);
    free(client);
}

static void give_back(struct http_client *client) {
    pthread_mutex_lock(&idle_lock);
    bool keeps = idle_count < MOST_IDLE;
    if (keeps) {
        client->next = idle;
        idle = client;
        idle_count++;
    }
    pthread_mutex_unlock(&idle_lock);
    if (!keeps)
        free_client(client);
}

void http_close_idle(void) {
    pthread_mutex_lock(&idle_lock);
    struct http_client *first = idle;
    idle = NULL;
    idle_count = 0;
    pthread_mutex_unlock(&idle_lock);
    while (first) {
        struct http_client *next = first->next;
        free_client(first);
        first = next;
    }
}

// ---- one transfer ----

struct transfer {
    const struct http_request *request;
    struct http_response *response;
    CURL *curl;
    bool is_refused, is_stopped;
};

static size_t take_header(char *bytes, size_t size, size_t count, void *context) {
    struct transfer *transfer = context;
    struct buffer *headers = &transfer->response->headers;
    // Every intermediate answer (100, redirects) begins a new block.
    if (size * count >= 5 && memcmp(bytes, "HTTP/", 5) == 0)
        buffer_clear(headers);
    if (headers->length + size * count > MOST_HEADER_BYTES)
        return 0;
    buffer_append(headers, bytes, size * count);
    return size * count;
}

static size_t take_body(char *bytes, size_t size, size_t count, void *context) {
    struct transfer *transfer = context;
    long status = 0;
    (void)curl_symbols()->curl_easy_getinfo(transfer->curl, CURLINFO_RESPONSE_CODE, &status);
    transfer->response->status = (int)status;
    if (transfer->request->sink && transfer->request->sink(transfer->request->context, bytes, size * count) < 0) {
        transfer->is_refused = true;
        return size * count + 1;
    }
    return size * count;
}

static int look_up(void *context, curl_off_t total_in, curl_off_t in, curl_off_t total_out, curl_off_t out) {
    (void)total_in, (void)in, (void)total_out, (void)out;
    struct transfer *transfer = context;
    const atomic_bool *stop = transfer->request->stop;
    transfer->is_stopped = (stop && atomic_load(stop)) || interrupt_check() < 0;
    return transfer->is_stopped;
}

// Seconds without a byte, as a whole number, after which a transfer is given up.
static long stall_limit(const struct http_request *request) {
    double stall = request->stall_seconds > 0 ? request->stall_seconds : STALL_SECONDS;
    return stall < 1 ? 1 : (long)stall;
}

static void set_options(struct transfer *transfer, const struct curl_slist *headers, char *message) {
    const struct curl_symbols *symbols = curl_symbols();
    CURL *curl = transfer->curl;
    const struct http_request *request = transfer->request;
    double connect = request->connect_seconds > 0 ? request->connect_seconds : CONNECT_SECONDS;
    symbols->curl_easy_reset(curl);
    symbols->curl_easy_setopt(curl, CURLOPT_URL, request->url);
    symbols->curl_easy_setopt(curl, CURLOPT_PATH_AS_IS, 1L);
    symbols->curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
    symbols->curl_easy_setopt(curl, CURLOPT_ERRORBUFFER, message);
    symbols->curl_easy_setopt(curl, CURLOPT_USERAGENT, "bevatron/" BEVATRON_VERSION);
    symbols->curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT_MS, (long)(connect * 1000));
    symbols->curl_easy_setopt(curl, CURLOPT_LOW_SPEED_LIMIT, 1L);
    symbols->curl_easy_setopt(curl, CURLOPT_LOW_SPEED_TIME, stall_limit(request));
    symbols->curl_easy_setopt(curl, CURLOPT_BUFFERSIZE, 262144L);
    symbols->curl_easy_setopt(curl, CURLOPT_FOLLOWLOCATION, request->follows ? 1L : 0L);
    symbols->curl_easy_setopt(curl, CURLOPT_MAXREDIRS, (long)MOST_REDIRECTS);
    // A redirect never leads from https to an unencrypted address or to another kind of server.
    bool is_safe = strncasecmp(request->url, "https:", 6) == 0;
    symbols->curl_easy_setopt(curl, CURLOPT_REDIR_PROTOCOLS,
                              (long)(is_safe ? CURLPROTO_HTTPS : CURLPROTO_HTTP | CURLPROTO_HTTPS));
    symbols->curl_easy_setopt(curl, CURLOPT_HEADERFUNCTION, take_header);
    symbols->curl_easy_setopt(curl, CURLOPT_HEADERDATA, transfer);
    symbols->curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, take_body);
    symbols->curl_easy_setopt(curl, CURLOPT_WRITEDATA, transfer);
    symbols->curl_easy_setopt(curl, CURLOPT_NOPROGRESS, 0L);
    symbols->curl_easy_setopt(curl, CURLOPT_XFERINFOFUNCTION, look_up);
    symbols->curl_easy_setopt(curl, CURLOPT_XFERINFODATA, transfer);
    symbols->curl_easy_setopt(curl, CURLOPT_HTTPHEADER, headers);
    if (request->ca_file)
        symbols->curl_easy_setopt(curl, CURLOPT_CAINFO, request->ca_file);
    bool sends = request->body || strcmp(request->method, "POST") == 0 || strcmp(request->method, "PUT") == 0;
    if (sends) {
        symbols->curl_easy_setopt(curl, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)request->body_bytes);
        symbols->curl_easy_setopt(curl, CURLOPT_POSTFIELDS, request->body ? request->body : "");
    }
    symbols->curl_easy_setopt(curl, CURLOPT_CUSTOMREQUEST, request->method);
}

static enum http_result judge(const struct transfer *transfer, CURLcode code) {
    if (transfer->is_refused)
        return HTTP_REFUSED;
    if (transfer->is_stopped)
        return HTTP_STOPPED;
    switch (code) {
    case CURLE_OK:
        lifeline_beat();
        return HTTP_DONE;
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_CACERT_BADFILE:
    case CURLE_SSL_CERTPROBLEM:
    case CURLE_UNSUPPORTED_PROTOCOL:
    case CURLE_URL_MALFORMAT:
    case CURLE_TOO_MANY_REDIRECTS:
        return HTTP_HOPELESS;
    default:
        return HTTP_BROKEN;
    }
}

enum http_result http_perform(const struct http_request *request, struct http_response *response,
                              char problem[HTTP_PROBLEM_BYTES]) {
    const struct curl_symbols *symbols = curl_symbols();
    struct http_client *client = take_client();
    struct transfer transfer = {.request = request, .response = response, .curl = client->curl};
    struct curl_slist *headers = NULL;
    char message[CURL_ERROR_SIZE] = "";
    long status = 0;
    response->status = 0;
    buffer_clear(&response->headers);
    // Without these, libcurl waits for "100 Continue" and declares every body a form.
    headers = symbols->curl_slist_append(headers, "Expect:");
    headers = symbols->curl_slist_append(headers, "Content-Type:");
    for (size_t i = 0; request->headers && i < request->headers->count; i++)
        headers = symbols->curl_slist_append(headers, request->headers->lines[i]);
    set_options(&transfer, headers, message);
    CURLcode code = symbols->curl_easy_perform(client->curl);
    (void)symbols->curl_easy_getinfo(client->curl, CURLINFO_RESPONSE_CODE, &status);
    response->status = (int)status;
    symbols->curl_slist_free_all(headers);
    enum http_result result = judge(&transfer, code);
    if (code == CURLE_OPERATION_TIMEDOUT && strstr(message, "too slow"))  // libcurl reports it as a speed
        (void)snprintf(problem, HTTP_PROBLEM_BYTES, "no byte came for %ld s", stall_limit(request));
    else
        (void)snprintf(problem, HTTP_PROBLEM_BYTES, "%s", message[0] ? message : symbols->curl_easy_strerror(code));
    // A reset client forgets this request's headers and body and keeps the connection.
    symbols->curl_easy_reset(client->curl);
    give_back(client);
    return result;
}
