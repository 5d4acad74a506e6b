// Opening files for reading without waiting. A pipe without a writer would silently block open() and read() forever:
// pipes are opened without waiting, and then waited for with a limit and a message.
#include "base/file.h"

#include "base/error.h"
#include "base/file_patience.h"
#include "base/interrupt.h"
#include "base/log.h"
#include "base/watchdog.h"
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { LOOK_BYTES = 512 };  // of an existing output
static const int NAP_MS = 100, NOTE_MS = 2000, LIMIT_MS = 120000;

int file_open_input(const char *path, struct stat *status) {
    watchdog_doing("reading", path);
    for (;;) {
        int descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
        if (descriptor >= 0 && fstat(descriptor, status) == 0 && fcntl(descriptor, F_SETFL, O_RDONLY) == 0)
            return descriptor;
        int error = errno;
        if (descriptor >= 0)
            close(descriptor);
        if (!file_try_again(error, path))
            return error_set("cannot %s %s: %s; %s", descriptor < 0 ? "open" : "inspect", path, strerror(error),
                             file_read_remedy(error));
    }
}

int file_await_pipe(int descriptor, const char *path) {
    // Time is counted in naps, so that time during which the machine was suspended does not count.
    for (int waited = 0;; waited += NAP_MS) {
        struct pollfd ready = {.fd = descriptor, .events = POLLIN};
        int found = poll(&ready, 1, NAP_MS);
        if (found > 0 || (found < 0 && errno != EINTR))
            return 0;
        TRY(interrupt_check());
        if (waited == NOTE_MS)
            log_info("%s is a pipe; waiting up to %d s for data", path, LIMIT_MS / 1000);
        if (waited >= LIMIT_MS)
            return error_set(
                "%s is a pipe, and nothing was written to it for %d s; name a regular file, or start its writer", path,
                LIMIT_MS / 1000);
    }
}

const char *file_describe_kind(unsigned mode) {
    return S_ISREG(mode)                    ? "a regular file"
           : S_ISDIR(mode)                  ? "a folder"
           : S_ISFIFO(mode)                 ? "a pipe (FIFO)"
           : S_ISSOCK(mode)                 ? "a socket"
           : S_ISCHR(mode) || S_ISBLK(mode) ? "a device"
                                            : "not a file";
}

int file_check_output(const char *path, const char *kind, bool (*is_kind)(const char *begin, size_t length)) {
    struct stat status;
    // Only non-empty regular files can be lost; the writer refuses folders, devices and pipes.
    if (stat(path, &status) < 0 || !S_ISREG(status.st_mode) || status.st_size == 0)
        return 0;
    char begin[LOOK_BYTES] = {0};
    int descriptor = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t length = descriptor < 0 ? -1 : read(descriptor, begin, sizeof begin - 1);
    int error = errno;
    if (descriptor >= 0)
        close(descriptor);
    if (length < 0)
        return error_set("cannot read the existing %s: %s; %s", path, strerror(error), file_read_remedy(error));
    if (is_kind && is_kind(begin, (size_t)length))
        return 0;
    if (!is_kind)
        return error_set("%s exists; give another name, or remove it first", path);
    return error_set("%s exists and is not %s; give another name, or remove it first", path, kind);
}

// ---- all of some bytes ----

// A call that moves up to `count` bytes of a file; `offset` is -1 where the descriptor stands.
enum direction { READ, WRITE };

static ssize_t move(enum direction direction, int descriptor, char *bytes, size_t count, off_t offset) {
    if (direction == READ)
        return pread(descriptor, bytes, count, offset);
    return offset < 0 ? write(descriptor, bytes, count) : pwrite(descriptor, bytes, count, offset);
}

static size_t move_all(enum direction direction, int descriptor, char *bytes, size_t count, off_t offset) {
    size_t done = 0;
    while (done < count) {
        ssize_t moved =
            move(direction, descriptor, bytes + done, count - done, offset < 0 ? offset : offset + (off_t)done);
        if (moved < 0 && errno == EINTR)
            continue;
        if (moved == 0)
            errno = direction == READ ? 0 : EIO;
        if (moved <= 0)
            break;
        done += (size_t)moved;
    }
    return done;
}

size_t file_read_at(int descriptor, void *bytes, size_t count, uint64_t offset) {
    return move_all(READ, descriptor, bytes, count, (off_t)offset);
}

size_t file_write_at(int descriptor, const void *bytes, size_t count, uint64_t offset) {
    return move_all(WRITE, descriptor, (char *)(uintptr_t)bytes, count, (off_t)offset);
}

size_t file_put(int descriptor, const void *bytes, size_t count) {
    return move_all(WRITE, descriptor, (char *)(uintptr_t)bytes, count, -1);
}
