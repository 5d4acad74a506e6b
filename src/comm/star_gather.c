// The hub of a star: lets its ranks in. See star.h.
//
// Anyone can connect to the port. The hub serves all visitors at the same time, and each has a few seconds to identify
// itself, so silent strangers do not hold up ranks. A rank sends its hello as soon as it is connected, and its proof as
// soon as it has the challenge. When the slots
// for visitors or this process's open files are used up, the visitor that has waited longest is dropped; a rank that
// was dropped like this reconnects.
#include "base/clock.h"
#include "base/error.h"
#include "base/interrupt.h"
#include "base/log.h"
#include "base/memory.h"
#include "comm/star.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MOST_VISITORS = 1024, MOST_REJECTIONS_LOGGED = 8 };
static const double VISIT_SECONDS = 5;

struct visitor {
    int socket;
    struct sockaddr_storage address;
    double until;
    bool is_challenged;  // its hello is complete, and it was asked for the proof
    struct hello hello;
    struct challenge challenge;
    unsigned char proof[PROOF_BYTES];
    size_t heard;  // bytes of the hello, then of the proof
};

struct door {
    struct star *star;
    const struct star_options *options;
    int listener;
    int joined;  // ranks, the hub included
    // In the order in which they came. polled[0] is the listener, polled[i + 1] is visitor i.
    struct visitor *visitors;
    struct pollfd *polled;
    int count;
    int rejected;
    char last_reason[256];  // "10.0.0.7 port 4711: another job (its token differs)"
};

// ---- judging ----

static void judge(const struct star *star, const struct star_options *options, const struct visitor *visitor,
                  struct welcome *answer) {
    const struct hello *hello = &visitor->hello;
    unsigned char proof[PROOF_BYTES];
    *answer = (struct welcome){.magic = HELLO_MAGIC, .is_refused = 1};
    star_prove(star->key, STAR_VISITOR, hello, &visitor->challenge, proof);
    if (hello->magic != HELLO_MAGIC)
        snprintf(answer->reason, sizeof answer->reason, "another program or version");
    else if (!star_same_proof(visitor->proof, proof))
        snprintf(answer->reason, sizeof answer->reason, "another job (its token or secret differs)");
    else if (hello->size != (uint32_t)options->size)
        snprintf(answer->reason, sizeof answer->reason, "it counts %u ranks, rank 0 counts %d", hello->size,
                 options->size);
    else if (hello->rank == 0 || hello->rank >= hello->size)
        snprintf(answer->reason, sizeof answer->reason, "there is no rank %u to join", hello->rank);
    else if (star->links[hello->rank].socket >= 0)
        snprintf(answer->reason, sizeof answer->reason, "rank %u has already joined", hello->rank);
    else
        answer->is_refused = 0;
    if (!answer->is_refused)
        star_prove(star->key, STAR_HUB, hello, &visitor->challenge, answer->proof);
}

// Strangers can be many; the log names the first ones.
static void reject(struct door *door, struct visitor *visitor, const char *reason) {
    char text[96];
    star_describe(&visitor->address, text, sizeof text);
    snprintf(door->last_reason, sizeof door->last_reason, "%s: %s", text, reason);
    if (++door->rejected <= MOST_REJECTIONS_LOGGED)
        log_warn("%s: rejected %s", door->options->name, door->last_reason);
    if (door->rejected == MOST_REJECTIONS_LOGGED)
        log_warn("%s: further rejected connections are only counted", door->options->name);
    close(visitor->socket);
    visitor->socket = -1;
}

// One send suffices: the message fits into the nearly empty send buffer.
static bool tell(const struct visitor *visitor, const void *bytes, size_t size) {
    return send(visitor->socket, bytes, size, MSG_NOSIGNAL) == (ssize_t)size;
}

// Asks a visitor whose hello is complete for its proof.
static void ask(struct door *door, struct visitor *visitor) {
    visitor->is_challenged = true;
    visitor->heard = 0;
    visitor->challenge = (struct challenge){.magic = HELLO_MAGIC};
    snprintf(visitor->challenge.note, sizeof visitor->challenge.note, "%s", door->options->secret.note);
    if (!star_make_nonce(visitor->challenge.nonce))
        reject(door, visitor, "this system has no random numbers to ask for its proof with");
    else if (!tell(visitor, &visitor->challenge, sizeof visitor->challenge))
        reject(door, visitor, "it left without waiting for the answer");
}

// Answers a visitor that has sent everything, or that is not a rank.
static void answer(struct door *door, struct visitor *visitor) {
    struct welcome welcome;
    judge(door->star, door->options, visitor, &welcome);
    bool is_told = tell(visitor, &welcome, sizeof welcome);
    if (!is_told || welcome.is_refused) {
        reject(door, visitor, welcome.is_refused ? welcome.reason : "it left without waiting for the answer");
        return;
    }
    door->star->links[visitor->hello.rank] = (struct star_link){.socket = visitor->socket, .address = visitor->address};
    visitor->socket = -1;
    door->joined++;
}

// Reads a visitor's bytes and answers it, or drops it if it has left or used up its time.
static void hear(struct door *door, struct visitor *visitor, double now) {
    while (visitor->socket >= 0) {
        unsigned char *to = visitor->is_challenged ? visitor->proof : (unsigned char *)&visitor->hello;
        size_t size = visitor->is_challenged ? sizeof visitor->proof : sizeof visitor->hello;
        ssize_t count = recv(visitor->socket, to + visitor->heard, size - visitor->heard, 0);
        if (count < 0 && errno == EINTR)
            continue;
        if (count <= 0) {
            bool is_waiting = count < 0 && (errno == EAGAIN || errno == EWOULDBLOCK) && now < visitor->until;
            if (!is_waiting)
                reject(door, visitor, "it did not identify itself");
            return;
        }
        visitor->heard += (size_t)count;
        if (visitor->heard < size)
            continue;
        if (visitor->is_challenged || visitor->hello.magic != HELLO_MAGIC)
            answer(door, visitor);
        else
            ask(door, visitor);
    }
}

// ---- coming and going ----

static void remove_gone(struct door *door) {
    int kept = 0;
    for (int i = 0; i < door->count; i++)
        if (door->visitors[i].socket >= 0)
            door->visitors[kept++] = door->visitors[i];
    door->count = kept;
}

// A rank may have sent something since it was last polled.
static void drop_oldest(struct door *door, double now) {
    hear(door, &door->visitors[0], now);
    if (door->visitors[0].socket >= 0)
        reject(door, &door->visitors[0], "it did not identify itself while others were waiting");
    remove_gone(door);
}

// accept() says that no file is left before it looks whether anybody waits.
static bool somebody_waits(const struct door *door) {
    struct pollfd entry = {.fd = door->listener, .events = POLLIN};
    return poll(&entry, 1, 0) == 1;
}

// Accepts waiting connections; returns -1 if the system has no room even for one.
static int admit(struct door *door, double now) {
    for (int i = 0; i < MOST_VISITORS && door->joined < door->star->size; i++) {
        struct sockaddr_storage from = {0};
        socklen_t length = sizeof from;
        if (door->count == MOST_VISITORS)
            drop_oldest(door, now);
        int fd = accept(door->listener, (struct sockaddr *)&from, &length);
        bool is_full = fd < 0 && (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM);
        if (is_full && !somebody_waits(door))
            return 0;
        if (is_full && door->count == 0)
            return star_no_socket(door->options->name);
        if (is_full) {
            drop_oldest(door, now);
            continue;
        }
        if (fd < 0 && (errno == EINTR || errno == ECONNABORTED))
            continue;
        if (fd < 0)
            return 0;
        star_prepare_socket(fd);
        struct visitor *visitor = &door->visitors[door->count++];
        *visitor = (struct visitor){.socket = fd, .address = from, .until = now + VISIT_SECONDS};
        hear(door, visitor, now);
        if (visitor->socket < 0)
            door->count--;
    }
    return 0;
}

// Waits for the next message or visitor, at most a second and not beyond a visitor's time or the deadline.
static void wait_for_any(struct door *door, double now, double until) {
    double wake = now + 1 < until ? now + 1 : until;
    door->polled[0] = (struct pollfd){.fd = door->listener, .events = POLLIN};
    for (int i = 0; i < door->count; i++) {
        door->polled[i + 1] = (struct pollfd){.fd = door->visitors[i].socket, .events = POLLIN};
        wake = door->visitors[i].until < wake ? door->visitors[i].until : wake;
    }
    (void)poll(door->polled, (nfds_t)door->count + 1, wake > now ? (int)((wake - now) * 1000) + 1 : 0);
}

// How many have not joined, and the first of them as text.
static int list_missing(const struct star *star, char *list, size_t size) {
    size_t used = 0;
    int missing = 0;
    list[0] = 0;
    for (int i = 1; i < star->size; i++)
        if (star->links[i].socket < 0 && ++missing <= 8)
            used += (size_t)snprintf(list + used, size - used, " %d", i);
    if (missing > 8)
        (void)snprintf(list + used, size - used, " …");
    return missing;
}

static int missing_ranks(const struct door *door) {
    char list[128];
    int missing = list_missing(door->star, list, sizeof list);
    bool has_reason = door->rejected > 0;
    return error_set_code(
        EXIT_CODE_PEER_LOST,
        "%s: %d of %d ranks did not join within %.0f s:%s; check that they start and can reach "
        "MASTER_ADDR and MASTER_PORT, and raise --distributed-timeout-minutes if they start slowly%s%s",
        door->options->name, missing, door->star->size, door->options->deadline_seconds, list,
        has_reason ? "; last rejected: " : "", has_reason ? door->last_reason : "");
}

static void note_missing(const struct door *door, struct wait_note *note) {
    char list[128];
    if (!star_is_note_due(note, clock_seconds()))
        return;
    int missing = list_missing(door->star, list, sizeof list);
    log_info("%s: waiting for %d of %d ranks:%s; giving up after %.0f s", door->options->name, missing,
             door->star->size, list, door->options->deadline_seconds);
}

static int receive_all(struct door *door) {
    double until = clock_seconds() + door->options->deadline_seconds;
    struct wait_note note = star_begin_wait(door->options, 5);
    while (door->joined < door->star->size) {
        double now = clock_seconds();
        note_missing(door, &note);
        if (now >= until)
            return missing_ranks(door);
        TRY(interrupt_check());
        wait_for_any(door, now, until);
        now = clock_seconds();
        for (int i = 0; i < door->count; i++)
            if (door->polled[i + 1].revents || now >= door->visitors[i].until)
                hear(door, &door->visitors[i], now);
        remove_gone(door);
        TRY(admit(door, now));
    }
    return 0;
}

int star_gather(struct star *star, const struct star_options *options, int listener) {
    star_open(star, options);
    struct door door = {.star = star, .options = options, .listener = listener, .joined = 1};
    door.visitors = memory_alloc(sizeof *door.visitors * MOST_VISITORS);
    door.polled = memory_alloc(sizeof *door.polled * (MOST_VISITORS + 1));
    int status = receive_all(&door);
    for (int i = 0; i < door.count; i++)
        close(door.visitors[i].socket);
    if (door.rejected > MOST_REJECTIONS_LOGGED)
        log_warn("%s: rejected %d connections in all; the last was %s", options->name, door.rejected, door.last_reason);
    free(door.visitors);
    free(door.polled);
    if (status < 0)
        star_close(star);
    return status;
}
