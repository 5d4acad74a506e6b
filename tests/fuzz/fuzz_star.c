// layer: comm
// What strangers say to a job that meets over TCP: hostile bytes to rank 0, which expects one rank more, and hostile
// bytes as its answer to a rank that joins. Whoever is let in has said the token, the number of ranks and rank 1. The
// first byte says who is spoken to.
#include "fuzz.h"

#include "base/log.h"
#include "comm/star.h"
#include <arpa/inet.h>
#include <netinet/in.h>
#include <pthread.h>
#include <string.h>
#include <unistd.h>

struct stranger {
    const uint8_t *data;
    size_t size;
    int listener;
};

static const struct star_options options = {.name = "fuzz", .size = 2, .deadline_seconds = 0.02, .token = {'t'}};

// Answers one visitor with the bytes and goes.
static void *answer(void *context) {
    const struct stranger *stranger = context;
    unsigned char hello[64];
    for (int i = 0; i < 50; i++) {
        int visitor = accept(stranger->listener, NULL, NULL);
        if (visitor < 0) {
            usleep(500);
            continue;
        }
        (void)!recv(visitor, hello, sizeof hello, MSG_DONTWAIT);
        (void)!send(visitor, stranger->data, stranger->size, MSG_NOSIGNAL);
        close(visitor);
        break;
    }
    return NULL;
}

static void speak_to_rank(struct stranger *stranger, const struct sockaddr_storage *hub) {
    struct star star;
    struct star_options joining = options;
    pthread_t thread;
    joining.rank = 1;
    CHECK(pthread_create(&thread, NULL, answer, stranger) == 0);
    if (star_join(&star, &joining, hub) == 0)
        star_close(&star);
    pthread_join(thread, NULL);
}

static void speak_to_hub(const struct stranger *stranger, const struct sockaddr_storage *hub) {
    struct star star;
    int visitor = socket(AF_INET, SOCK_STREAM, 0);
    CHECK(visitor >= 0 && connect(visitor, (const struct sockaddr *)hub, sizeof(struct sockaddr_in)) == 0);
    (void)!send(visitor, stranger->data, stranger->size, MSG_NOSIGNAL);
    shutdown(visitor, SHUT_WR);
    if (star_gather(&star, &options, stranger->listener) == 0) {
        static const unsigned char rest[STAR_TOKEN_BYTES] = {'t'};
        CHECK(stranger->size >= 12 + STAR_TOKEN_BYTES && stranger->data[4] == 2 && stranger->data[8] == 1 &&
              memcmp(stranger->data + 12, rest, sizeof rest) == 0);
        star_close(&star);
    }
    close(visitor);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size == 0)
        return 0;
    log_set_level(LOG_ERROR);
    struct sockaddr_storage address = {0};
    ((struct sockaddr_in *)&address)->sin_family = AF_INET;
    ((struct sockaddr_in *)&address)->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    struct stranger stranger = {.data = data + 1, .size = size - 1};
    int port;
    CHECK(star_listen(&address, &stranger.listener, &port) == 0);
    struct sockaddr_storage hub = star_with_port(&address, port);
    if (data[0] % 2)
        speak_to_rank(&stranger, &hub);
    else
        speak_to_hub(&stranger, &hub);
    close(stranger.listener);
    return 0;
}
