// Numbers in, result out. Every rank sends a frame to the hub; once the hub has all of them, it sends the result to
// all. Nothing here blocks: star_test moves what can be moved. See star.h.
#include "base/error.h"
#include "base/memory.h"
#include "comm/star.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

// The beginning of a frame. Ranks that ask for different things would mix up their answers, so it is compared.
struct frame {
    uint32_t result, root, count, zero;
};

struct star_exchange {
    struct star *star;
    struct frame frame;
    int64_t *values;
    size_t bytes;             // of a frame with its numbers
    unsigned char **buffers;  // one per link that is used
    size_t *moved;            // bytes moved so far on each link
    bool is_answering;        // the hub sends results, the others wait for theirs
    int left;                 // links that have not finished this half
};

static int link_count(const struct star *star) {
    return star->rank == 0 ? star->size : 1;
}

struct star_exchange *star_start(struct star *star, enum star_result result, int root, int64_t *values, int count) {
    struct star_exchange *x = memory_alloc(sizeof *x);
    *x = (struct star_exchange){.star = star,
                                .frame = {.result = result, .root = (uint32_t)root, .count = (uint32_t)count},
                                .values = values,
                                .bytes = sizeof(struct frame) + sizeof(int64_t) * (size_t)count};
    size_t links = (size_t)link_count(star);
    x->buffers = memory_alloc(sizeof *x->buffers * links);
    x->moved = memory_alloc(sizeof *x->moved * links);
    for (size_t i = 0; i < links; i++) {
        if (star->links[i].socket < 0)
            continue;
        x->buffers[i] = memory_alloc(x->bytes);
        memcpy(x->buffers[i], &x->frame, sizeof x->frame);
        memcpy(x->buffers[i] + sizeof x->frame, values, x->bytes - sizeof x->frame);
        x->left++;
    }
    return x;
}

// Moves what can be moved on one link; returns whether its half is finished.
static bool move_some(struct star_exchange *x, int i, bool is_sending) {
    struct star *star = x->star;
    while (x->moved[i] < x->bytes) {
        unsigned char *at = x->buffers[i] + x->moved[i];
        size_t size = x->bytes - x->moved[i];
        int fd = star->links[i].socket;
        ssize_t moved = is_sending ? send(fd, at, size, MSG_NOSIGNAL) : recv(fd, at, size, 0);
        if (moved < 0 && (errno == EAGAIN || errno == EINTR))
            return false;
        if (moved <= 0)
            die_code(EXIT_CODE_PEER_LOST, "%s: rank %d is gone%s%s", star->name, star->rank == 0 ? i : 0,
                     moved < 0 ? ": " : "", moved < 0 ? strerror(errno) : "");
        x->moved[i] += (size_t)moved;
    }
    if (!is_sending && memcmp(x->buffers[i], &x->frame, sizeof x->frame) != 0)
        die("%s: rank %d asks for something else than rank %d; were they started with the same flags?", star->name,
            star->rank == 0 ? i : 0, star->rank);
    return true;
}

// The hub has every rank's numbers: computes the result and frames it for sending.
static void combine(struct star_exchange *x) {
    struct star *star = x->star;
    int count = (int)x->frame.count;
    for (int i = 1; i < star->size; i++) {
        const unsigned char *numbers = x->buffers[i] + sizeof x->frame;
        for (int k = 0; k < count; k++) {
            int64_t value;
            memcpy(&value, numbers + sizeof value * (size_t)k, sizeof value);
            bool is_taken = x->frame.result == STAR_FROM ? x->frame.root == (uint32_t)i : value > x->values[k];
            x->values[k] = is_taken ? value : x->values[k];
        }
    }
    for (int i = 1; i < star->size; i++)
        memcpy(x->buffers[i] + sizeof x->frame, x->values, x->bytes - sizeof x->frame);
}

// The second half begins: directions are reversed.
static void turn(struct star_exchange *x) {
    x->is_answering = true;
    if (x->star->rank == 0)
        combine(x);
    for (int i = 0; i < link_count(x->star); i++) {
        x->moved[i] = 0;
        x->left += x->buffers[i] != NULL;
    }
}

static void finish(struct star_exchange *x) {
    if (x->star->rank != 0)
        memcpy(x->values, x->buffers[0] + sizeof x->frame, x->bytes - sizeof x->frame);
    for (int i = 0; i < link_count(x->star); i++)
        free(x->buffers[i]);
    free(x->buffers);
    free(x->moved);
    free(x);
}

bool star_test(struct star_exchange *x) {
    for (;;) {
        bool is_sending = (x->star->rank == 0) == x->is_answering;
        for (int i = 0; i < link_count(x->star) && x->left > 0; i++)
            if (x->buffers[i] && x->moved[i] < x->bytes && move_some(x, i, is_sending))
                x->left--;
        if (x->left > 0)
            return false;
        if (x->is_answering) {
            finish(x);
            return true;
        }
        turn(x);
    }
}
