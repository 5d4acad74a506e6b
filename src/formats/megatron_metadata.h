// metadata.json of Megatron's distributed checkpoints, which names the formats of the folder:
//
//   {"sharded_backend": "torch_dist", "sharded_backend_version": 1, "common_backend": "torch", …_version: 1}
//
// Core 0.19 leaves the last two out. Megatron itself refuses any other member. Internal to this folder.
#ifndef FORMATS_MEGATRON_METADATA_H
#define FORMATS_MEGATRON_METADATA_H

#include <stddef.h>

// *backend: "torch_dist" or "zarr". Content that no release writes is an error; `name` is the file's.
int megatron_metadata_parse(const char *text, size_t length, const char *name, const char **backend);
// Reads a folder's metadata.json; *backend is NULL if there is none.
int megatron_metadata_read(const char *folder, const char **backend);

#endif
