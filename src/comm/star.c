// Listening, and joining a hub. See star.h; star_gather.c is the hub.
#include "comm/star.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/interrupt.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/secret.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <unistd.h>

enum { BACKLOG = 4096 };

int star_no_socket(const char *name) {
    int why = errno;
    struct rlimit limit = {0};
    if (why == EMFILE && getrlimit(RLIMIT_NOFILE, &limit) == 0)
        return error_set("%s: this process may have %llu files open, but the ranks take more; raise the limit of open "
                         "files where the job is started (ulimit -Hn; LimitNOFILE= of a service)",
                         name, (unsigned long long)limit.rlim_cur);
    return error_set("%s: no socket to be had: %s", name, strerror(why));
}

void star_describe(const struct sockaddr_storage *address, char *text, size_t size) {
    char host[64] = "?", port[16] = "?";
    socklen_t length = address->ss_family == AF_INET6 ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in);
    getnameinfo((const struct sockaddr *)address, length, host, sizeof host, port, sizeof port,
                NI_NUMERICHOST | NI_NUMERICSERV);
    snprintf(text, size, "%s port %s", host, port);
}

static socklen_t length_of(const struct sockaddr_storage *address) {
    return address->ss_family == AF_INET6 ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in);
}

static void set_port(struct sockaddr_storage *address, int port) {
    if (address->ss_family == AF_INET6)
        ((struct sockaddr_in6 *)address)->sin6_port = htons((uint16_t)port);
    else
        ((struct sockaddr_in *)address)->sin_port = htons((uint16_t)port);
}

struct sockaddr_storage star_with_port(const struct sockaddr_storage *address, int port) {
    struct sockaddr_storage result = *address;
    set_port(&result, port);
    return result;
}

// This machine's address on the way there: a connected datagram socket knows it, and sends nothing.
static int own_address(struct sockaddr_storage *address, int port) {
    int probe = socket(address->ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    socklen_t length = sizeof *address;
    int status = probe < 0 ? -1 : connect(probe, (const struct sockaddr *)address, length_of(address));
    if (status == 0)
        status = getsockname(probe, (struct sockaddr *)address, &length);
    if (probe >= 0)
        close(probe);
    set_port(address, port);
    return status == 0 ? 0 : error_set("no way from this machine to the job's address: %s", strerror(errno));
}

int star_resolve(const char *host, int port, bool is_own, struct sockaddr_storage *address) {
    char service[16];
    snprintf(service, sizeof service, "%d", port);
    struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM}, *found = NULL;
    int status = getaddrinfo(host, service, &hints, &found);
    if (status != 0)
        return error_set(
            "cannot find the host \"%s\" of MASTER_ADDR: %s; give a name that all machines of the job know", host,
            gai_strerror(status));
    memset(address, 0, sizeof *address);
    memcpy(address, found->ai_addr, found->ai_addrlen);
    freeaddrinfo(found);
    return is_own ? own_address(address, port) : 0;
}

int star_listen(const struct sockaddr_storage *address, int *listener, int *port) {
    char text[96];
    star_describe(address, text, sizeof text);
    int one = 1, fd = socket(address->ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return star_no_socket("listening for ranks");
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    struct sockaddr_storage bound = {0};
    socklen_t length = sizeof bound;
    if (bind(fd, (const struct sockaddr *)address, length_of(address)) < 0 || listen(fd, BACKLOG) < 0 ||
        getsockname(fd, (struct sockaddr *)&bound, &length) < 0) {
        int why = errno;
        close(fd);
        return error_set("cannot listen on %s: %s; choose another MASTER_PORT if another job has it", text,
                         strerror(why));
    }
    *listener = fd;
    *port = ntohs(bound.ss_family == AF_INET6 ? ((struct sockaddr_in6 *)&bound)->sin6_port
                                              : ((struct sockaddr_in *)&bound)->sin_port);
    return 0;
}

// Moves a whole message over a non-blocking socket; -1 if the peer is gone or the deadline passes.
static int move_all(int fd, void *bytes, size_t size, bool is_sending, double until) {
    for (size_t done = 0; done < size;) {
        ssize_t moved = is_sending ? send(fd, (char *)bytes + done, size - done, MSG_NOSIGNAL)
                                   : recv(fd, (char *)bytes + done, size - done, 0);
        if (moved > 0) {
            done += (size_t)moved;
            continue;
        }
        if (moved == 0 || (errno != EAGAIN && errno != EINTR))
            return -1;
        double left = until - clock_seconds();
        struct pollfd wait = {.fd = fd, .events = is_sending ? POLLOUT : POLLIN};
        if (left <= 0 || (poll(&wait, 1, left < 1 ? (int)(left * 1000) + 1 : 1000) < 0 && errno != EINTR))
            return -1;
    }
    return 0;
}

void star_prepare_socket(int fd) {
    int one = 1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &one, sizeof one);
    fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
    fcntl(fd, F_SETFD, FD_CLOEXEC);
}

void star_open(struct star *star, const struct star_options *options) {
    CHECK(options->size > 0 && options->size <= STAR_MAX_SIZE && options->rank >= 0 && options->rank < options->size);
    *star = (struct star){.name = memory_string(options->name), .rank = options->rank, .size = options->size};
    memcpy(star->key, options->key, sizeof star->key);
    star->links = memory_alloc(sizeof *star->links * (size_t)star->size);
    for (int i = 0; i < star->size; i++)
        star->links[i].socket = -1;
}

void star_close(struct star *star) {
    for (int i = 0; star->links && i < star->size; i++)
        if (star->links[i].socket >= 0)
            close(star->links[i].socket);
    free(star->links);
    free(star->name);
    *star = (struct star){0};
}

struct wait_note star_begin_wait(const struct star_options *options, double first) {
    double quarter = options->deadline_seconds / 4;
    return (struct wait_note){.began = clock_seconds(), .next = first < quarter ? first : quarter};
}

bool star_is_note_due(struct wait_note *note, double now) {
    double waited = now - note->began;
    if (waited < note->next)
        return false;
    note->next = 2 * waited;
    return true;
}

// A file that another machine has just created may take a moment to become visible.
enum { MOST_UNREAD = 12 };

struct joining {
    struct star *star;
    const struct star_options *options;
    const struct sockaddr_storage *hub;
    double until;
    int unread;  // how often the hub's file could not be read
};

// Sends one message and receives the answer; 1 if the hub is gone.
static int talk(const struct joining *joining, int fd, void *said, size_t said_bytes, void *heard, size_t heard_bytes) {
    return move_all(fd, said, said_bytes, true, joining->until) < 0 ||
           move_all(fd, heard, heard_bytes, false, joining->until) < 0;
}

// 0 let in, 1 no answer, -1 refused.
static int introduce(struct joining *joining, int fd) {
    const struct star_options *options = joining->options;
    struct hello hello = {.magic = HELLO_MAGIC, .size = (uint32_t)options->size, .rank = (uint32_t)options->rank};
    struct challenge challenge = {0};
    struct welcome answer = {0};
    unsigned char proof[PROOF_BYTES], *key = joining->star->key;
    if (!star_make_nonce(hello.nonce))
        return error_set("cannot get random numbers from the system: %s", strerror(errno));
    if (talk(joining, fd, &hello, sizeof hello, &challenge, sizeof challenge) != 0)
        return 1;
    if (challenge.magic != HELLO_MAGIC)
        return error_set("%s: what answers rank %d in rank 0's place is another program or version", options->name,
                         options->rank);
    challenge.note[sizeof challenge.note - 1] = 0;
    memcpy(key, options->key, STAR_KEY_BYTES);
    int taken = star_secret_take(&options->secret, challenge.note, key);
    if (taken != 0)
        return taken > 0 && ++joining->unread < MOST_UNREAD ? 1 : error_context("%s", options->name);
    star_prove(key, STAR_VISITOR, &hello, &challenge, proof);
    if (talk(joining, fd, proof, sizeof proof, &answer, sizeof answer) != 0)
        return 1;
    answer.reason[sizeof answer.reason - 1] = 0;
    if (answer.is_refused)
        return error_set("%s: rank 0 rejected rank %d: %s; start all ranks with the same command and job",
                         options->name, options->rank, answer.reason);
    star_prove(key, STAR_HUB, &hello, &challenge, proof);
    if (!star_same_proof(proof, answer.proof))
        return error_set("%s: what answers rank %d in rank 0's place does not know the job's secret; another program "
                         "has the port, so choose another MASTER_PORT",
                         options->name, options->rank);
    return 0;
}

// One attempt: 0 joined, 1 no answer yet, -1 refused.
static int try_join(struct joining *joining) {
    int fd = socket(joining->hub->ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return star_no_socket(joining->options->name);
    // A machine that drops unknown packets would make connect() hang for minutes.
    struct timeval patience = {.tv_sec = 5};
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
    int status = connect(fd, (const struct sockaddr *)joining->hub, length_of(joining->hub)) < 0;
    if (status == 0) {
        star_prepare_socket(fd);
        status = introduce(joining, fd);
    }
    if (status == 0)
        joining->star->links[0] = (struct star_link){.socket = fd, .address = *joining->hub};
    else
        close(fd);
    return status;
}

int star_join(struct star *star, const struct star_options *options, const struct sockaddr_storage *hub) {
    star_open(star, options);
    double until = clock_seconds() + options->deadline_seconds;
    struct wait_note note = star_begin_wait(options, 20);
    struct joining joining = {.star = star, .options = options, .hub = hub, .until = until};
    char text[96];
    star_describe(hub, text, sizeof text);
    int status = 1;
    for (double pause = 0.01; (status = try_join(&joining)) == 1; pause = pause < 1 ? 2 * pause : 1) {
        if ((status = interrupt_check()) < 0)
            break;
        double now = clock_seconds();
        if (star_is_note_due(&note, now))
            log_warn("%s: no answer from %s yet, so rank 0 is not running or cannot be reached; giving up after %.0f s",
                     options->name, text, options->deadline_seconds);
        if (now + pause > until) {
            error_set_code(
                EXIT_CODE_PEER_LOST,
                "%s: no answer from %s for %.0f s; check that rank 0 is running and that this host can reach it",
                options->name, text, options->deadline_seconds);
            status = -1;
            break;
        }
        clock_sleep(pause);
    }
    if (status < 0)
        star_close(star);
    return status;
}

// ---- proofs by both ends that they know the job's key, and the file that may hold a part of it ----

static const char stem[] = ".bevatron-ranks";

void star_prove(const unsigned char *key, enum star_side side, const struct hello *hello,
                const struct challenge *challenge, unsigned char proof[PROOF_BYTES]) {
    unsigned char text[1 + sizeof *hello + sizeof *challenge];
    text[0] = (unsigned char)side;
    memcpy(text + 1, hello, sizeof *hello);
    memcpy(text + 1 + sizeof *hello, challenge, sizeof *challenge);
    hmac_sha256(key, STAR_KEY_BYTES, text, sizeof text, proof);
}

bool star_same_proof(const unsigned char *a, const unsigned char *b) {
    unsigned char difference = 0;
    for (int i = 0; i < PROOF_BYTES; i++)
        difference |= (unsigned char)(a[i] ^ b[i]);
    return difference == 0;
}

bool star_make_nonce(unsigned char nonce[NONCE_BYTES]) {
    return getrandom(nonce, NONCE_BYTES, 0) == NONCE_BYTES;
}

static void mix(unsigned char key[STAR_KEY_BYTES], const char *secret) {
    hmac_sha256(key, STAR_KEY_BYTES, secret, strlen(secret), key);
}

int star_secret_leave(struct star_options *options) {
    struct star_secret *secret = &options->secret;
    char text[SECRET_CHARACTERS + 1];
    secret->note[0] = 0;
    if (!secret->folder)
        return 0;
    TRY(secret_make(text));
    TRY(file_make_folders(secret->folder));
    char *path = file_join(secret->folder, stem);
    file_sweep(path);  // of hubs that were killed
    char *full = file_temporary_name(path);
    int file = open(full, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600), result = 0;
    if (file < 0 || write(file, text, SECRET_CHARACTERS) != SECRET_CHARACTERS || fsync(file) < 0)
        result = error_set("cannot leave a secret for the other ranks in %s: %s; set BEVATRON_JOB_TOKEN to the same "
                           "random text for all of them",
                           full, strerror(errno));
    if (file >= 0)
        close(file);
    if (file >= 0 && result < 0)
        unlink(full);
    if (result == 0) {
        snprintf(secret->note, sizeof secret->note, "%s", strrchr(full, '/') + 1);
        mix(options->key, text);
    }
    free(path);
    free(full);
    return result;
}

void star_secret_remove(struct star_secret *secret) {
    if (!secret->note[0])
        return;
    char *path = file_join(secret->folder, secret->note);
    unlink(path);
    free(path);
    secret->note[0] = 0;
}

// A stranger posing as the hub may name any file.
static bool is_note(const char *note) {
    size_t length = strlen(stem);
    return strncmp(note, stem, length) == 0 && file_temporary_stem(note) == length;
}

static int read_note(const struct star_secret *secret, const char *path, char text[SECRET_CHARACTERS + 1]) {
    struct stat status;
    int file = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC), result = 0;
    if (file < 0 || fstat(file, &status) < 0) {
        // Another machine may see it a moment later.
        result = errno == ENOENT ? 1 : -1;
        error_set("cannot read %s, which rank 0 has left: %s; all ranks must see this folder, or set "
                  "BEVATRON_JOB_TOKEN to the same random text for all of them",
                  path, strerror(errno));
    } else if (!S_ISREG(status.st_mode) || (secret->is_public && status.st_uid != geteuid())) {
        result = error_set("%s is not a file of this user: another program answers in rank 0's place", path);
    } else if (read(file, text, SECRET_CHARACTERS) != SECRET_CHARACTERS) {
        result = error_set("%s, which rank 0 has left, is not complete", path);
    }
    if (file >= 0)
        close(file);
    text[SECRET_CHARACTERS] = 0;
    return result;
}

int star_secret_take(const struct star_secret *secret, const char *note, unsigned char key[STAR_KEY_BYTES]) {
    char text[SECRET_CHARACTERS + 1];
    if (!secret->folder && !*note)
        return 0;
    if (!secret->folder || !is_note(note))
        return error_set(
            "this rank and rank 0 do not agree on where the job's secret is; start all ranks with the same "
            "flags and BEVATRON_JOB_TOKEN");
    char *path = file_join(secret->folder, note);
    int result = read_note(secret, path, text);
    if (result == 0)
        mix(key, text);
    free(path);
    return result;
}
