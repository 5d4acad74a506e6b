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
#include "config/config.h"
#include "ops/device.h"
#include "parallel/mesh.h"
#include "recovery/progress.h"
#include "step/step.h"
#include "store/vault.h"

// ---- copies on other nodes ----

// Copies of checkpoints in host memory on a second node, so that they survive the loss of a machine. Ranks whose memory
// is held by one process (a vault, see store/vault.h) are a node. Every rank sends each checkpoint to a rank of
// the next node, which keeps it beside its own. They are sent by the collectives of the run, like any tensor.
//
// A copy is written like a checkpoint: it counts once it is complete. Every iteration has a collective of all ranks, so
// a rank writes its next checkpoint only after its last one has arrived.

// Sent by every rank to all: its vault, the vault's generation, and its request.
enum { COPY_VAULT, COPY_GENERATION, COPY_BYTES, COPY_FINGERPRINT, COPY_NUMBERS };

struct memory_copies {
    const struct mesh *mesh;
    struct device *device;
    const struct vault *vault;
    int64_t *numbers;              // (ranks, COPY_NUMBERS)
    int *keepers;                  // (ranks): the rank that keeps copies of each, -1 for none
    int *kept;                     // the ranks whose copies this one keeps
    struct vault_region *regions;  // theirs, in this rank's vault
    int kept_count;
    int nodes;
    unsigned char *out, *in;  // on the device: for one chunk, and for one from each of them
};

// Assigns the keeper of each rank's copy, given all ranks' vaults: the rank at the same place in the next node. All are
// -1 if there is one node. Returns the number of nodes.
int memory_copies_assign(const int64_t *vaults, int ranks, int *keepers);

// Lets the ranks tell each other their requests. A vault that took no part in the last start, e.g. of a node that comes
// back, is emptied: what it holds may have the number of an iteration that was computed again since, after other
// batches. All ranks call, before any of them takes a region.
void memory_copies_meet(struct memory_copies *copies, const struct mesh *mesh, const struct vault *vault,
                        const struct vault_request *request);
// Bytes of host memory that this rank must still take for other ranks' checkpoints.
size_t memory_copies_needed(const struct memory_copies *copies);
int memory_copies_open(struct memory_copies *copies, struct device *device);
void memory_copies_close(struct memory_copies *copies);  // safe on a zeroed one

// Sends the content of this rank's checkpoint of an iteration and keeps those of others. All ranks call.
void memory_copies_exchange(struct memory_copies *copies, const void *content, int64_t iteration);
// Ranks that have no checkpoint in their own vault get one from a rank that has a copy; then vaults drop what they no
// longer have to keep. Returns how many ranks got one. All ranks call, after memory_copies_open.
int memory_copies_recover(struct memory_copies *copies, struct vault_region *own);
// Drops the copies of later iterations that this rank keeps.
void memory_copies_drop_after(struct memory_copies *copies, int64_t iteration);
// Drops all copies that this rank keeps.
void memory_copies_forget(struct memory_copies *copies);

// ---- checkpoints ----

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
