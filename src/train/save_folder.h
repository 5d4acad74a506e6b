// The folder of --save and that of --save-fallback, before training: that they are this run's to write to, and that no
// other run is writing to them.
#ifndef TRAIN_SAVE_FOLDER_H
#define TRAIN_SAVE_FOLDER_H

#include "base/file_lock.h"
#include "config/config.h"
#include "parallel/mesh.h"

struct save_folder {
    struct file_lock lock, fallback;  // of the first rank
};

// Fails, with a remedy, if the folder holds a checkpoint of another program or of another run (one that --load does not
// continue), if nothing can be written to it, or if another process holds its lock. A run that was stopped or killed
// and starts again with --load of the same folder passes: its lock went with its process. If the holder's machine died,
// the server of a shared file system may keep the lock for a while, so the lock of another machine is waited for, and
// the exit code then allows another attempt. Only the first rank does anything.
int save_folder_open(struct save_folder *folder, const struct config *config, const struct mesh *mesh);
// Before a checkpoint gets its name: fails with EXIT_CODE_USAGE if another run has the folder by now, because the lock
// file was removed. Only on the first rank.
int save_folder_keep(struct save_folder *folder);
// save_folder_keep between checkpoints: if the lock cannot be made again, the next save tries again.
int save_folder_watch(struct save_folder *folder);
// Checks the owner of the folder, without a lock and without writing: for a launcher whose run starts later.
int save_folder_check(const struct config *config);
void save_folder_close(struct save_folder *folder);  // safe on a zeroed one

#endif
