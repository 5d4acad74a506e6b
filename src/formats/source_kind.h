// The functions of each kind of folder for a struct model_source. Internal to this folder.
#ifndef FORMATS_SOURCE_KIND_H
#define FORMATS_SOURCE_KIND_H

#include "formats/contents.h"
#include "formats/model_source.h"
#include "formats/names.h"
#include "formats/weights.h"

struct model_source_kind {
    const char *name;
    bool (*is_folder)(const char *path);  // NULL for our own, see contents.h
    // Sets config, state, files and detail; calls source_build and fills the tensors.
    int (*open)(struct model_source *source, const struct model_source_options *options);
    int (*read)(struct model_source *source, size_t i, void *to);
    void (*close)(struct model_source *source);  // detail
    // For kinds whose folders may have an optimizer; else both NULL. See model_source_open_optimizer.
    int (*open_optimizer)(struct model_source *source);
    int (*read_state)(struct model_source *source, size_t i, enum source_state state, float *to);
};

extern const struct model_source_kind source_ours, source_huggingface, source_megatron, source_llmc, source_fairseq;
extern const struct model_source_kind *const source_kinds[];  // by enum contents_kind

// Validates the config and lists the parameters of its model, with shapes; dtypes are still to be set.
int source_build(struct model_source *source);
// Adds the biases that balance experts, which are not parameters. Returns their number.
size_t source_declare_biases(const struct config *config, struct param_list *params);

// Problems with tensors, reported together.
struct source_problems {
    struct name_list missing, extra, misshaped, mistyped;
    struct name_list mixed;  // differ in type from those they are joined with
};
int source_report(struct source_problems *problems, const char *path);  // 0 if there are none; frees them
void source_problems_free(struct source_problems *problems);
// Notes a tensor that is not a float or has another shape; true if it is fine.
bool source_check_weight(struct source_problems *problems, const struct weight *weight, int rank, const int64_t *shape);
// source_check_weight for a tensor of bytes.
bool source_check_bytes(struct source_problems *problems, const struct weight *weight, int rank, const int64_t *shape);

#endif
