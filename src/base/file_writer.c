// The atomic writer: bytes gather in a block, go to a temporary file beside the target, and the finished file takes its
// name in one rename. On any failure the temporary file is removed at once, so no caller can leave one there.
#include "base/file.h"

#include "base/error.h"
#include "base/fault.h"
#include "base/interrupt.h"
#include "base/memory.h"
#include "base/watchdog.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { BLOCK_BYTES = 1 << 18, MOST_NAMES = 16, SYNC_BYTES = 1 << 26 };

static const char *remedy_for(int error) {
    switch (error) {
    case ENOSPC:
    case EDQUOT:
        return "free some space or choose another folder";
    case EFBIG:
        return "raise the file size limit (ulimit -f) or choose another file system";
    case EACCES:
    case EPERM:
    case EROFS:
        return "choose a folder that you may write to";
    case ENOENT:
        return "create the folder first";
    case EIO:
        return "check the disk";
    default:
        return "check the path and its file system";
    }
}

// Removes the temporary file, then reports: `error` is passed in because clean-up changes errno.
static int fail(struct file_writer *writer, const char *what, int error) {
    int result = error_set("cannot %s %s: %s; %s", what, writer->path, strerror(error), remedy_for(error));
    file_abort(writer);
    return result;
}

// Follows a symbolic link at the target, so that the file it points to is replaced, and refuses anything but a regular
// file: a rename would replace a device by a file.
static int resolve_target(const char *path, char **resolved) {
    struct stat status;
    *resolved = NULL;
    if (path[0] == '\0')
        return error_set("cannot write to an empty file name; name the output file");
    if (stat(path, &status) < 0) {
        if (lstat(path, &status) == 0)
            return error_set("cannot write %s: it is a dangling symbolic link; remove it", path);
        *resolved = memory_string(path);
        return 0;
    }
    if (S_ISDIR(status.st_mode))
        return error_set("cannot write %s: it is a folder; name a file in it", path);
    if (!S_ISREG(status.st_mode))
        return error_set("cannot write %s: it is a device or a pipe; name a regular file", path);
    char *real = realpath(path, NULL);
    if (!real)
        return error_set("cannot write %s: %s; %s", path, strerror(errno), remedy_for(errno));
    *resolved = real;
    return 0;
}

// Resolves a target whose link is itself replaced.
static int take_target(const char *path, char **taken) {
    struct stat status;
    if (lstat(path, &status) < 0 || !S_ISLNK(status.st_mode))
        return resolve_target(path, taken);
    *taken = memory_string(path);
    return 0;
}

static int create(struct file_writer *writer, const char *path, mode_t mode, bool follows) {
    *writer = (struct file_writer){.descriptor = -1};
    TRY((follows ? resolve_target : take_target)(path, &writer->path));
    watchdog_doing("writing", writer->path);
    file_sweep(writer->path);
    for (int i = 0; i < MOST_NAMES; i++) {
        free(writer->temporary);
        writer->temporary = file_temporary_name(writer->path);
        writer->descriptor = open(writer->temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
        if (writer->descriptor >= 0 || errno != EEXIST)
            break;
    }
    if (writer->descriptor < 0) {
        int error = errno;
        // A file of that name belongs to another writer and is not removed here.
        free(writer->temporary);
        writer->temporary = NULL;
        return fail(writer, "create", error);
    }
    writer->pending = memory_alloc(BLOCK_BYTES);
    return 0;
}

int file_create(struct file_writer *writer, const char *path) {
    return create(writer, path, 0666, true);
}

enum { LARGEST_WRITE = 1 << 26 };

static int write_out(struct file_writer *writer, const unsigned char *bytes, size_t count) {
    while (count > 0) {
        if (interrupt_check() < 0) {
            file_abort(writer);
            return -1;
        }
        if ((errno = fault_at(FAULT_AT_WRITE).error) != 0)
            return fail(writer, "write", errno);
        // Signals are checked between writes, so no write may take long.
        ssize_t done = write(writer->descriptor, bytes, count < LARGEST_WRITE ? count : LARGEST_WRITE);
        if (done < 0 && errno == EINTR)
            continue;
        if (done <= 0)
            return fail(writer, "write", done == 0 ? EIO : errno);
        bytes += done;
        count -= (size_t)done;
        watchdog_beat();
    }
    return 0;
}

static int flush_pending(struct file_writer *writer) {
    size_t count = writer->pending_bytes;
    writer->pending_bytes = 0;
    return write_out(writer, writer->pending, count);
}

int file_write(struct file_writer *writer, const void *bytes, size_t count) {
    if (!writer->pending)
        return error_set("cannot write: the file was closed after an earlier error");
    writer->written_bytes += count;
    if (count == 0)
        return 0;
    if (count <= BLOCK_BYTES - writer->pending_bytes) {
        memcpy(writer->pending + writer->pending_bytes, bytes, count);
        writer->pending_bytes += count;
        return 0;
    }
    TRY(flush_pending(writer));
    if (count >= BLOCK_BYTES)
        return write_out(writer, bytes, count);
    memcpy(writer->pending, bytes, count);
    writer->pending_bytes = count;
    return 0;
}

// Closes without touching the file.
static void release(struct file_writer *writer) {
    free(writer->path);
    free(writer->temporary);
    free(writer->pending);
    *writer = (struct file_writer){.descriptor = -1, .written_bytes = writer->written_bytes};
}

// The kernel, the file system or the container does not know the call: then fsync does everything. Any other error is
// the disk's, which reports it once, so it must not be lost here.
static bool is_unknown_call(int error) {
    return error == ENOSYS || error == EINVAL || error == ESPIPE || error == EPERM || error == EOPNOTSUPP;
}

int file_sync(int descriptor, uint64_t bytes, uint64_t piece_bytes) {
    const unsigned begin = SYNC_FILE_RANGE_WRITE,
                   finish = SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE | SYNC_FILE_RANGE_WAIT_AFTER;
    int status = 0;
    // While one piece is awaited, the next is on its way to the disk.
    for (uint64_t at = 0; at < bytes && status == 0; at += piece_bytes) {
        if (at + piece_bytes < bytes)
            status = sync_file_range(descriptor, (off_t)(at + piece_bytes), (off_t)piece_bytes, begin);
        if (status == 0)
            status = sync_file_range(descriptor, (off_t)at, (off_t)piece_bytes, finish);
        watchdog_beat();
    }
    if (status < 0 && !is_unknown_call(errno))
        return -1;
    return fsync(descriptor);
}

int file_finish(struct file_writer *writer) {
    if (!writer->pending)
        return error_set("cannot finish: the file was closed after an earlier error");
    TRY(flush_pending(writer));
    watchdog_doing("syncing", writer->path);
    if ((errno = fault_at(FAULT_AT_FSYNC).error) != 0 ||
        file_sync(writer->descriptor, writer->written_bytes, SYNC_BYTES) < 0)
        return fail(writer, "sync", errno);
    int descriptor = writer->descriptor;
    writer->descriptor = -1;
    // Network file systems report a full disk only at close.
    if (close(descriptor) < 0 && errno != EINTR)
        return fail(writer, "close", errno);
    free(writer->pending);
    writer->pending = NULL;
    return 0;
}

int file_publish(struct file_writer *writer) {
    CHECK(writer->temporary && !writer->pending);
    watchdog_doing("renaming", writer->path);
    if ((errno = fault_at(FAULT_AT_RENAME).error) != 0 || rename(writer->temporary, writer->path) < 0)
        return fail(writer, "put in place", errno);
    char *parent = file_parent(writer->path);
    int result = file_sync_folder(parent);
    free(parent);
    release(writer);
    return result;
}

int file_publish_all(struct file_writer *writers, int count) {
    char **paths = memory_alloc((size_t)count * sizeof *paths);
    int done = 0, result = 0;
    for (int i = 0; i < count; i++)
        paths[i] = memory_string(writers[i].path);
    // A file whose folder cannot be synced already has its name, so it counts as done.
    while (result == 0 && done < count)
        result = file_publish(&writers[done++]);
    for (int i = 0; i < count; i++) {
        if (result < 0 && i < done)
            (void)unlink(paths[i]);
        if (result < 0 && i >= done)
            file_abort(&writers[i]);
        free(paths[i]);
    }
    free(paths);
    return result;
}

int file_commit(struct file_writer *writer) {
    TRY(file_finish(writer));
    return file_publish(writer);
}

void file_abort(struct file_writer *writer) {
    if (!writer->temporary) {
        release(writer);
        return;
    }
    // Descriptor 0 in a zeroed writer is not ours; a created one always has a temporary name.
    if (writer->descriptor >= 0)
        close(writer->descriptor);
    unlink(writer->temporary);
    release(writer);
}

int file_write_all(const char *path, const void *bytes, size_t count) {
    struct file_writer writer;
    TRY(file_create(&writer, path));
    TRY(file_write(&writer, bytes, count));
    return file_commit(&writer);
}

int file_write_in(const char *folder, const char *name, const void *bytes, size_t count) {
    OWNED char *path = file_join(folder, name);
    return file_write_all(path, bytes, count);
}

int file_write_here(const char *path, const void *bytes, size_t count) {
    struct file_writer writer;
    TRY(create(&writer, path, 0666, false));
    TRY(file_write(&writer, bytes, count));
    return file_commit(&writer);
}

int file_write_private(const char *path, const void *bytes, size_t count) {
    struct file_writer writer;
    TRY(create(&writer, path, 0600, true));
    TRY(file_write(&writer, bytes, count));
    return file_commit(&writer);
}

int file_sync_folder(const char *path) {
    watchdog_doing("syncing", path);
    int descriptor = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (descriptor < 0)
        return error_set("cannot open the folder %s to sync it: %s", path, strerror(errno));
    int result = 0;
    // Not every file system can sync a folder; those that cannot return EINVAL and order renames by themselves.
    bool has_failed = (errno = fault_at(FAULT_AT_FSYNC).error) != 0 || fsync(descriptor) < 0;
    if (has_failed && errno != EINVAL && errno != ENOTSUP && errno != EROFS)
        result = error_set("cannot sync the folder %s: %s; check the disk", path, strerror(errno));
    close(descriptor);
    watchdog_done();
    return result;
}

int file_rename(const char *from, const char *to) {
    watchdog_doing("renaming", from);
    if ((errno = fault_at(FAULT_AT_RENAME).error) != 0 || rename(from, to) < 0)
        return error_set("cannot rename %s to %s: %s", from, to, strerror(errno));
    char *source = file_parent(from), *target = file_parent(to);
    int result = file_sync_folder(target);
    if (result == 0 && strcmp(source, target) != 0)
        result = file_sync_folder(source);
    free(source);
    free(target);
    return result;
}
