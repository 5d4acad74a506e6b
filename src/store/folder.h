// The names inside SAVE: iteration folders, the marker, and leftovers of killed saves.
#ifndef STORE_FOLDER_H
#define STORE_FOLDER_H

#include "base/buffer.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// "iter_" and at least seven digits, and nothing else; -1 for any other name.
int64_t folder_iteration(const char *name);

// That of a path whose last part is such a name, e.g. if the user named SAVE/iter_0000010 instead of SAVE; else -1.
int64_t folder_own_iteration(const char *path);

// The iterations that have a folder, in increasing order.
struct folder_list {
    int64_t *iterations;
    size_t count;
};
int folder_list_read(struct folder_list *list, const char *folder);
void folder_list_free(struct folder_list *list);

// The marker. Reading returns 1 and the iteration; 0 if there is no marker; -1, with a message, if its content is
// invalid.
int folder_marker_read(const char *folder, int64_t *iteration);
int folder_marker_write(const char *folder, int64_t iteration);
const char *folder_marker_name(void);
// The iteration in the text of a marker, which errors call `name`.
int folder_marker_parse(const struct buffer *text, const char *name, int64_t *iteration);
bool folder_marker_exists(const char *folder);

// If two renames had to replace an exchange and the process was killed between them, restores the folder's name.
void folder_restore(const char *folder);
// Whether an iter_… folder, or a leftover of one, holds only files that this program wrote, so that it may be removed.
// Otherwise *stranger, to be freed, names a file that it did not write.
bool folder_may_remove(const char *path, char **stranger);
// Removes iter_….tmp.HOST.PID.RANDOM folders and temporary markers left by killed saves on this host, and those of
// other hosts that are a day old.
int folder_remove_leftovers(const char *folder);
// Gives the folder `from` the name `to` in the same parent; a checkpoint of ours that had that name is removed, and
// anything else is renamed to TO.kept. On file systems that can exchange two names, a complete folder called `to`
// exists at every moment.
int folder_replace(const char *from, const char *to);
// Which older checkpoints a new one leaves in place.
struct retention {
    int64_t newest;           // iterations from this one on are not old
    int64_t keep_last;        // how many are left, including the newest; 0: all
    int64_t retain_interval;  // multiples of this are left; 0: none
    int64_t best;             // is left, and not counted; 0 for none
    int64_t replaced[2];      // are removed regardless of keep_last; 0 for none
    int64_t kept;             // counted by the calls
};
// Whether one is removed unless it is among the newest.
bool retention_may_remove(const struct retention *retention, int64_t iteration);
// Whether one is removed. Called for every checkpoint, in descending order of iterations.
bool retention_removes(struct retention *retention, int64_t iteration);

// Removes a checkpoint, renaming it first, so that a killed removal leaves a leftover and not half a checkpoint. Fails
// if it holds files that this program did not write. Returns 1, and removes nothing, if another process is reading it.
int folder_discard(const char *path);
// For reading a checkpoint while its run continues: keeps folder_discard from removing it until the descriptor that
// this returns is closed. -1, without an error, if it is not there or is being removed. On a file system without locks
// it only says that the checkpoint is there.
int folder_hold(const char *path);

#endif
