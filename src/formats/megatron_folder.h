// The files of a Megatron checkpoint, their tensors, and the arguments of the run. Internal to this folder.
#ifndef FORMATS_MEGATRON_FOLDER_H
#define FORMATS_MEGATRON_FOLDER_H

#include "base/file.h"
#include "config/config.h"
#include "formats/names.h"
#include "formats/torch_file.h"
#include "formats/weights.h"
#include <stddef.h>

struct model_source;
struct model_write;

// Names of Megatron's parameters, from its first releases to today's core models, and ours.

enum megatron_split {
    SPLIT_WHOLE,    // every tensor-parallel rank has it all
    SPLIT_ROWS,     // ranks have blocks of rows
    SPLIT_COLUMNS,  // ranks have blocks of columns
    SPLIT_QKV,      // rows, interleaved by head
    SPLIT_KV,       // the same for keys and values alone
    SPLIT_GATED,    // rows, in two halves per rank
};

// The stacks of a T5; other models only have the first.
enum { MEGATRON_FIRST, MEGATRON_DECODER, MEGATRON_STACKS };

// The context of a name: the form of its model, and the number of the first layer of each stack.
struct megatron_place {
    enum config_form form;
    int64_t first_layer[MEGATRON_STACKS];
};
struct megatron_found {
    char *ours;       // to be freed; NULL if the name is ignored or unknown
    bool is_ignored;  // it is known and not needed
    int64_t layer;    // its number in the file, -1 if it has none; `ours` has that plus first_layer
    int stack;
    int64_t expert;  // index in the file; -1 if it is not one expert's
    bool is_packed;  // all experts of the file in one matrix, each transposed (weight1 and weight2)
};
// Knows the heads of BERT and T5 too.
struct megatron_found megatron_name(const char *theirs, const struct megatron_place *place);
// Today's name of theirs for the part of ours after the layer, with the prefix `before`; to be freed. NULL if there is
// none.
char *megatron_their_part(const char *part, const char *before);
// How tensor-parallel ranks share a parameter of ours.
enum megatron_split megatron_split(const char *ours, bool is_gated);
// Changes the shape of a whole parameter into that of one rank's shard.
void megatron_shard_shape(enum megatron_split split, int64_t ranks, int64_t *shape);

// ---- the folder ----

// A tensor of a file. Their order in the file is that of the parameters of its optimizer.
struct megatron_entry {
    char *key;  // "TT/our name"; NULL for a copy under a name that is not read
    const struct torch_tensor *tensor;
    bool is_first;  // the first one with its name
    bool is_expert;
};
struct megatron_order {
    const struct torch_file *file;
    int expert_rank;  // files after the first do not list what all ranks have
    struct megatron_entry *entries;
    size_t count, capacity;
};

struct megatron_folder {
    char *path;                // iter_… or release, or the archive
    struct megatron_zip *zip;  // NULL for a folder
    int tensor_ranks, stages;  // tensor- and pipeline-parallel sizes
    int expert_ranks;          // expert-parallel size of the files
    double version;            // checkpoint_version: 0 if the file does not say
    int64_t iteration;
    enum config_form form;
    int64_t layers[MEGATRON_STACKS];
    struct weights weights;          // "TT/our name", TT the tensor-parallel rank; of one expert "TT/our name#E"
    const struct torch_value *args;  // of the first file; NULL if it has none
    // For the optimizer:
    struct megatron_order *orders;  // of every file, stage by stage; none for distributed checkpoints
    size_t order_count;
    struct weights states;        // "TT/STATE/our name"
    struct torch_tensor **views;  // parts of flat tensors that `states` refers to
    size_t view_count;
    const struct torch_value *common;          // the dict of the first file, or of common.pt
    const struct torch_file *common_file;      // where its tensors are
    const struct torch_value *inner, *scaler;  // the inner optimizer and the loss scale, if they are not in `common`
    int state_ranks;                           // tensor-parallel ranks of `states`
    bool needs_proof;          // places of states were inferred: fp32 copies must round to the parameters
    struct name_list unknown;  // tensors whose names are not known
};

// Possible names of a rank's file; NULL after the last.
extern const char *const megatron_file_names[];
// The --ckpt-format of an iter_… or release folder: "torch", "torch_dist", "zarr", "torch_dcp" or "fsdp_dtensor"; NULL
// if it is not Megatron's. Only the first two can be read.
const char *megatron_format(const char *path);
// Whether there is a checkpoint of any of these formats, in the folder itself or where its marker points; or the path
// is a zip archive of such a folder.
bool megatron_is_folder(const char *path);
// The iteration of the folder that megatron_open would read, by its name; -1 if it has none.
int64_t megatron_iteration(const char *path, int64_t step);
// step: -1 for the marker's.
int megatron_open(struct megatron_folder *folder, const char *path, int64_t step);
void megatron_close(struct megatron_folder *folder);  // safe on a zeroed one
// A shard of a parameter; NULL if there is none.
const struct weight *megatron_find(const struct megatron_folder *folder, int tensor_rank, const char *ours);
// A shard of a parameter's optimizer state, once megatron_open_optimizer has found it.
const struct weight *megatron_find_state(const struct megatron_folder *folder, int tensor_rank, const char *state,
                                         const char *ours);
// Sets the model's flags from the arguments, or without them from the tensors.
int megatron_read_config(const struct megatron_folder *folder, int64_t attention_heads, struct config *config);

// ---- writing ----

// common.pt of a distributed checkpoint: arguments, counters, schedules and parameter groups of the run.
int megatron_write_common(const struct model_write *write, const char *folder);
// The model's arguments, as members of an object in a pickle.
void megatron_put_arguments(struct buffer *out, const struct config *config);
// -1, with the differences, if these arguments would be read as those of another model.
int megatron_check_arguments(const struct config *config);

// ---- between the files of this reader ----

// Reads version, iteration and arguments from a dict that torch.save wrote.
void megatron_read_numbers(struct megatron_folder *folder, const struct torch_value *root);
// Takes ownership of a tensor: it is freed with the folder.
void megatron_keep_view(struct megatron_folder *folder, struct torch_tensor *view);
// Whether "TT/our name" is among the weights already. Parameters outside the layers may occur several times, all equal:
// the tied embedding on the first stage and the last, and parts of core's T5 under two names.
bool megatron_is_there(const struct megatron_folder *folder, const char *key);
// Reads folder->path, a distributed checkpoint (torch_dist), as if of a single rank.
int megatron_read_distributed(struct megatron_folder *folder);

// A zip archive with a Megatron checkpoint (format torch) in it, as in NVIDIA's catalogue (NGC):
// latest_checkpointed_iteration.txt and release/mp_rank_00/model_optim_rng.pt, perhaps in a folder. Compressed entries
// are unpacked into memory on first use.

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

// metadata.json of Megatron's distributed checkpoints, which names the formats of the folder:
//
//   {"sharded_backend": "torch_dist", "sharded_backend_version": 1, "common_backend": "torch", …_version: 1}
//
// Core 0.19 leaves the last two out. Megatron itself refuses any other member.

// *backend: "torch_dist" or "zarr". Content that no release writes is an error; `name` is the file's.
int megatron_metadata_parse(const char *text, size_t length, const char *name, const char **backend);
// Reads a folder's metadata.json; *backend is NULL if there is none.
int megatron_metadata_read(const char *folder, const char **backend);

// The optimizer: the moments and fp32 copies of parameters, and the run's progress.

// Fills folder->states. *is_there is false if the checkpoint has none; one that cannot be used is an error.
int megatron_open_optimizer(struct megatron_folder *folder, bool *is_there);
// Sets the run's counters, loss scale and schedules, as far as the checkpoint has them.
int megatron_read_progress(const struct megatron_folder *folder, struct model_source *source);

// Fails with the remedy for any state that cannot be used.
int megatron_refuse_optimizer(const struct megatron_folder *folder, const char *why);
// The optimizer in a file: its dict, or the first of two.
const struct torch_value *megatron_first_optimizer(const struct torch_value *root);
// The dict of the inner optimizer (param_groups and, unless they are elsewhere, states); NULL if there is none.
const struct torch_value *megatron_inner_optimizer(const struct torch_value *optimizer);
// A number, or a tensor of one; false if it is neither.
bool megatron_number(const struct torch_file *file, const struct torch_value *value, double *number);
// If experts are on several ranks, a file has two optimizers: of the shared parameters and of the experts.
enum { MEGATRON_SHARED, MEGATRON_EXPERTS, MEGATRON_OPTIMIZERS };
// Reads the states of the listed parameters from a rank's distributed optimizer (format torch). `which`: one of two
// optimizers; -1 if there is one.
int megatron_take_buffers(struct megatron_folder *folder, const struct megatron_order *order, int which);
// Reads states of a distributed checkpoint that are stored beside the parameters.
int megatron_open_model_space(struct megatron_folder *folder, bool *is_there);
// Reads states that are stored in buckets, which must exist.
int megatron_open_bucket_space(struct megatron_folder *folder);

#endif
