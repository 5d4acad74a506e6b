// Exchanges of numbers. Every rank sends its numbers to the hub in a frame; once the hub has all of them, it sends the
// result to all. Nothing here blocks: star_test moves as much as it can. See star.h.
#include "base/error.h"
#include "base/memory.h"
#include "comm/star.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

// The header of a frame. It is compared, so that ranks in different exchanges do not mix up their answers.
struct frame {
    uint32_t result, root, count, zero;
};

// The frame in transfer on one link: first the numbers of the link's rank, then the result. Zeroed if unused.
struct passage {
    unsigned char *bytes;  // a frame and its numbers
    size_t size, moved;
    int first, count;  // of the numbers of the link's rank
};

struct star_exchange {
    struct star *star;
    struct frame frame;
    int64_t *values;
    struct passage *passages;  // one per link
    unsigned char *answer;     // the result in a frame, the same for all links
    bool is_answering;         // the hub sends results, the others wait for theirs
    int left;                  // links that have not finished this half
};

static int link_count(const struct star *star) {
    return star->rank == 0 ? star->size : 1;
}

static size_t frame_size(size_t count) {
    return sizeof(struct frame) + sizeof(int64_t) * count;
}

static void set_passage(struct passage *passage, unsigned char *bytes, int first, int count) {
    *passage = (struct passage){.bytes = bytes, .size = frame_size((size_t)count), .first = first, .count = count};
}

static void put_frame(const struct star_exchange *x, unsigned char *bytes, int first, int count) {
    memcpy(bytes, &x->frame, sizeof x->frame);
    memcpy(bytes + sizeof x->frame, x->values + first, sizeof(int64_t) * (size_t)count);
}

// Only rows need `firsts`.
static struct star_exchange *start(struct star *star, struct frame frame, int64_t *values, const int *firsts) {
    struct star_exchange *x = memory_alloc(sizeof *x);
    *x = (struct star_exchange){.star = star, .frame = frame, .values = values};
    x->passages = memory_alloc(sizeof *x->passages * (size_t)link_count(star));
    for (int i = 0; i < link_count(star); i++) {
        if (star->links[i].socket < 0)
            continue;
        int rank = star->rank == 0 ? i : star->rank, first = 0, count = (int)frame.count;
        if (frame.result == STAR_ROWS) {
            first = firsts[rank];
            count = firsts[rank + 1] - first;
        } else if (frame.result == STAR_FROM && rank != (int)frame.root) {
            count = 0;
        }
        set_passage(&x->passages[i], memory_alloc(frame_size((size_t)count)), first, count);
        if (star->rank != 0)
            put_frame(x, x->passages[i].bytes, first, count);
        x->left++;
    }
    return x;
}

struct star_exchange *star_start(struct star *star, enum star_result result, int root, int64_t *values, int count) {
    return start(star, (struct frame){.result = result, .root = (uint32_t)root, .count = (uint32_t)count}, values,
                 NULL);
}

struct star_exchange *star_start_rows(struct star *star, int64_t *values, const int *firsts) {
    return start(star, (struct frame){.result = STAR_ROWS, .count = (uint32_t)firsts[star->size]}, values, firsts);
}

// Moves as much as possible on one link; returns whether its half is finished.
static bool move_some(struct star_exchange *x, int i, bool is_sending) {
    struct star *star = x->star;
    struct passage *passage = &x->passages[i];
    while (passage->moved < passage->size) {
        unsigned char *at = passage->bytes + passage->moved;
        size_t size = passage->size - passage->moved;
        int fd = star->links[i].socket;
        ssize_t moved = is_sending ? send(fd, at, size, MSG_NOSIGNAL) : recv(fd, at, size, 0);
        if (moved < 0 && (errno == EAGAIN || errno == EINTR))
            return false;
        if (moved <= 0)
            die_code(EXIT_CODE_PEER_LOST, "%s: rank %d is gone%s%s", star->name, star->rank == 0 ? i : 0,
                     moved < 0 ? ": " : "", moved < 0 ? strerror(errno) : "");
        passage->moved += (size_t)moved;
    }
    if (!is_sending && memcmp(passage->bytes, &x->frame, sizeof x->frame) != 0)
        die("%s: rank %d asks for something else than rank %d; were they started with the same flags?", star->name,
            star->rank == 0 ? i : 0, star->rank);
    return true;
}

// Called on the hub when all numbers have arrived: takes each maximum, or puts the numbers in their places.
static void combine(struct star_exchange *x) {
    for (int i = 1; i < x->star->size; i++) {
        const struct passage *passage = &x->passages[i];
        for (int k = 0; k < passage->count; k++) {
            int64_t value, *to = x->values + passage->first + k;
            memcpy(&value, passage->bytes + frame_size((size_t)k), sizeof value);
            *to = x->frame.result == STAR_MAX && value < *to ? *to : value;
        }
    }
}

// The second half begins: directions are reversed.
static void turn(struct star_exchange *x) {
    int count = (int)x->frame.count;
    x->is_answering = true;
    x->answer = memory_alloc(frame_size((size_t)count));
    if (x->star->rank == 0) {
        combine(x);
        put_frame(x, x->answer, 0, count);
    }
    for (int i = 0; i < link_count(x->star); i++) {
        if (!x->passages[i].bytes)
            continue;
        free(x->passages[i].bytes);
        set_passage(&x->passages[i], x->answer, 0, count);
        x->left++;
    }
}

static void finish(struct star_exchange *x) {
    if (x->star->rank != 0)
        memcpy(x->values, x->answer + sizeof x->frame, sizeof(int64_t) * x->frame.count);
    free(x->answer);
    free(x->passages);
    free(x);
}

bool star_test(struct star_exchange *x) {
    for (;;) {
        bool is_sending = (x->star->rank == 0) == x->is_answering;
        for (int i = 0; i < link_count(x->star) && x->left > 0; i++)
            if (x->passages[i].moved < x->passages[i].size && move_some(x, i, is_sending))
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
