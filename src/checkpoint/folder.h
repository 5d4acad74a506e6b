// The names inside SAVE: iteration folders, the marker, and what killed saves leave behind. Internal to this folder.
#ifndef CHECKPOINT_FOLDER_H
#define CHECKPOINT_FOLDER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// "iter_" and at least seven digits, nothing else; -1 for any other name.
int64_t folder_iteration(const char *name);

// The iterations that have a folder, rising.
struct folder_list {
    int64_t *iterations;
    size_t count;
};
int folder_list_read(struct folder_list *list, const char *folder);
void folder_list_free(struct folder_list *list);

// The marker. Reading: 1 and the iteration; 0 where there is no marker; -1 with a message where it makes no sense.
int folder_marker_read(const char *folder, int64_t *iteration);
int folder_marker_write(const char *folder, int64_t iteration);
bool folder_marker_exists(const char *folder);

// Where two renames had to stand for an exchange and a kill came between them, puts the folder of the first back.
void folder_restore(const char *folder);
// Removes iter_*.tmp.* folders and temporary markers that saves of this host which were killed have left, and those of
// other hosts that are a day old.
int folder_remove_leftovers(const char *folder);
// Puts the folder `from` under the name `to`, both inside one folder; whatever had that name is removed. On file
// systems that can exchange two names there is no moment without a whole folder called `to`.
int folder_replace(const char *from, const char *to);
// Removes a checkpoint by renaming it first, so that a killed removal leaves a leftover and no half checkpoint.
int folder_discard(const char *path);

#endif
