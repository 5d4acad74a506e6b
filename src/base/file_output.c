// Whether an output may replace an existing file of its name. See file.h.
#include "base/file.h"

#include "base/error.h"
#include "base/looks.h"
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { LOOK_BYTES = 512 };

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
        return error_set("cannot read the existing %s: %s; %s", path, strerror(error), looks_remedy(error));
    if (is_kind && is_kind(begin, (size_t)length))
        return 0;
    if (!is_kind)
        return error_set("%s exists; give another name, or remove it first", path);
    return error_set("%s exists and is not %s; give another name, or remove it first", path, kind);
}
