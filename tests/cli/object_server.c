// The server of tests/net/object_server.h as a program: prints its port and answers until its input ends.
// usage: object_server ROOT [KEYS_PER_PAGE]
#include "net/object_server.h"

int main(int argc, char **argv) {
    struct object_server server;
    if (argc < 2)
        return 2;
    server_start(&server, argv[1], argc > 2 ? (int)strtol(argv[2], NULL, 10) : 1000);
    printf("%d\n", server.port);
    fflush(stdout);
    while (getchar() != EOF)
        ;
    return 0;
}
