// A lock that a process holds on a folder until it releases it or dies, however it dies; alone, or shared by all
// processes that use the folder, to keep out those that would remove it. It is flock(2) on a small file that names the
// holder. Linux carries such locks to the server on NFS, and Lustre does so if it is mounted with "flock"; with
// "localflock", and on file systems that lock per machine, only processes of one machine see each other; if there are
// no locks, no process is kept out. The file may remain after a kill: by itself it means nothing.
#ifndef BASE_FILE_LOCK_H
#define BASE_FILE_LOCK_H

#include "base/buffer.h"
#include <stdbool.h>

struct file_lock {
    char *path;  // NULL if nothing is held
    int descriptor;
};

enum file_lock_result {
    FILE_LOCK_HELD,     // by this process
    FILE_LOCK_TAKEN,    // by another process
    FILE_LOCK_ABSENT,   // the file system has no locks; the file was created nevertheless
    FILE_LOCK_RENEWED,  // the file was gone; recreated and locked by this process
};

// Holder of a lock, as recorded in its file.
struct file_lock_holder {
    char host[65];  // "" if unknown
    long process;
    bool is_here;    // on this machine, and not in a container of its own
    bool is_ending;  // here, and about to end or gone already: it will release the lock soon
};

// Tries once, without waiting. Returns an enum file_lock_result, or -1 if the file cannot be created.
int file_lock_try(struct file_lock *lock, const char *path);
// Like file_lock_try, for a lock that several processes may hold at once.
int file_lock_share(struct file_lock *lock, const char *path);
// Shares the lock until this process ends. The file stays, and its modification time tells when it was last used; a
// process with only read permission shares the lock of an existing file.
int file_lock_keep(const char *path);
// Checks that the file of a held lock has not been removed, which would let another process take the lock, too. Returns
// FILE_LOCK_HELD if the file is still there, FILE_LOCK_RENEWED, FILE_LOCK_TAKEN, or -1 if it cannot be created again.
int file_lock_renew(struct file_lock *lock);
void file_lock_holder(struct file_lock_holder *holder, const char *path);
// Releases the lock, and removes the file unless others share the lock; safe on a zeroed lock.
void file_lock_release(struct file_lock *lock);

#endif
