// The web board's answer to a request: a pure function of the request, the site and the store, without a socket, so
// that it can be tested and fuzzed. web_server.c connects it to a network.
//
// A request cannot name files: a path is compared with a list of routes, and a run is named by its id. Only GET and
// HEAD are served. A page of another site that the user's browser has open cannot read anything: without a token the
// Host header must name this machine (a name that an attacker's DNS points here is refused), and no answer allows
// another origin. With a token, every request must carry it, as a cookie, as "Authorization: Bearer" or as ?token=.
#ifndef REPORT_BOARD_WEB_H
#define REPORT_BOARD_WEB_H

#include "base/buffer.h"
#include "base/library.h"
#include "report/board/store.h"

#include <stddef.h>

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

// ---- the server ----

// The web board on a network: sockets, and libmicrohttpd, which is loaded on demand. A few threads serve all clients,
// including thousands that wait for news. A client that takes too long to send its request or to read the answer is
// disconnected, and clients beyond the limit wait until another one has gone.
//
//     web_library_load(); web_listen(&address, …); web_server_start(&server, site, address.socket);
//     every moment: web_server_tend(server);
//     web_server_stop(server);

// The library, for `version`; NULL if the program was built without it.
const struct library *web_library(void);
// -1 after error_set with the missing library and a remedy.
int web_library_load(void);

struct web_address {
    int socket;        // listening socket; the caller closes it if no server was started with it
    int port;          // its port
    bool is_loopback;  // only this machine can reach it
    char text[64];     // the address for a browser: "127.0.0.1", "[::1]"
};
enum { WEB_NEXT_PORTS = 100 };
// Listens on a name or address and a port; port 0 takes any. If the port is in use and `may_move`, the next ones are
// tried.
int web_listen(struct web_address *address, const char *host, int port, bool may_move);

// Limits of clients. 0 means the usual value.
struct web_limits {
    int clients;           // simultaneous; fewer if the process may not have that many files open
    double send_seconds;   // from its connection, or its last answer, until a client has sent a request
    double read_seconds;   // until a client has read its answer
    double wait_seconds;   // for news
    size_t pending_bytes;  // of all unread answers; beyond it a client is told to retry
    struct clock *clock;   // see base/clock.h
};

struct web_server;
// Takes ownership of the socket, also on failure. The site must live until the server is stopped.
int web_server_start(struct web_server **server, const struct web_site *site, int socket,
                     const struct web_limits *limits);
// Answers clients whose news has arrived and disconnects slow ones. To be called several times a second.
void web_server_tend(struct web_server *server);
void web_server_stop(struct web_server *server);  // NULL is fine

// ---- the page ----

// The files of the web page, embedded in the program by the build (cmake/embed_page.cmake), and the page as one file:
// with its style, its script and all data of the store, it needs no server. It loads nothing, and its policy forbids
// browsers to load anything.

struct page_asset {
    const char *name;  // "index.html", "style.css", "board.js"
    const char *type;  // of its content, with the character set
    const char *bytes;
    size_t size;
};

extern const struct page_asset page_assets[];
extern const size_t page_asset_count;

// The asset of this name, which must be one of the three above.
const struct page_asset *page_asset(const char *name);

// Called before the work: -1 if a file of that name would be lost that is not such a page.
int board_export_check(const char *path);
// Writes the file, whole or not at all.
int board_export(struct board_store *store, const char *path);

#endif
