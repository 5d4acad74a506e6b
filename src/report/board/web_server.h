// The web board on a network: sockets, and libmicrohttpd, which is loaded on demand. A few threads serve all clients,
// including thousands that wait for news. A client that takes too long to send its request or to read the answer is
// disconnected, and clients beyond the limit wait until another one has gone.
//
//     web_library_load(); web_listen(&address, …); web_server_start(&server, site, address.socket);
//     every moment: web_server_tend(server);
//     web_server_stop(server);
#ifndef REPORT_BOARD_WEB_SERVER_H
#define REPORT_BOARD_WEB_SERVER_H

#include "base/library.h"
#include "report/board/web.h"

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

#endif
