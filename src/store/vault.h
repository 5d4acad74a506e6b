// Memory for checkpoints that outlives the ranks. A process that is not one of them, e.g. the supervisor of `launch
// local`, creates a vault and holds it; ranks open it by its path and keep their state in it. When ranks die, the next
// ones find their state there. The memory is freed when the holder and the ranks are gone, however they end.
//
// A vault has a region for every rank, and a region has two slots, which are written in turn. A slot counts only once
// it is complete, and its content is checked against a hash, so a rank that dies while it writes leaves the slot before
// it. Layout, in native byte order, because nothing is read on another machine or by another program:
//
//   0                  struct vault_head
//   (1 + rank) * 1 TiB struct vault_page: what the region is for, and its slots
//   + 64 KiB           slot 0, then slot 1, each rounded up to 64 KiB
//
// The file is sparse: only what is written takes memory.
#ifndef STORE_VAULT_H
#define STORE_VAULT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { VAULT_SLOTS = 2, VAULT_MOST_RANKS = 1 << 16 };

// ---- The holder's side ----

struct vault;

struct vault *vault_create(int ranks);  // NULL after error_set
// The path by which ranks open it, valid while this process lives.
const char *vault_path(const struct vault *vault);
// The newest iteration that all ranks claim to have, -1 if there is none. Contents are not verified.
int64_t vault_newest(const struct vault *vault);
void vault_clear(const struct vault *vault);  // frees its memory; only while no rank has mapped a region
void vault_close(struct vault *vault);        // either side; NULL is fine

// ---- A rank's side ----

int vault_open(struct vault **vault, const char *path);
// A random number that no other vault has.
uint64_t vault_id(const struct vault *vault);
// A number that the ranks store in it, initially 0.
int64_t vault_generation(const struct vault *vault);
void vault_set_generation(const struct vault *vault, int64_t generation);

struct vault_region {
    struct vault_page *page;
    size_t bytes;   // of a slot
    size_t mapped;  // of the whole region
    int writing;    // the slot between vault_begin and vault_commit
};
struct vault_request {
    int rank;
    size_t bytes;          // of one checkpoint
    uint64_t fingerprint;  // of all settings that a checkpoint must share with the run that uses it
};
// Whether the region already holds memory for this request, so that taking it needs no more.
bool vault_has(const struct vault *vault, const struct vault_request *request);
// The result of vault_claims if the region were taken; all -1 if it does not match the request.
void vault_peek(const struct vault *vault, const struct vault_request *request, int64_t claims[VAULT_SLOTS]);
// Frees the memory of a region that no process has mapped.
void vault_free_region(const struct vault *vault, int rank);
// Maps the rank's region. Keeps checkpoints of the same request, drops others, and allocates memory for new ones.
int vault_take(const struct vault *vault, struct vault_region *region, const struct vault_request *request);
void vault_release(struct vault_region *region);  // keeps its content; safe on a zeroed one

// Returns memory for the next checkpoint, `bytes` long: the slot that was written first, which no longer counts. It
// counts again, as this iteration, after vault_commit.
void *vault_begin(struct vault_region *region);
void vault_commit(struct vault_region *region, int64_t iteration);

// The iterations that the slots claim to hold, -1 for none.
void vault_claims(const struct vault_region *region, int64_t claims[VAULT_SLOTS]);
// The newest iteration that is in every row of a table (ranks, VAULT_SLOTS) of claims; -1 if there is none.
int64_t vault_common(const int64_t *claims, int ranks);
// The content of an iteration, verified; NULL if there is none or it is damaged. If both slots have it, the one written
// last counts.
const void *vault_find(const struct vault_region *region, int64_t iteration);
void vault_drop(struct vault_region *region, int64_t iteration);
// Drops later iterations: the run continues after this one, and would take them for its own.
void vault_drop_after(struct vault_region *region, int64_t iteration);
void vault_drop_all(struct vault_region *region);

#endif
