// layer: comm
// Strangers that connect to a job over TCP: hostile bytes to rank 0, which expects one more rank, and hostile bytes as
// its answer to a rank that joins. Nobody is let in, and no rank takes them for rank 0, since bytes that were there
// before cannot prove anything about random numbers of now. And messages between connected ranks: any numbers, in
// pieces of any size, arrive as sent. The first byte selects the receiver.
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

static const struct star_options options = {.name = "fuzz", .size = 2, .deadline_seconds = 0.02, .key = {'t'}};

// Answers one visitor with the bytes and exits.
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
    CHECK(star_join(&star, &joining, hub) < 0);
    pthread_join(thread, NULL);
}

static void speak_to_hub(const struct stranger *stranger, const struct sockaddr_storage *hub) {
    struct star star;
    int visitor = socket(AF_INET, SOCK_STREAM, 0);
    CHECK(visitor >= 0 && connect(visitor, (const struct sockaddr *)hub, sizeof(struct sockaddr_in)) == 0);
    (void)!send(visitor, stranger->data, stranger->size, MSG_NOSIGNAL);
    shutdown(visitor, SHUT_WR);
    CHECK(star_gather(&star, &options, stranger->listener) < 0);
    close(visitor);
}

// The numbers of the other rank arrive in pieces, whose lengths are given by the first of the remaining bytes; the
// result on both sides is the maximum of both. A frame begins with the request: maximum, rank 0, count, and a zero.
static void exchange_numbers(const uint8_t *data, size_t size, int rank) {
    enum { MOST_NUMBERS = 64 };
    int64_t theirs[MOST_NUMBERS], values[MOST_NUMBERS] = {0}, expected[MOST_NUMBERS];
    int pair[2], count = (int)(size / 9 < MOST_NUMBERS ? size / 9 : MOST_NUMBERS);
    if (count == 0)
        return;
    const uint8_t *pieces = data + 8 * (size_t)count;
    memcpy(theirs, data, 8 * (size_t)count);
    for (int i = 0; i < count; i++) {
        values[i] = (int64_t)((uint64_t)theirs[i] * 3);
        expected[i] = rank == 0 && values[i] > theirs[i] ? values[i] : theirs[i];
    }
    uint32_t head[4] = {STAR_MAX, 0, (uint32_t)count, 0};
    unsigned char frame[sizeof head + sizeof theirs], answer[sizeof frame];
    size_t bytes = sizeof head + 8 * (size_t)count, sent = 0, got = 0;
    memcpy(frame, head, sizeof head);
    memcpy(frame + sizeof head, theirs, 8 * (size_t)count);
    CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair) == 0);
    struct star_link links[2] = {{.socket = rank == 0 ? -1 : pair[0]}, {.socket = rank == 0 ? pair[0] : -1}};
    struct star star = {.name = (char *)"fuzz", .rank = rank, .size = 2, .links = links};
    struct star_exchange *x = star_start(&star, STAR_MAX, 0, values, count);
    bool is_done = false;
    for (size_t turn = 0; !is_done; turn++) {
        size_t piece = 1 + pieces[turn % (size_t)count];
        piece = piece < bytes - sent ? piece : bytes - sent;
        if (piece > 0)
            CHECK(send(pair[1], frame + sent, piece, MSG_NOSIGNAL) == (ssize_t)piece);
        sent += piece;
        is_done = star_test(x);
        ssize_t more = recv(pair[1], answer + got, sizeof answer - got, 0);
        got += more > 0 ? (size_t)more : 0;
        CHECK(sent == bytes || !is_done);
    }
    CHECK(got == bytes && memcmp(values, expected, 8 * (size_t)count) == 0);
    close(pair[0]);
    close(pair[1]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size == 0)
        return 0;
    log_set_level(LOG_ERROR);
    if (data[0] & 2) {
        exchange_numbers(data + 1, size - 1, data[0] & 1);
        return 0;
    }
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
