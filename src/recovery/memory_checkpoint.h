// Checkpoints in host memory (--checkpoint-in-memory): every few iterations each rank copies its own state, as it is
// stored on its device, to memory that a launcher keeps (store/vault.h). Ranks that are started again after one of
// them has died resume from there within seconds, with the same bits. Checkpoints on disk stay the last resort: for
// other failures, other layouts of ranks, and machines that are lost.
//
// All ranks keep the same iterations, and at any moment two ranks are at most one checkpoint apart, because every
// iteration has a collective of all ranks. So of the two that each of them keeps one is always common to all.
#ifndef RECOVERY_MEMORY_CHECKPOINT_H
#define RECOVERY_MEMORY_CHECKPOINT_H

#include "base/buffer.h"
#include "store/vault.h"
#include "config/config.h"
#include "recovery/memory_copies.h"
#include "recovery/progress.h"
#include "step/step.h"

struct memory_checkpoint {
    const struct config *config;
    int64_t (*latest_on_disk)(const struct config *config);
    struct step *step;
    struct vault *vault;
    struct vault_region region;
    struct memory_copies copies;  // copies of other ranks' checkpoints, on several nodes
    struct tensor *tensors;       // of the step's state, see step_list_state
    int tensor_count;
    size_t text_room;  // bytes for the configuration
    void *piece;       // page-locked memory between a GPU and the region; NULL if it is not needed
    bool is_resumed;   // the run was resumed from it
    int64_t saved;     // checkpoints since the start
    double seconds;    // that they took
};

struct memory_checkpoint_options {
    const struct config *config;
    struct step *step;
    const struct buffer *identity;                           // of the run's data: JSON, on the first rank
    int64_t (*latest_on_disk)(const struct config *config);  // iteration, -1 for none; the first rank is asked
    const char *path;                                        // of the launcher's memory; NULL if there is none
};
// Does nothing without --checkpoint-in-memory; the other functions then do nothing either. All ranks call: -1 on all of
// them if one has no room.
int memory_checkpoint_open(struct memory_checkpoint *memory, const struct memory_checkpoint_options *options);
void memory_checkpoint_close(struct memory_checkpoint *memory);  // says what they cost; safe on a zeroed one

// The newest iteration that all ranks hold undamaged and that is not older than the checkpoint on disk; -1 if there is
// none. All ranks call.
int64_t memory_checkpoint_find(struct memory_checkpoint *memory);
// Sets the step and *at to those of an iteration that was found, and the schedules of the configuration. What ranks
// hold of later iterations is dropped. Signals no longer cut the start short: what is in memory only must be saved.
int memory_checkpoint_load(struct memory_checkpoint *memory, int64_t iteration, struct config *config,
                           struct progress_state *at);
// Drops the checkpoints: the run starts from something else.
void memory_checkpoint_forget(struct memory_checkpoint *memory);

bool memory_checkpoint_is_due(const struct memory_checkpoint *memory, int64_t iteration);
// All results of the step must be known.
void memory_checkpoint_save(struct memory_checkpoint *memory, const struct progress_state *at);

// Host memory taken by a rank's checkpoints.
size_t memory_checkpoint_bytes(const struct step *step, const struct config *config);

#endif
