// Records at the end of a file. See appender.h.
#include "report/appender.h"

#include "base/error.h"
#include "base/file.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/watchdog.h"
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

// In a folder that others may write to, a link would let them choose which of our files grows. The system's own names
// of open files, e.g. /dev/stdout, are links too.
int appender_link_flag(const char *path) {
    return strncmp(path, "/dev/", 5) == 0 || strncmp(path, "/proc/", 6) == 0 ? 0 : O_NOFOLLOW;
}

int appender_open(struct appender *appender, const char *path, const char *what, enum appender_mode mode) {
    *appender = (struct appender){.descriptor = -1, .what = what};
    struct stat status;
    // A pipe or a terminal is opened non-blocking, so that neither opening nor writing ever blocks.
    bool is_other = stat(path, &status) == 0 && !S_ISREG(status.st_mode);
    int flags = O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC | O_NOCTTY | appender_link_flag(path);
    flags |= mode == APPENDER_NEW ? O_EXCL : is_other ? O_NONBLOCK : 0;
    int descriptor = open(path, flags, 0666);
    // A device may allow writing only.
    if (descriptor < 0 && is_other && errno == EACCES)
        descriptor = open(path, (flags & ~O_RDWR) | O_WRONLY, 0666);
    if (descriptor < 0 && errno == ELOOP)
        return error_set("cannot open %s for writing: it is a symbolic link; remove it, or name the file itself", path);
    if (descriptor < 0)
        return error_set("cannot open %s for writing: %s", path, strerror(errno));
    appender->descriptor = descriptor;
    appender->path = memory_string(path);
    appender->is_regular = fstat(descriptor, &status) == 0 && S_ISREG(status.st_mode);
    return 0;
}

void appender_close(struct appender *appender) {
    // Descriptor 0 in a zeroed struct is not ours; an open file always has a path.
    if (appender->path && appender->descriptor >= 0)
        close(appender->descriptor);
    free(appender->path);
    *appender = (struct appender){.descriptor = -1};
}

// Removes the first bytes of an incomplete record, unless another process has written after them.
static bool take_back(const struct appender *appender, size_t written) {
    struct stat status;
    if (written == 0)
        return true;
    off_t end = appender->is_regular ? lseek(appender->descriptor, 0, SEEK_CUR) : -1;
    return end >= (off_t)written && fstat(appender->descriptor, &status) == 0 && status.st_size == end &&
           ftruncate(appender->descriptor, end - (off_t)written) == 0;
}

static void tell_loss(struct appender *appender, int error) {
    bool is_slow = error == EAGAIN;
    if (appender->lost == 0 && !appender->has_ended)
        log_warn("cannot write %s to %s: %s; the run continues without them until it can", appender->what,
                 appender->path, is_slow ? "nothing is reading it" : strerror(error));
    appender->lost++;
}

bool appender_write(struct appender *appender, const void *record, size_t bytes) {
    if (!appender->path)
        return false;
    watchdog_doing("writing", appender->path);
    size_t done = appender->has_ended ? 0 : file_put(appender->descriptor, record, bytes);
    int error = appender->has_ended ? EIO : errno;
    watchdog_done();
    if (done < bytes || appender->has_ended) {
        tell_loss(appender, error);
        appender->has_ended = appender->has_ended || !take_back(appender, done);
        return false;
    }
    if (appender->lost > 0)
        log_info("%s are written to %s again; %" PRId64 " are missing", appender->what, appender->path, appender->lost);
    appender->lost = 0;
    return true;
}
