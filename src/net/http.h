// One HTTP request and its answer, over libcurl, which is loaded on first use: http.c, or its stand-in http_none.c if
// libcurl's header was missing at build time. Connections stay open between requests, in a pool of the process, so that
// many small requests share few connections.
#ifndef NET_HTTP_H
#define NET_HTTP_H

#include "base/buffer.h"
#include "base/library.h"
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

struct http_headers {
    char **lines;  // "Name: value", owned
    size_t count;
};
void http_headers_add(struct http_headers *headers, const char *format, ...) __attribute__((format(printf, 2, 3)));
void http_headers_free(struct http_headers *headers);

struct http_response {
    int status;             // 0 if none came
    struct buffer headers;  // of the last answer, verbatim
};
// Copies a header's value, without spaces around it; false if it is missing or does not fit.
bool http_header(const struct http_response *response, const char *name, char *value, size_t size);
void http_response_free(struct http_response *response);

struct http_request {
    const char *method, *url;
    const struct http_headers *headers;  // NULL for none
    const void *body;                    // NULL for none
    size_t body_bytes;
    bool follows;  // redirects
    // Receives the body of the answer, whatever its status; the response already has status and headers. -1 ends the
    // transfer.
    int (*sink)(void *context, const void *bytes, size_t count);
    void *context;
    double connect_seconds;   // 0: 10
    double stall_seconds;     // without a byte; 0: 60
    const char *ca_file;      // certificates to trust; NULL for the system's
    const atomic_bool *stop;  // set by another thread to end the transfer; may be NULL
};

enum http_result {
    HTTP_DONE,      // a whole answer came, whatever its status
    HTTP_BROKEN,    // no answer, or a part of one: worth another attempt
    HTTP_HOPELESS,  // another attempt would fail too: certificates
    HTTP_REFUSED,   // by the sink
    HTTP_STOPPED,   // by `stop` or a signal
};
enum { HTTP_PROBLEM_BYTES = 256 };
// `problem` describes the failure of a broken or hopeless transfer.
enum http_result http_perform(const struct http_request *request, struct http_response *response,
                              char problem[HTTP_PROBLEM_BYTES]);

// Loads libcurl; before the first request. -1, with the remedy, if this machine or this build has none.
int http_load(void);
// The loaded version, for commands that list a machine's libraries; NULL in a build without it.
const struct library *http_library(void);
// Closes the connections that are kept open; for the end of a test.
void http_close_idle(void);

#endif
