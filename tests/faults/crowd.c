// crowd PORT COUNT: a hostile crowd. Makes this many connections to a port of this machine, and holds all that are not
// closed by the other side and that it may have open. They say nothing, half a request, a request that is too long,
// nonsense, or a greeting of TLS, or are reset. Prints how many were made, and ends when its input does.
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

enum { KINDS = 6, LONG_BYTES = 1 << 17, FILES_BESIDES = 64 };

static void reset(int connected) {
    struct linger at_once = {.l_onoff = 1, .l_linger = 0};
    setsockopt(connected, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
    close(connected);
}

static void speak(int connected, int kind) {
    static char text[LONG_BYTES];
    static const char half[] = "GET /metrics HT", hello[] = "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03";
    memset(text, 'x', sizeof text);
    if (kind == 2)
        memcpy(text, "GET /", 5);
    const struct {
        const char *bytes;
        size_t length;
    } words[KINDS] = {{NULL, 0},   {half, sizeof half - 1},   {text, sizeof text},
                      {text, 300}, {hello, sizeof hello - 1}, {half, 3}};
    if (words[kind].bytes)
        (void)!send(connected, words[kind].bytes, words[kind].length, MSG_NOSIGNAL | MSG_DONTWAIT);
}

static int visit(int port) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    struct timeval patience = {.tv_sec = 10};
    inet_pton(AF_INET, "127.0.0.1", &address.sin_addr);
    int connected = socket(AF_INET, SOCK_STREAM, 0);
    if (connected < 0)
        return -1;
    setsockopt(connected, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
    if (connect(connected, (struct sockaddr *)&address, sizeof address) == 0)
        return connected;
    close(connected);
    return -1;
}

int main(int argc, char **argv) {
    int port = argc == 3 ? (int)strtol(argv[1], NULL, 10) : 0, count = argc == 3 ? (int)strtol(argv[2], NULL, 10) : 0;
    if (port <= 0 || count <= 0) {
        fprintf(stderr, "usage: crowd PORT COUNT\n");
        return 2;
    }
    struct rlimit files;
    if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
        files.rlim_cur = files.rlim_max;
        (void)setrlimit(RLIMIT_NOFILE, &files);
    }
    int room = files.rlim_cur < (rlim_t)count + FILES_BESIDES ? (int)files.rlim_cur - FILES_BESIDES : count, made = 0;
    int *held = calloc((size_t)room, sizeof *held);
    if (!held)
        return 1;
    for (int i = 0; i < count; i++) {
        int connected = visit(port), *place = &held[i % room];
        if (*place > 0)
            close(*place);
        *place = 0;
        if (connected < 0)
            continue;
        made++;
        speak(connected, i % KINDS);
        if (i % KINDS == KINDS - 1)
            reset(connected);
        else
            *place = connected;
    }
    printf("%d\n", made);
    fflush(stdout);
    while (getchar() != EOF)
        ;
    return 0;
}
