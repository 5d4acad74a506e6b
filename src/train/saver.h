// Saves the checkpoints of a run, either while training waits or (--async-save) in the background while it continues.
// At most one checkpoint is being written at any time. All ranks call every function, except where it says otherwise.
//
// A save that fails does not end the run: full disks get freed again. What it has written is removed, earlier
// checkpoints stay, and --save-fallback, if given, gets the checkpoint instead. Otherwise training continues, and the
// save is tried again, with the state of that moment, see recovery/time_limits.h. The run ends with the error if that
// does not help for --save-retry-minutes, or if the last save fails for --last-save-minutes. Every rank knows whether a
// save has failed, and the first one decides what follows, by its clock.
#ifndef TRAIN_SAVER_H
#define TRAIN_SAVER_H

#include "base/file_lock.h"
#include "config/config.h"
#include "parallel/mesh.h"
#include "recovery/time_limits.h"
#include "report/report.h"
#include "train/state.h"

// ---- the folder ----

// The folder of --save and that of --save-fallback, before training: that they are this run's to write to, and that no
// other run is writing to them.

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

// A checkpoint that neither the user nor the end of the run asks for (--save-minutes, --keep-best) is passing: the next
// one replaces it, unless it is the best, which the next best one replaces. best.json in the folder names the best one
// and its loss, so that a run that resumes knows them.
struct saver_best {
    int64_t iteration;  // 0 for none
    double loss;        // of validation
    bool is_passing;
};

struct saver {
    const struct config *config;
    const struct mesh *mesh;
    struct step *step;
    struct report *report;         // NULL except on the reporting rank
    struct remote_copier *copier;  // of --save-to, on the first rank; NULL otherwise
    const struct checkpoint_file_list *kept;
    struct save_folder *place;   // NULL: its lock is not looked at
    bool loads_copy;             // see struct trainer_options
    int64_t iteration;           // of the last checkpoint saved since this start; -1 if there is none
    int64_t kept_iteration;      // up to which the run is in a checkpoint; at first where it started
    struct checkpoint_job *job;  // the checkpoint being written in the background, or NULL
    const char *folder;          // that it, or the last checkpoint, was written to
    double started, seconds;     // when the last checkpoint was begun, and how long the last complete one took
    int64_t unmarked[2];         // in --save and --save-fallback, see struct checkpoint_save
    bool is_failing;             // the last save failed
    bool is_unmarked;            // the run went back to its start, and markers still name what it gave up
    bool is_fallback_next;       // it was one to --save, and the fallback has not been tried since
    struct save_retry retry;     // by the clock of each rank; that of the first counts
    bool is_passing;             // the checkpoint that is being saved, or was saved last
    int64_t passing;             // the iteration of the one before that the next one replaces; 0 for none
    struct saver_best best;      // with --keep-best, the one that is saved
    struct saver_best better;    // the lowest loss since, not saved yet; iteration 0 for none
    double last_time;            // when the last save of the run was first tried; 0: not yet
};

// Before training: fails if a save would, see state_check_save. With --save-fallback, only the fallback must work. If
// may_wait, a check that fails counts as a save that fails: the run has iterations that are in host memory only, and
// ending it would lose them.
int saver_check(struct saver *saver, struct progress_state *at, bool may_wait);
// A run that was done when it was loaded has nothing new to save where its checkpoint came from.
void saver_leave_done(struct saver *saver, const struct progress_state *at);
// Saves the state of the run, unless this iteration is saved already, --save is not given, or the last save failed:
// then saver_retry is to be called when it is due. A background save that is still being written is finished first.
int saver_save(struct saver *saver, struct progress_state *at);
// saver_save for a passing checkpoint.
int saver_save_passing(struct saver *saver, struct progress_state *at);
// With --keep-best, after an evaluation: if its loss is the lowest so far, the checkpoint of this iteration is the best
// one, as soon as it is saved; `better` tells.
void saver_judge(struct saver *saver, int64_t iteration, double loss);
// Whether a save that failed is to be tried again now.
bool saver_retry_is_due(const struct saver *saver);
int saver_retry(struct saver *saver, struct progress_state *at);
// Saves the state at the end of the run and waits until it is the latest checkpoint, unless it is already.
int saver_save_last(struct saver *saver, struct progress_state *at);
// Moves a background save to its next stage if every rank has completed the current one; never waits for files. Without
// one, once per log interval, the first rank fails if another run has taken the folder meanwhile.
int saver_advance(struct saver *saver, int64_t iteration);
// Waits for a background save, if there is one, and makes its checkpoint the latest.
int saver_wait(struct saver *saver);
// The run went back to a checkpoint in this folder, or to its start (NULL), and stands at *at. If it has checkpoints of
// what it gave up, its start is saved: a restart would take one of them. The copies of --save-to follow.
int saver_go_back(struct saver *saver, struct progress_state *at, const char *from);
// After the run has failed: keeps the checkpoint that was being written if every rank knows of the failure and can
// help to finish it, and drops it otherwise. The error that is set stays set.
void saver_abandon(struct saver *saver);

// With --save-to: checks the address and starts to copy. Checkpoints that are complete are copied from then on.
int saver_start_copies(struct saver *saver);
// Waits until the last checkpoint is copied; -1 on every rank if it could not be.
int saver_finish_copies(struct saver *saver);

#endif
