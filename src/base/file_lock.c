// See file_lock.h. The holder removes the file while it is locked. A process that then gets the lock on the removed
// file starts over with the file that now has the name.
#include "base/file_lock.h"

#include "base/error.h"
#include "base/file.h"
#include "base/file_patience.h"
#include "base/memory.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MOST_TRIES = 100, HOST_BYTES = 65, PLACE_BYTES = 128 };

static void own_host(char host[HOST_BYTES]) {
    if (gethostname(host, HOST_BYTES - 1) < 0)
        host[0] = '\0';
    host[HOST_BYTES - 1] = '\0';
    // A space would end the name in the file.
    for (char *c = host; *c; c++)
        *c = *c == ' ' || *c == '\n' ? '-' : *c;
}

// Distinguishes machines and containers with the same name: the machine's boot and the namespace of process numbers.
// "-" for facts that the system does not provide.
static void own_place(char place[PLACE_BYTES]) {
    char space[64] = "-";
    struct buffer start = {0};
    if (file_read_all("/proc/sys/kernel/random/boot_id", 256, &start) < 0)
        error_clear();
    ssize_t length = readlink("/proc/self/ns/pid", space, sizeof space - 1);
    space[length > 0 ? length : 1] = '\0';
    size_t digits = start.length > 0 ? strcspn(buffer_string(&start), "\n ") : 0;
    (void)snprintf(place, PLACE_BYTES, "%.*s/%s", (int)(digits < 40 ? digits : 40), digits ? start.data : "", space);
    buffer_free(&start);
}

// Informative, and used by file_lock_holder: the lock holds without it.
static void write_holder(const struct file_lock *lock) {
    char host[HOST_BYTES], place[PLACE_BYTES], text[HOST_BYTES + PLACE_BYTES + 32];
    own_host(host);
    own_place(place);
    int length = snprintf(text, sizeof text, "%s %ld %s\n", host, (long)getpid(), place);
    if (ftruncate(lock->descriptor, 0) < 0 || pwrite(lock->descriptor, text, (size_t)length, 0) != length)
        error_clear();
}

static bool has_name(int descriptor, const char *path) {
    struct stat open_file, named;
    return fstat(descriptor, &open_file) == 0 && stat(path, &named) == 0 && open_file.st_ino == named.st_ino &&
           open_file.st_dev == named.st_dev;
}

// The descriptor, or -1.
static int open_lock(const char *path) {
    int descriptor = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666);
    if (descriptor < 0)
        return error_set("cannot create %s: %s; %s", path, strerror(errno), file_write_remedy(errno));
    return descriptor;
}

static int try_lock(struct file_lock *lock, const char *path, int kind) {
    *lock = (struct file_lock){.descriptor = -1};
    for (int i = 0; i < MOST_TRIES; i++) {
        int descriptor = open_lock(path);
        TRY(descriptor);
        int error = flock(descriptor, kind | LOCK_NB) < 0 ? errno : 0;
        if (error == EWOULDBLOCK) {
            close(descriptor);
            return FILE_LOCK_TAKEN;
        }
        if (error == 0 && !has_name(descriptor, path)) {
            close(descriptor);
            continue;
        }
        *lock = (struct file_lock){.descriptor = descriptor, .path = memory_string(path)};
        write_holder(lock);
        return error == 0 ? FILE_LOCK_HELD : FILE_LOCK_ABSENT;
    }
    return FILE_LOCK_TAKEN;
}

int file_lock_try(struct file_lock *lock, const char *path) {
    return try_lock(lock, path, LOCK_EX);
}

int file_lock_share(struct file_lock *lock, const char *path) {
    return try_lock(lock, path, LOCK_SH);
}

int file_lock_renew(struct file_lock *lock) {
    struct stat named;
    // A file system error does not tell whether the name still exists.
    if (has_name(lock->descriptor, lock->path) || (stat(lock->path, &named) < 0 && errno != ENOENT))
        return FILE_LOCK_HELD;
    struct file_lock again;
    int result = file_lock_try(&again, lock->path);
    if (result < 0 || result == FILE_LOCK_TAKEN)
        return result;
    close(lock->descriptor);
    free(lock->path);
    *lock = again;
    return FILE_LOCK_RENEWED;
}

// The descriptor stays open, and with it the lock.
int file_lock_keep(const char *path) {
    struct file_lock lock;
    int result = file_lock_share(&lock, path);
    if (result >= 0) {
        free(lock.path);
        return result;
    }
    int descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (descriptor < 0)
        return -1;
    error_clear();
    result = flock(descriptor, LOCK_SH | LOCK_NB) == 0 ? FILE_LOCK_HELD
             : errno == EWOULDBLOCK                    ? FILE_LOCK_TAKEN
                                                       : FILE_LOCK_ABSENT;
    if (result == FILE_LOCK_HELD && !has_name(descriptor, path))
        result = FILE_LOCK_TAKEN;
    if (result != FILE_LOCK_HELD)
        close(descriptor);
    return result;
}

// Whether a process of this machine is exiting or gone; its files are closed only after its memory is freed, which may
// take seconds.
static bool is_ending(long process) {
    enum { EXITING = 0x4 };  // PF_EXITING of the kernel
    char path[64], state = 0;
    unsigned flags = 0;
    struct buffer text = {0};
    snprintf(path, sizeof path, "/proc/%ld/stat", process);
    bool is_gone = file_read_all(path, 4096, &text) < 0;
    error_clear();
    // The program's name may contain anything; the fields start after its last parenthesis.
    const char *fields = is_gone ? NULL : strrchr(buffer_string(&text), ')');
    bool is_read = fields && sscanf(fields + 1, " %c %*d %*d %*d %*d %*d %u", &state, &flags) == 2;
    buffer_free(&text);
    return is_gone || (is_read && (state == 'Z' || state == 'X' || (flags & EXITING)));
}

void file_lock_holder(struct file_lock_holder *holder, const char *path) {
    *holder = (struct file_lock_holder){0};
    struct buffer text = {0};
    char host[HOST_BYTES], place[PLACE_BYTES], theirs[PLACE_BYTES] = "";
    own_host(host);
    own_place(place);
    if (file_read_all(path, 4096, &text) < 0 ||
        sscanf(buffer_string(&text), "%64s %ld %127s", holder->host, &holder->process, theirs) < 2)
        *holder = (struct file_lock_holder){0};
    error_clear();
    buffer_free(&text);
    holder->is_here = strcmp(holder->host, host) == 0 && strcmp(theirs, place) == 0;
    holder->is_ending = holder->is_here && is_ending(holder->process);
}

void file_lock_release(struct file_lock *lock) {
    if (!lock->path)
        return;
    // No other process may hold a file that is being removed.
    bool is_alone = flock(lock->descriptor, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK;
    if (is_alone && has_name(lock->descriptor, lock->path))
        unlink(lock->path);
    close(lock->descriptor);
    free(lock->path);
    *lock = (struct file_lock){.descriptor = -1};
}
