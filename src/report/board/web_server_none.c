// Replaces web_server.c in a build without libmicrohttpd.
#include "base/error.h"
#include "report/board/web.h"

#include <unistd.h>

const struct library *web_library(void) {
    return NULL;
}

int web_library_load(void) {
    return error_set("this build has no web server; use board --text or board --export FILE, or install "
                     "libmicrohttpd-dev and build again with -DBEVATRON_MICROHTTPD=ON");
}

int web_server_start(struct web_server **server, const struct web_site *site, int socket,
                     const struct web_limits *limits) {
    (void)site;
    (void)limits;
    *server = NULL;
    close(socket);
    return web_library_load();
}

void web_server_tend(struct web_server *server) {
    (void)server;
}

void web_server_stop(struct web_server *server) {
    (void)server;
}
