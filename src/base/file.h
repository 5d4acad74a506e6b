// Files that are either whole or not there. A file_writer writes to a temporary file beside its target; file_commit
// syncs it, renames it into place and syncs the folder; file_abort removes it, and so does every call that fails. Only
// regular files are replaced: a device or a pipe of that name is an error. Reading maps a whole file read-only.
#ifndef BASE_FILE_H
#define BASE_FILE_H

#include "base/buffer.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct file_writer {
    int descriptor;          // -1 if closed
    char *path;              // final name
    char *temporary;         // name while writing
    unsigned char *pending;  // buffered bytes
    size_t pending_bytes;
    uint64_t written_bytes;  // bytes accepted, including pending ones
};

int file_create(struct file_writer *writer, const char *path);
int file_write(struct file_writer *writer, const void *bytes, size_t count);
// On success the file has its final name and is durable. The writer is closed, also on failure.
int file_commit(struct file_writer *writer);
// The two halves of file_commit, for files that belong together: finish all of them before the first is published.
int file_finish(struct file_writer *writer);   // all bytes are on disk under the temporary name; no more can be written
int file_publish(struct file_writer *writer);  // gives the finished file its name
// Publishes finished files that are useful only together. If one fails, those already published are removed again, so
// none of the names may belong to a file that is still wanted.
int file_publish_all(struct file_writer *writers, int count);
void file_abort(struct file_writer *writer);  // leaves nothing behind; safe on a zeroed or closed writer

// A temporary name for a new `path`, to be freed: PATH.tmp.HOST.PID.RANDOM. Names are unique except by an accident of 1
// in 2^32; so create the file with O_EXCL or mkdir.
char *file_temporary_name(const char *path);
enum file_temporary_owner {
    FILE_TEMPORARY_LIVE,  // another process may be working on it
    FILE_TEMPORARY_OWN,   // made by this process, or by a dead one with the same number
    FILE_TEMPORARY_DEAD,  // its process on this host is gone, or it has not been touched for a day
};
// Who made the file or folder whose name contains ".tmp."?
enum file_temporary_owner file_temporary_owner(const char *path);
// Length of the part of a name before .tmp.HOST.PID.RANDOM; 0 if the name is not exactly of this form. Only such names
// are ever removed as leftovers, since "NAME.tmp.old" may be a user's copy.
size_t file_temporary_stem(const char *name);

// Removes temporary files and folders of `path` left by dead processes; file_create does so too. Those that cannot be
// removed stay.
void file_sweep(const char *path);

// Checks an output name before the work starts: -1 if a file of that name exists that this program would not have
// written. An empty file may be replaced, and one whose first bytes `is_kind` recognises; else the error is "%s is not
// KIND". If is_kind is NULL, no file is replaced.
int file_check_output(const char *path, const char *kind, bool (*is_kind)(const char *begin, size_t length));

// Writes a whole small file at once, atomically.
int file_write_all(const char *path, const void *bytes, size_t count);
// Like file_write_all, but replaces a symbolic link of that name instead of following it: for files in folders that
// others may be able to write to.
int file_write_here(const char *path, const void *bytes, size_t count);
// Like file_write_all, but only the owner may read the file: mode 0600.
int file_write_private(const char *path, const void *bytes, size_t count);
// Reads a whole small file; more than limit_bytes is an error. A pipe is read too, but not waited for indefinitely.
int file_read_all(const char *path, size_t limit_bytes, struct buffer *out);
// Like file_read_all, for files that this program wrote and files in other people's folders: a pipe or a device of that
// name is an error.
int file_read_own(const char *path, size_t limit_bytes, struct buffer *out);

// Opens for reading without waiting for the other end of a pipe; returns a descriptor, to be closed.
struct stat;
int file_open_input(const char *path, struct stat *status);
// Waits until a pipe can be read, logs this after a while, and fails if nothing is written to it.
int file_await_pipe(int descriptor, const char *path);
// "a pipe (FIFO)", "a device", … by the mode of a struct stat.
const char *file_describe_kind(unsigned mode);

// Read and write until all bytes are there, in as many calls as that takes. Return how many bytes were moved: fewer at
// the end of a file, where errno is 0, and after an error, where errno says which.
size_t file_read_at(int descriptor, void *bytes, size_t count, uint64_t offset);
size_t file_write_at(int descriptor, const void *bytes, size_t count, uint64_t offset);
size_t file_put(int descriptor, const void *bytes, size_t count);  // where the descriptor stands

struct file_map {
    const unsigned char *data;  // NULL for an empty file
    size_t size;
};

int file_map_open(struct file_map *map, const char *path);
void file_map_close(struct file_map *map);
// Drops the pages within [begin, end) from this process's memory; they are read again when touched. For callers that
// walk through a file larger than memory.
void file_map_release(const struct file_map *map, size_t begin, size_t end);

bool file_exists(const char *path);
bool file_is_folder(const char *path);
bool file_is_empty_folder(const char *path);
bool file_is_regular(const char *path);  // opening anything else may block forever
int file_size(const char *path, uint64_t *size);
int file_make_folders(const char *path);            // mkdir -p; new folders are durable
int file_make_parent(const char *path);             // creates the folders above the file or prefix `path`
int file_remove_tree(const char *path);             // rm -rf; a missing path is not an error
int file_rename(const char *from, const char *to);  // also syncs the folder
int file_sync_folder(const char *path);
// fsync of a file of `bytes`, written to disk piece by piece. Each finished piece is a beat of the watchdog, so a huge
// file on a slow disk is not mistaken for a file system that hangs. Sets errno, but no message.
int file_sync(int descriptor, uint64_t bytes, uint64_t piece_bytes);
// Free bytes on the file system that holds path (or the nearest folder above it that exists).
int file_free_bytes(const char *path, uint64_t *bytes);
// Whether an open file or folder is on a file system local to this machine: tmpfs, ext4, XFS, overlay. Locks there are
// seen by every process that uses the file.
bool file_is_local(int descriptor);
// folder/name, to be freed.
char *file_join(const char *folder, const char *name);
bool file_is_in(const char *folder, const char *name);                                     // file_exists of file_join
int file_write_in(const char *folder, const char *name, const void *bytes, size_t count);  // file_write_all of it
// Whether two paths are the same text, apart from redundant "./" and slashes: ./a//b/ is a/b.
bool file_is_same_path(const char *a, const char *b);
// Whether two paths lead to the same file or folder, by their text or through links.
bool file_is_same(const char *a, const char *b);
// The folder that contains `path` ("." if it names none), to be freed.
char *file_parent(const char *path);

#endif
