// The listening socket of the web board. See web.h.
#include "base/error.h"
#include "report/board/web.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

// Length of the kernel's queue of clients to be accepted.
enum { BACKLOG = 4096 };

static void set_port(struct sockaddr_storage *storage, int port) {
    if (storage->ss_family == AF_INET6)
        ((struct sockaddr_in6 *)storage)->sin6_port = htons((uint16_t)port);
    else
        ((struct sockaddr_in *)storage)->sin_port = htons((uint16_t)port);
}

static int resolve(const char *host, struct sockaddr_storage *storage, socklen_t *length) {
    struct addrinfo *found = NULL, hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
    int code = getaddrinfo(host, NULL, &hints, &found);
    if (code != 0)
        return error_set("--host %s: %s; give a name or an address of this machine", host, gai_strerror(code));
    // "localhost" may be both; browsers and ssh always try IPv4, too.
    const struct addrinfo *best = found;
    while (best && best->ai_family != AF_INET)
        best = best->ai_next;
    best = best ? best : found;
    memcpy(storage, best->ai_addr, best->ai_addrlen);
    *length = best->ai_addrlen;
    freeaddrinfo(found);
    return 0;
}

// A socket that listens at this address; -1 with errno.
static int listen_at(const struct sockaddr_storage *storage, socklen_t length) {
    const int yes = 1;
    int descriptor = socket(storage->ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (descriptor < 0)
        return -1;
    (void)setsockopt(descriptor, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    if (bind(descriptor, (const struct sockaddr *)storage, length) == 0 && listen(descriptor, BACKLOG) == 0)
        return descriptor;
    int error = errno;
    close(descriptor);
    errno = error;
    return -1;
}

static bool is_loopback(const struct sockaddr_storage *storage) {
    if (storage->ss_family == AF_INET6)
        return IN6_IS_ADDR_LOOPBACK(&((const struct sockaddr_in6 *)storage)->sin6_addr);
    return (ntohl(((const struct sockaddr_in *)storage)->sin_addr.s_addr) >> 24) == 127;
}

static void describe(struct web_address *address, const struct sockaddr_storage *storage) {
    char text[INET6_ADDRSTRLEN] = "";
    if (storage->ss_family == AF_INET6) {
        const struct sockaddr_in6 *six = (const struct sockaddr_in6 *)storage;
        (void)inet_ntop(AF_INET6, &six->sin6_addr, text, sizeof text);
        snprintf(address->text, sizeof address->text, "[%s]", text);
        address->port = ntohs(six->sin6_port);
    } else {
        const struct sockaddr_in *four = (const struct sockaddr_in *)storage;
        (void)inet_ntop(AF_INET, &four->sin_addr, text, sizeof text);
        snprintf(address->text, sizeof address->text, "%s", text);
        address->port = ntohs(four->sin_port);
    }
    address->is_loopback = is_loopback(storage);
}

static int explain(const char *host, int port, int error, bool has_moved) {
    if (error == EADDRINUSE && has_moved)
        return error_set("ports %d to %d of %s are all in use; give another one with --port", port - WEB_NEXT_PORTS,
                         port, host);
    if (error == EADDRINUSE)
        return error_set(
            "port %d of %s is in use, perhaps by another board; give another one with --port, or 0 for any", port,
            host);
    if (error == EACCES)
        return error_set("port %d of %s is reserved for root; give one above 1023 with --port", port, host);
    if (error == EADDRNOTAVAIL)
        return error_set("%s is not an address of this machine; correct --host", host);
    return error_set("cannot listen at port %d of %s: %s", port, host, strerror(error));
}

int web_listen(struct web_address *address, const char *host, int port, bool may_move) {
    struct sockaddr_storage storage = {0};
    socklen_t length = 0;
    *address = (struct web_address){.socket = -1};
    TRY(resolve(host, &storage, &length));
    int last = may_move ? port + WEB_NEXT_PORTS : port, at = port;
    for (; at <= last && address->socket < 0; at++) {
        set_port(&storage, at);
        address->socket = listen_at(&storage, length);
        if (address->socket < 0 && (errno != EADDRINUSE || at == last))
            return explain(host, at, errno, may_move);
    }
    length = sizeof storage;
    (void)getsockname(address->socket, (struct sockaddr *)&storage, &length);
    describe(address, &storage);
    return 0;
}
