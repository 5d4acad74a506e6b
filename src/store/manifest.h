// manifest.json: the files of a checkpoint, each with its size, its SHA-256 and what it holds. It is written last in
// its folder, so a folder without a valid one is not a checkpoint. A part ("model", "optimizer") may be spread over
// several files; a reader looks for a tensor in those files of the part that may have it.
//
//   {"format": "bevatron-checkpoint", "version": 2, "iteration": 10,
//    "files": [{"name": "model.safetensors", "holds": "model", "bytes": 1234, "sha256": "…",
//               "sums": ["0123456789ab", …], "tensors": ["ba9876543210", …]}, …]}
//
// "tensors" are the first 48 bits of the SHA-256 of each tensor's name, in the order of their bytes in the file. Each
// of thousands of ranks opens only the files it needs, and the manifest stays small. The sums of a safetensors file are
// running sums at the end of its header and of each of its tensors, in the order of their bytes (see sha256_marks). If
// a file is damaged, they tell which tensor is the first damaged one.
//
// A manifest has the lowest version that covers its members, so that older programs read what they can: version 2 added
// "tensors".
#ifndef STORE_MANIFEST_H
#define STORE_MANIFEST_H

#include "base/buffer.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { MANIFEST_OLDEST = 1, MANIFEST_TENSORS = 2, MANIFEST_VERSION = MANIFEST_TENSORS };

struct manifest_file {
    char *name;   // a plain name inside the folder
    char *holds;  // "model", "optimizer", "state", "config", "file"
    uint64_t bytes;
    char sha256[65];
    uint64_t *sums;  // owned; NULL in older programs' manifests, or if the file holds no tensors
    size_t sum_count;
    uint64_t *tensors;  // owned; manifest_name_hash of each tensor; NULL if they are not known
    size_t tensor_count;
};

struct manifest {
    int64_t iteration;
    struct manifest_file *files;
    size_t count;
};

// Takes ownership of the strings. A zeroed manifest is an empty one.
void manifest_add(struct manifest *manifest, struct manifest_file file);
void manifest_free(struct manifest *manifest);

int manifest_write(const struct manifest *manifest, const char *folder);
// Whether a folder that is not an iteration of ours has weight files of Hugging Face or torch.
bool manifest_has_foreign_weights(const char *folder);
// Reads the manifest and checks everything that can be checked without touching the files.
int manifest_read(struct manifest *manifest, const char *folder);
// manifest_read for a manifest's text, which errors call `name`.
int manifest_parse(struct manifest *manifest, const struct buffer *text, const char *name);
enum { MANIFEST_MOST_BYTES = 64 << 20 };
uint64_t manifest_name_hash(const char *name);
// Checks that every file is there with its size and, unless skipped, its SHA-256. If several processes share the work,
// each checks its own files, assigned by size.
struct manifest_proof {
    bool skip_checksums;
    int self, size;  // index and number of processes; {0, 1} for one alone
};
int manifest_verify(const struct manifest *manifest, const char *folder, const struct manifest_proof *proof);
// A number that distinguishes manifests, 0 or more.
int64_t manifest_digest(const struct manifest *manifest);

#endif
