// The optimizer of a Megatron checkpoint: the moments and fp32 copies of parameters, and the run's progress. Internal
// to this folder.
#ifndef FORMATS_MEGATRON_OPTIMIZER_H
#define FORMATS_MEGATRON_OPTIMIZER_H

#include "formats/megatron_folder.h"
#include "formats/model_source.h"

// Fills folder->states. *is_there is false if the checkpoint has none; one that cannot be used is an error.
int megatron_open_optimizer(struct megatron_folder *folder, bool *is_there);
// Sets the run's counters, loss scale and schedules, as far as the checkpoint has them.
int megatron_read_progress(const struct megatron_folder *folder, struct model_source *source);

// ---- between the files of this reader ----

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
