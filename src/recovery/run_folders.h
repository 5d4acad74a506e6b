// The folders that the checkpoints of a run are in: --save and, if given, --save-fallback. A restart takes the one that
// the higher of their markers names, so a run that goes back must move both.
#ifndef RECOVERY_RUN_FOLDERS_H
#define RECOVERY_RUN_FOLDERS_H

#include "config/config.h"
#include "parallel/mesh.h"
#include "store/checkpoint.h"

enum { RUN_FOLDERS = 2 };

struct run_folder {
    const char *path;   // NULL for none
    const char *flag;   // that named it
    int64_t most;       // of the next search: no later iteration
    int64_t iteration;  // that the last search found; -1 for none
};
void run_folders_open(struct run_folder folders[RUN_FOLDERS], const struct config *config, int64_t most);
// The place of the folder with the newest checkpoint that is verified and accepted, see struct checkpoint_wish; -1 if
// there is none, and CHECKPOINT_UNREAD with a message if that cannot be told. If both have it, --save counts.
int run_folders_search(struct run_folder folders[RUN_FOLDERS], const struct checkpoint_wish *wish);

// The latest iteration of the run by the markers, or else by the names of folders; -1 if it has no checkpoint.
int64_t run_folders_latest(const struct config *config);
// The run continues from this iteration in `chosen`, one of its folders: makes that the latest, also where the other
// folder has later ones.
int run_folders_point(const struct config *config, const char *chosen, int64_t iteration);

// ---- after replicas were found to differ ----

// After replicas were found to differ: the run is to be resumed from a checkpoint whose replicas were verified. Those
// of other checkpoints may contain the fault.

// If the error that is set says that replicas differ (EXIT_CODE_CORRUPT), makes the newest verified checkpoint of
// --save and --save-fallback the latest one, which a restart loads. All ranks call, since all of them know. The error
// stays set.
void run_folders_point_to_verified(const struct config *config, const struct mesh *mesh);

#endif
