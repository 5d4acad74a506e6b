// A zip archive with a Megatron checkpoint (format torch) in it, as in NVIDIA's catalogue (NGC):
// latest_checkpointed_iteration.txt and release/mp_rank_00/model_optim_rng.pt, perhaps in a folder. Compressed entries
// are unpacked into memory on first use. Internal to this folder.
#ifndef FORMATS_MEGATRON_ZIP_H
#define FORMATS_MEGATRON_ZIP_H

#include "base/file.h"
#include "formats/torch_zip.h"

struct megatron_zip {
    char *path;  // of the archive; owned
    struct file_map map;
    struct torch_zip zip;
    char *inside;              // folder of the checkpoint in it, without a trailing slash; owned
    unsigned char **unpacked;  // owned
    size_t unpacked_count;
};

// Whether the file is such an archive.
bool megatron_zip_is(const char *path);
// step: -1 for the marker's, or the only checkpoint.
int megatron_zip_open(struct megatron_zip *zip, const char *path, int64_t step);
void megatron_zip_close(struct megatron_zip *zip);  // safe on a zeroed one
// The file of a rank; stage -1 is the name without stages. NULL if there is none.
const struct torch_zip_entry *megatron_zip_rank(const struct megatron_zip *zip, int tensor_rank, int stage);
// The entry's bytes, valid until the archive is closed.
int megatron_zip_bytes(struct megatron_zip *zip, const struct torch_zip_entry *entry, const unsigned char **bytes);

#endif
