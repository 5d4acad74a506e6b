// Copies of checkpoints in host memory on a second node, so that they survive the loss of a machine. Ranks whose memory
// is held by one process (a vault, see store/vault.h) are a node. Every rank sends each checkpoint to a rank of
// the next node, which keeps it beside its own. They are sent by the collectives of the run, like any tensor.
//
// A copy is written like a checkpoint: it counts once it is complete. Every iteration has a collective of all ranks, so
// a rank writes its next checkpoint only after its last one has arrived.
#ifndef RECOVERY_MEMORY_COPIES_H
#define RECOVERY_MEMORY_COPIES_H

#include "ops/device.h"
#include "parallel/mesh.h"
#include "store/vault.h"

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

#endif
