// Names that a Host header may have. See host_header.h.
#include "report/host_header.h"

#include <arpa/inet.h>
#include <string.h>
#include <strings.h>

bool host_is_loopback(const char *address) {
    struct in_addr four;
    struct in6_addr six;
    if (inet_pton(AF_INET, address, &four) == 1)
        return (ntohl(four.s_addr) >> 24) == 127;
    if (inet_pton(AF_INET6, address, &six) == 1)
        return IN6_IS_ADDR_LOOPBACK(&six);
    return strcasecmp(address, "localhost") == 0 || strcasecmp(address, "localhost.") == 0;
}

// "[::1]:6006" and "localhost:6006" without the port; false if other text follows the name.
static bool strip_port(const char *header, char *name, size_t size) {
    bool is_bracketed = header[0] == '[';
    const char *begin = header + is_bracketed;
    size_t length = strcspn(begin, is_bracketed ? "]" : ":");
    const char *rest = begin + length;
    if (is_bracketed && *rest++ != ']')
        return false;
    if (*rest && (*rest != ':' || strspn(rest + 1, "0123456789") != strlen(rest + 1)))
        return false;
    if (length == 0 || length >= size)
        return false;
    memcpy(name, begin, length);
    name[length] = '\0';
    return true;
}

bool host_header_is_ours(const char *own, const char *header) {
    char name[256];
    if (!header || !strip_port(header, name, sizeof name))
        return false;
    return host_is_loopback(name) || (own && strcasecmp(name, own) == 0);
}
