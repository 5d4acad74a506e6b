// Saves the checkpoints of a run, either while training waits or (--async-save) in the background while it goes on.
// At most one checkpoint is being written at any time. All ranks call every function, except where it says otherwise.
#ifndef TRAIN_SAVER_H
#define TRAIN_SAVER_H

#include "report/report.h"
#include "train/state.h"

struct saver {
    const struct config *config;
    const struct mesh *mesh;
    struct step *step;
    struct report *report;       // NULL except on the reporting rank
    int64_t iteration;           // of the last checkpoint saved since this start; -1 if there is none
    struct checkpoint_job *job;  // the checkpoint being written in the background, or NULL
};

// Saves the state of the run, unless this iteration is saved already or --save is not given. A background save that is
// still being written is finished first.
int saver_save(struct saver *saver, const struct progress_state *at);
// Moves a background save to its next stage if every rank has completed the current one; never waits for files.
int saver_advance(struct saver *saver);
// Waits for the background save, if there is one, and makes its checkpoint the latest.
int saver_finish(struct saver *saver);
// After the run has failed: keeps the checkpoint that was being written if every rank knows of the failure and can
// help to finish it, and drops it otherwise. The error that is set stays set.
void saver_abandon(struct saver *saver);

#endif
