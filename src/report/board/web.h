// The web board's answer to a request: a pure function of the request, the site and the store, without a socket, so
// that it can be tested and fuzzed. web_server.h connects it to a network.
//
// A request cannot name files: a path is compared with a list of routes, and a run is named by its id. Only GET and
// HEAD are served. A page of another site that the user's browser has open cannot read anything: without a token the
// Host header must name this machine (a name that an attacker's DNS points here is refused), and no answer allows
// another origin. With a token, every request must carry it, as a cookie, as "Authorization: Bearer" or as ?token=.
#ifndef REPORT_BOARD_WEB_H
#define REPORT_BOARD_WEB_H

#include "base/buffer.h"
#include "report/board/store.h"

struct web_site {
    struct board_store *store;
    const char *host;       // --host as given: allowed in a Host header
    const char *token;      // NULL for none
    char cookie_name[40];   // separate for each port: browsers share cookies between ports
    char cookie_value[65];  // a hash of the token
};

// Fills the cookie's fields from the token and the port.
void web_site_set_cookie(struct web_site *site, int port);

// NULL means a header that was not sent.
struct web_request {
    const char *method, *target;  // as sent: "GET", "/api/runs?after=3"
    const char *host, *authorization, *cookie, *if_none_match;
    bool has_body;
    bool has_waited;  // it has waited for a new revision, and must not wait again
};

enum { WEB_MUST_WAIT = 0, WEB_WAIT_SECONDS = 20 };

struct web_response {
    int status;        // WEB_MUST_WAIT: call again once the revision is above `after`, or after WEB_WAIT_SECONDS
    int64_t after;     // only with WEB_MUST_WAIT
    const char *type;  // of the body
    const char *body;  // lives as long as the process; NULL: `made` is the body
    size_t body_length;
    struct buffer made;
    char etag[24];         // "" for none
    const char *location;  // NULL for none
    char cookie[160];      // "" for none
};
void web_response_free(struct web_response *response);
const char *web_response_body(const struct web_response *response, size_t *length);

// Headers of every answer.
struct web_header {
    const char *name, *value;
};
enum { WEB_HEADER_COUNT = 7 };
extern const struct web_header web_headers[WEB_HEADER_COUNT];

void web_answer(const struct web_site *site, const struct web_request *request, struct web_response *response);

// ---- The parts of it ----

enum { WEB_MOST_PAIRS = 1024 };

// A target, split and decoded: "/api/log?id=ab&lines=9".
struct web_target {
    char *path;  // as sent, up to the question mark
    struct web_pair {
        char *key, *value;
    } * pairs;
    size_t count;
};
// -1 after error_set with the fault.
int web_target_read(struct web_target *target, const char *text);
void web_target_free(struct web_target *target);
// The value of the first pair with this key; NULL if there is none.
const char *web_target_value(const struct web_target *target, const char *key);
// A whole number within `range`; *value is unchanged if it is not given. -1 after error_set.
int web_target_int(const struct web_target *target, const char *key, const int64_t range[2], int64_t *value);
int web_target_double(const struct web_target *target, const char *key, bool *is_given, double *value);

bool web_token_is_given(const struct web_site *site, const struct web_request *request);
bool web_token_is_right(const struct web_site *site, const char *token);

#endif
