// Replaces http.c in a build without libcurl's header.
#include "net/http.h"
#include "base/error.h"
#include <stdio.h>

static const char missing[] = "this build has no libcurl";

enum http_result http_perform(const struct http_request *request, struct http_response *response,
                              char problem[HTTP_PROBLEM_BYTES]) {
    (void)request, (void)response;
    (void)snprintf(problem, HTTP_PROBLEM_BYTES, "%s", missing);
    return HTTP_HOPELESS;
}

const struct library *http_library(void) {
    return NULL;
}

int http_load(void) {
    return error_set("%s, which s3:// and https:// need; install its header (Debian: apt-get "
                     "install libcurl4-openssl-dev) and build again, or copy the data to a disk",
                     missing);
}

void http_close_idle(void) {}
