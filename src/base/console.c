// Lines for readers that may have gone away or stopped. See console.h.
#include "base/console.h"
#include "base/buffer.h"
#include "base/clock.h"
#include "base/memory.h"
#include "base/interrupt.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    PATIENCE_SECONDS = 5,
    WRITE_BYTES = 4096,  // a pipe that polls as ready takes a page without blocking
    READ_BYTES = 65536,
    MOST_BYTES = 4 << 20,
    TURN_MILLISECONDS = 100,
    KEPT_BYTES = 256 << 10,  // of a terminal
};

static const char lost_line[] = "(%" PRId64 " lines are missing here: the output was not being read)\n";

// ---- our own lines ----

static struct {
    atomic_bool is_stuck;
    atomic_int_fast64_t lost;
} consoles[3];

static bool can_write(int file, int milliseconds) {
    struct pollfd poll_file = {.fd = file, .events = POLLOUT};
    int count;
    while ((count = poll(&poll_file, 1, milliseconds)) < 0 && errno == EINTR)
        continue;
    return count != 0;
}

bool console_is_ready(int file) {
    if (file != STDOUT_FILENO && file != STDERR_FILENO)
        return true;
    bool was_stuck = consoles[file].is_stuck;
    if (!can_write(file, was_stuck ? 0 : PATIENCE_SECONDS * 1000)) {
        consoles[file].is_stuck = true;
        consoles[file].lost++;
        return false;
    }
    int64_t lost = atomic_exchange(&consoles[file].lost, 0);
    consoles[file].is_stuck = false;
    if (lost == 0)
        return true;
    char line[96];
    int length = snprintf(line, sizeof line, lost_line, lost);
    return write(file, line, (size_t)length) < 0 || can_write(file, PATIENCE_SECONDS * 1000);
}

// ---- a terminal ----

// Reopened, since the shell that shares the old description does not expect writes to it to fail.
static struct {
    pthread_mutex_t lock;
    bool is_open, waits_at_end, is_stuck;
    int descriptor;
    double patience;  // see console_set_patience
    dev_t device;
    char kept[KEPT_BYTES];
    size_t length;
    int64_t lost;
} terminal = {.lock = PTHREAD_MUTEX_INITIALIZER};

static double patience_of[3];  // by descriptor

void console_set_patience(int file, double seconds) {
    pthread_mutex_lock(&terminal.lock);
    patience_of[file] = seconds;
    pthread_mutex_unlock(&terminal.lock);
}

// Whether the file is the known terminal, the first one that was printed to.
static bool is_terminal(int file) {
    struct stat status;
    if (!isatty(file) || fstat(file, &status) < 0)
        return false;
    if (terminal.is_open)
        return terminal.device == status.st_rdev;
    char path[32];
    snprintf(path, sizeof path, "/proc/self/fd/%d", file);
    terminal.descriptor = open(path, O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    terminal.is_open = terminal.descriptor >= 0;
    terminal.device = status.st_rdev;
    terminal.patience = patience_of[file];
    return terminal.is_open;
}

// Returns the number of bytes done with. A terminal that is gone takes everything.
static size_t write_some(const char *text, size_t length) {
    size_t done = 0;
    while (done < length) {
        ssize_t count = write(terminal.descriptor, text + done, length - done);
        if (count < 0 && errno == EINTR)
            continue;
        if (count < 0 && errno == EAGAIN)
            return done;
        if (count < 0)
            return length;
        done += (size_t)count;
    }
    return done;
}

// Like write_some, but waits for the reader if the terminal is a launcher's, unless it has stopped reading. A terminal
// with a little room may poll as ready and still take nothing.
static size_t write_now(const char *text, size_t length) {
    const double turn = 1e-3;
    size_t done = write_some(text, length);
    double last = clock_seconds();
    terminal.is_stuck = terminal.is_stuck && done == 0;
    while (done < length && terminal.patience > 0 && !terminal.is_stuck) {
        (void)can_write(terminal.descriptor, TURN_MILLISECONDS);
        size_t more = write_some(text + done, length - done);
        double now = clock_seconds();
        done += more;
        if (more > 0)
            last = now;
        else
            clock_sleep(turn);
        terminal.is_stuck = now - last > terminal.patience;
    }
    return done;
}

static bool write_kept(void) {
    size_t done = write_now(terminal.kept, terminal.length);
    terminal.length -= done;
    if (done > 0)
        memmove(terminal.kept, terminal.kept + done, terminal.length);
    if (terminal.length == 0 && terminal.lost > 0) {
        terminal.length = (size_t)snprintf(terminal.kept, sizeof terminal.kept, lost_line, terminal.lost);
        terminal.lost = 0;
        return write_kept();
    }
    return terminal.length == 0;
}

static void wait_at_end(void) {
    double end = clock_seconds() + PATIENCE_SECONDS;
    while (!write_kept() && clock_seconds() < end)
        (void)can_write(terminal.descriptor, TURN_MILLISECONDS);
}

static void keep(const char *text, size_t length) {
    if (length > sizeof terminal.kept - terminal.length) {
        for (size_t i = 0; i < length; i++)
            terminal.lost += text[i] == '\n';
        return;
    }
    memcpy(terminal.kept + terminal.length, text, length);
    terminal.length += length;
    if (!terminal.waits_at_end)
        terminal.waits_at_end = atexit(wait_at_end) == 0;
}

// A signal cuts a write to a terminal after two kilobytes, and its handler's answer would stand in the middle of the
// text. It waits, or goes to another thread, whose write waits for ours.
static void hold_signals(sigset_t *before) {
    static const int numbers[] = {SIGINT, SIGTERM, SIGHUP, SIGUSR1};
    sigset_t held;
    sigemptyset(&held);
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++)
        sigaddset(&held, numbers[i]);
    pthread_sigmask(SIG_BLOCK, &held, before);
}

void console_print(int file, const char *text, size_t length) {
    pthread_mutex_lock(&terminal.lock);
    bool is_ours = is_terminal(file);
    if (is_ours) {
        sigset_t before;
        hold_signals(&before);
        size_t done = write_kept() ? write_now(text, length) : 0;
        if (done < length)
            keep(text + done, length - done);
        pthread_sigmask(SIG_SETMASK, &before, NULL);
    }
    pthread_mutex_unlock(&terminal.lock);
    while (!is_ours && console_is_ready(file) && write(file, text, length) < 0 && errno == EINTR)
        continue;
}

bool console_is_clear(int file) {
    pthread_mutex_lock(&terminal.lock);
    bool is_clear = !is_terminal(file) || write_kept();
    pthread_mutex_unlock(&terminal.lock);
    return is_clear;
}

// ---- two streams in one file ----

void console_keep_lines_whole(void) {
    static char room[1 << 16];
    struct stat out, error;
    if (fstat(STDOUT_FILENO, &out) == 0 && fstat(STDERR_FILENO, &error) == 0 && out.st_dev == error.st_dev &&
        out.st_ino == error.st_ino && !isatty(STDOUT_FILENO))
        (void)setvbuf(stdout, room, _IOLBF, sizeof room);
}

// ---- lines of another process ----

struct console_relay {
    int from, to;
    struct buffer queue;
    size_t written;       // bytes of the queue taken by the reader
    double taken;         // when it last took something, or the queue was empty
    bool is_gone;         // the reader is gone
    bool skips;           // drops text up to the end of the line
    bool ends_line;       // the last queued text ended a line
    int64_t lost;         // lines dropped since the last that was queued
    atomic_bool is_over;  // the writer has ended
    pthread_t thread;
};

static size_t waiting(const struct console_relay *relay) {
    return relay->queue.length - relay->written;
}

static void queue_bytes(struct console_relay *relay, const char *bytes, size_t length) {
    if (length == 0)
        return;
    if (relay->lost > 0) {
        buffer_printf(&relay->queue, lost_line, relay->lost);
        relay->lost = 0;
    }
    buffer_append(&relay->queue, bytes, length);
    relay->ends_line = bytes[length - 1] == '\n';
}

// Whole lines are kept or dropped. A line whose beginning is already queued is cut there.
static void take(struct console_relay *relay, const char *bytes, size_t length) {
    while (length > 0) {
        const char *end = memchr(bytes, '\n', length);
        size_t line = end ? (size_t)(end - bytes) + 1 : length;
        bool has_room = waiting(relay) + line <= MOST_BYTES + READ_BYTES;
        if (!relay->skips && has_room) {
            queue_bytes(relay, bytes, line);
        } else if (!relay->skips && !relay->ends_line) {
            buffer_append_byte(&relay->queue, '\n');
            relay->ends_line = relay->skips = true;
        } else {
            relay->skips = true;
        }
        if (relay->skips && end) {
            relay->lost++;
            relay->skips = false;
        }
        bytes += line;
        length -= line;
    }
}

static void pass_on(struct console_relay *relay) {
    size_t length = waiting(relay) < WRITE_BYTES ? waiting(relay) : WRITE_BYTES;
    const char *bytes = relay->queue.data + relay->written;
    ssize_t count = send(relay->to, bytes, length, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (count < 0 && errno == ENOTSOCK)
        count = write(relay->to, bytes, length);
    if (count < 0 && errno != EAGAIN && errno != EINTR)
        relay->is_gone = true;
    relay->written += count > 0 ? (size_t)count : 0;
    if (count > 0)
        relay->taken = clock_seconds();
    if (waiting(relay) == 0 || relay->is_gone) {
        buffer_clear(&relay->queue);
        relay->written = 0;
    } else if (relay->written > MOST_BYTES) {
        memmove(relay->queue.data, relay->queue.data + relay->written, waiting(relay));
        relay->queue.length -= relay->written;
        relay->written = 0;
    }
}

// Returns false at the end of the writer's output.
static bool read_on(struct console_relay *relay) {
    char bytes[READ_BYTES];
    ssize_t count = read(relay->from, bytes, sizeof bytes);
    if (count > 0 && !relay->is_gone)
        take(relay, bytes, (size_t)count);
    return count > 0 || (count < 0 && (errno == EINTR || errno == EAGAIN));
}

// A writer waits while the queue is full, unless the reader has stopped. The relay ends with the writer's end of the
// pipe and an empty queue. After the writer has ended, a child of its own may hold that end open, and the reader may
// have stopped: then PATIENCE_SECONDS without progress are enough.
static void *relay_lines(void *opaque) {
    struct console_relay *relay = opaque;
    bool is_open = true;
    double last = clock_seconds();
    while (is_open || waiting(relay) > 0) {
        double now = clock_seconds();
        if (waiting(relay) == 0)
            relay->taken = now;
        bool takes = is_open && (waiting(relay) < MOST_BYTES || now - relay->taken > PATIENCE_SECONDS);
        struct pollfd files[] = {{.fd = takes ? relay->from : -1, .events = POLLIN},
                                 {.fd = waiting(relay) > 0 ? relay->to : -1, .events = POLLOUT}};
        int count = poll(files, 2, TURN_MILLISECONDS);
        if (!relay->is_over || count > 0)
            last = clock_seconds();
        if (clock_seconds() - last > PATIENCE_SECONDS)
            break;
        if (files[1].revents)
            pass_on(relay);
        if (files[0].revents)
            is_open = read_on(relay);
    }
    return NULL;
}

struct console_relay *console_relay_open(int to, int *writer) {
    struct stat status;
    int ends[2];
    if (fstat(to, &status) < 0 || !(S_ISFIFO(status.st_mode) || S_ISSOCK(status.st_mode)) || pipe2(ends, O_CLOEXEC) < 0)
        return NULL;
    struct console_relay *relay = memory_alloc(sizeof *relay);
    *relay = (struct console_relay){.from = ends[0], .to = to, .ends_line = true};
    if (!thread_start(&relay->thread, relay_lines, relay)) {
        close(ends[0]);
        close(ends[1]);
        free(relay);
        return NULL;
    }
    *writer = ends[1];
    return relay;
}

void console_relay_close(struct console_relay *relay) {
    if (!relay)
        return;
    relay->is_over = true;
    pthread_join(relay->thread, NULL);
    close(relay->from);
    buffer_free(&relay->queue);
    free(relay);
}
