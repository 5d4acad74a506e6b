// manifest.json: which files make up a checkpoint, each with its size, its SHA-256 and what it holds. It is written
// last in its folder, so a folder without a valid one is no checkpoint. A part ("model", "optimizer") may be spread
// over several files; a reader looks for a tensor in all that hold the part.
//
//   {"format": "bevatron-checkpoint", "version": 1, "iteration": 10,
//    "files": [{"name": "model.safetensors", "holds": "model", "bytes": 1234, "sha256": "…"}, …]}
#ifndef CHECKPOINT_MANIFEST_H
#define CHECKPOINT_MANIFEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { MANIFEST_VERSION = 1 };

struct manifest_file {
    char *name;   // a plain name inside the folder
    char *holds;  // "model", "optimizer", "state", "config", "file"
    uint64_t bytes;
    char sha256[65];
};

struct manifest {
    int64_t iteration;
    struct manifest_file *files;
    size_t count;
};

// Takes the strings over. A zeroed manifest is an empty one.
void manifest_add(struct manifest *manifest, struct manifest_file file);
void manifest_free(struct manifest *manifest);

int manifest_write(const struct manifest *manifest, const char *folder);
// Reads and checks everything that can be checked without touching the files.
int manifest_read(struct manifest *manifest, const char *folder);
// Every file is there with its size and, unless skipped, its SHA-256.
int manifest_verify(const struct manifest *manifest, const char *folder, bool skip_checksums);

#endif
