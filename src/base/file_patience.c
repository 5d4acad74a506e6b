// Which errors are answers, the waits between tries, and remedies for files that cannot be read. See file_patience.h.
#include "base/file_patience.h"
#include "base/error.h"
#include "base/interrupt.h"
#include "base/log.h"
#include "base/watchdog.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

static const double FIRST_SECONDS = 0.1, MOST_SECONDS = 10, SLICE_SECONDS = 0.1;
// A permission error is usually final, but servers also report one while a ticket is renewed.
static const double PERMISSION_SECONDS = 3;

static _Thread_local struct file_patience *innermost;
static _Thread_local char warned_path[sizeof innermost->path];  // of the last warning

static double now(struct clock *clock) {
    (void)clock;
    return clock_seconds();
}

// Ends the wait when a signal asks to stop.
static void sleep_in_slices(struct clock *clock, double seconds) {
    (void)clock;
    for (double left = seconds; left > 0 && interrupt_received() == 0; left -= SLICE_SECONDS)
        clock_sleep(left < SLICE_SECONDS ? left : SLICE_SECONDS);
}

static struct clock until_stopped = {.now = now, .sleep = sleep_in_slices};

void file_patience_begin(struct file_patience *patience) {
    struct file_patience *outer = innermost;
    patience->waited_seconds = outer ? outer->waited_seconds : 0;
    patience->last_seconds = outer ? outer->last_seconds : 0;
    patience->next_seconds = FIRST_SECONDS;
    patience->error = 0;
    patience->path[0] = '\0';
    patience->outer = outer;
    if (!patience->clock)
        patience->clock = outer ? outer->clock : &until_stopped;
    if (!(patience->limit_seconds > 0))
        patience->limit_seconds = outer ? outer->limit_seconds : FILE_PATIENCE_SECONDS;
    innermost = patience;
}

void file_patience_end(struct file_patience *patience) {
    CHECK(innermost == patience);
    innermost = patience->outer;
    if (!innermost)
        return;
    innermost->waited_seconds = patience->waited_seconds;
    innermost->last_seconds = patience->last_seconds;
    if (innermost->error == 0) {
        innermost->error = patience->error;
        memcpy(innermost->path, patience->path, sizeof innermost->path);
    }
}

// The kernel's own files answer at once, and with errors of many kinds.
static bool is_kernels(const char *path) {
    return strncmp(path, "/proc/", 6) == 0 || strncmp(path, "/sys/", 5) == 0;
}

static double limit_of(const struct file_patience *patience, int error) {
    bool is_permission = error == EACCES || error == EPERM;
    return is_permission && patience->limit_seconds > PERMISSION_SECONDS ? PERMISSION_SECONDS : patience->limit_seconds;
}

// Errors about the path itself: another attempt would fail in the same way.
static bool is_answer(int error) {
    static const int answers[] = {ENOENT, ENOTDIR, EISDIR, ELOOP, ENAMETOOLONG, ENXIO, ENODEV, EINVAL};
    for (size_t i = 0; i < sizeof answers / sizeof answers[0]; i++)
        if (answers[i] == error)
            return true;
    return false;
}

static void forget_old_waits(struct file_patience *patience) {
    bool is_old = clock_now(patience->clock) - patience->last_seconds > FILE_PATIENCE_MEMORY_SECONDS;
    if (patience->waited_seconds > 0 && is_old) {
        patience->waited_seconds = 0;
        patience->next_seconds = FIRST_SECONDS;
        warned_path[0] = '\0';
    }
}

// Warns once per path, however many attempts follow.
static void warn(const char *path, int error, double left) {
    if (strncmp(path, warned_path, sizeof warned_path - 1) == 0)
        return;
    (void)snprintf(warned_path, sizeof warned_path, "%s", path);
    log_warn("cannot read %s: %s; trying again for up to %.0f s", path, strerror(error), left);
}

static bool wait_for(int error, const char *path) {
    struct file_patience *patience = innermost;
    if (!patience || is_answer(error) || is_kernels(path))
        return false;
    forget_old_waits(patience);
    double left = limit_of(patience, error) - patience->waited_seconds;
    if (left > 0 && interrupt_received() == 0) {
        double seconds = patience->next_seconds < left ? patience->next_seconds : left;
        warn(path, error, left);
        watchdog_beat();
        clock_pause(patience->clock, seconds);
        watchdog_beat();
        patience->waited_seconds += seconds;
        patience->last_seconds = clock_now(patience->clock);
        patience->next_seconds = 2 * seconds < MOST_SECONDS ? 2 * seconds : MOST_SECONDS;
        return true;
    }
    if (patience->error == 0) {
        patience->error = error;
        (void)snprintf(patience->path, sizeof patience->path, "%s", path);
    }
    return false;
}

bool file_try_again(int error, const char *path) {
    bool again = wait_for(error, path);
    errno = error;
    return again;
}

int file_doubt(void) {
    if (!innermost || innermost->error == 0)
        return 0;
    TRY(interrupt_check());
    return error_set("cannot read %s: %s, after %.0f s of trying; it may be whole: %s", innermost->path,
                     strerror(innermost->error), innermost->waited_seconds, file_read_remedy(innermost->error));
}

int file_answer(int result) {
    if (result < 0)
        (void)file_doubt();
    return result;
}

// ---- remedies ----

const char *file_looks_like(const void *bytes, size_t size) {
    static const struct {
        const char *beginning, *look;
    } rows[] = {
        {"version https://git-lfs",
         "; it is only the pointer that Git LFS puts in its place: `git lfs pull` fetches it"},
        {"<!doctype", "; it is a web page: download the file itself"},
        {"<html", "; it is a web page: download the file itself"},
        {"\xef\xbb\xbf", "; it starts with a byte order mark: save it as UTF-8 without one"},
        {"<?xml", "; it is XML: download the file itself"},
        {"\x1f\x8b", "; it is packed by gzip: unpack it"},
    };
    const char *text = bytes;
    if (size == 0)
        return "; it is empty: copy or download it again";
    size_t blanks = 0;
    while (blanks < size && strchr(" \t\r\n", text[blanks]) && text[blanks])
        blanks++;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        size_t length = strlen(rows[i].beginning);
        if (size - blanks >= length && strncasecmp(text + blanks, rows[i].beginning, length) == 0)
            return rows[i].look;
    }
    return "";
}

const char *file_read_remedy(int error) {
    if (error == EACCES || error == EPERM)
        return "its owner must let you read it, and look into the folders above it (chmod)";
    if (error == EMFILE || error == ENFILE)
        return "raise the limit of open files (ulimit -n)";
    if (error == EIO || error == ESTALE || error == ETIMEDOUT)
        return "check the disk and its file server (dmesg)";
    if (error == ENOMEM)
        return "free memory on this machine";
    return "check the path";
}

const char *file_write_remedy(int error) {
    if (error == EACCES || error == EPERM)
        return "its owner must let you write to the folder (chmod), or name another one";
    if (error == EROFS)
        return "its file system is read-only; name another folder";
    if (error == ENOSPC || error == EDQUOT)
        return "free some space, or name another folder";
    return file_read_remedy(error);
}
