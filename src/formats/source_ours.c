// Checkpoints of this program as a model source.
#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "base/log.h"
#include "base/memory.h"
#include "formats/hf_surroundings.h"
#include "formats/source_kind.h"
#include "optim/optimizer.h"
#include "store/convert.h"
#include "store/folder.h"
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct ours_detail {
    char *iteration_path;
    struct weights weights, optimizer;
    const struct weight **of_tensor;  // one per tensor
    int hold;                         // keeps a run in progress from removing the checkpoint; -1 for nothing
};

static int find_iteration(struct ours_detail *detail, const struct model_source_options *options) {
    if (file_is_in(options->path, "manifest.json")) {
        detail->iteration_path = memory_string(options->path);
        detail->hold = folder_hold(options->path);
        return checkpoint_verify(options->path, options->skip_checksums);
    }
    int64_t iteration = 0;
    struct checkpoint_find find = {.folder = options->path,
                                   .step = options->step,
                                   .skip_checksums = options->skip_checksums,
                                   .hold = &detail->hold};
    return checkpoint_find(&find, &detail->iteration_path, &iteration);
}

// The initialization of weights is not part of a model when loading, but Hugging Face's configuration has it too.
static int read_training(struct config *config, const struct json *root) {
    struct flag_table table = config_flag_table(0);
    const struct json *value = json_member(root, "init_method_std");
    return value && value->type == JSON_NUMBER
               ? flag_set(&table, config, "init_method_std", value->string, FLAG_FROM_FILE)
               : 0;
}

static int read_config(struct model_source *source, const char *path) {
    TRY(checkpoint_load_state(path, &source->state));
    if (!source->state.config_json)
        return error_set("%s has no config.json, so its model is unknown", path);
    OWNED struct json *root = NULL;
    TRY(json_parse(&root, source->state.config_json, strlen(source->state.config_json), path));
    TRY(config_from_json(&source->config, root));
    return read_training(&source->config, root);
}

static int match_weights(struct model_source *source) {
    struct ours_detail *detail = source->detail;
    struct source_problems problems = {0};
    detail->of_tensor = memory_alloc((source->count + 1) * sizeof detail->of_tensor[0]);
    for (size_t i = 0; i < source->count; i++) {
        struct source_tensor *tensor = &source->tensors[i];
        const struct weight *weight = weights_find(&detail->weights, tensor->name);
        if (!weight) {
            name_list_add(&problems.missing, tensor->name);
            continue;
        }
        if (!source_check_weight(&problems, weight, tensor->rank, tensor->shape))
            continue;
        tensor->dtype = weight->dtype;
        tensor->bytes = weight->bytes;
        detail->of_tensor[i] = weight;
    }
    return source_report(&problems, detail->iteration_path);
}

// A file that cannot be parsed is ignored: it only adds members that are not needed here.
static void read_foreign_config(struct model_source *source) {
    const char *path = hf_surroundings_config(&source->files);
    if (path && json_parse_own(&source->foreign_config, path, 16 << 20) < 0)
        error_clear();
    for (size_t i = 0; i < source->files.count; i++)
        if (source->files.items[i].path == path)
            source->has_foreign_tokenizer = strcmp(source->files.items[i].role, HF_ROLE) == 0;
}

static int open_source(struct model_source *source, const struct model_source_options *options) {
    struct ours_detail *detail = memory_alloc(sizeof *detail);
    source->detail = detail;
    detail->hold = -1;
    TRY(find_iteration(detail, options));
    TRY(read_config(source, detail->iteration_path));
    TRY(checkpoint_file_list_read(&source->files, detail->iteration_path));
    checkpoint_file_list_drop(&source->files, CHECKPOINT_ROLE_DATA);
    read_foreign_config(source);
    TRY(source_build(source));
    TRY(weights_open_checkpoint(&detail->weights, detail->iteration_path, "model"));
    return match_weights(source);
}

static int read_tensor(struct model_source *source, size_t i, void *to) {
    const struct ours_detail *detail = source->detail;
    return weight_read(detail->of_tensor[i], to);
}

// ---- the optimizer ----

// Reads the settings of training that matter when a run is resumed from a converted model.
static int read_schedules(struct model_source *source, const char *path) {
    OWNED struct json *root = NULL;
    struct config *config = &source->config;
    const struct {
        const char *name;
        double *value;
    } members[] = {{"adam_beta1", &config->run.adam_beta1},
                   {"adam_beta2", &config->run.adam_beta2},
                   {"adam_eps", &config->run.adam_eps},
                   {"clip_grad", &config->run.clip_grad}};
    TRY(json_parse(&root, source->state.config_json, strlen(source->state.config_json), path));
    config->run.use_checkpoint_opt_param_scheduler = true;
    int result = config_match_schedule(config, root, path);
    config->run.use_checkpoint_opt_param_scheduler = false;
    // Not taken if weight decay is constant, because nothing depends on it then.
    const struct json *schedule = json_member(root, "schedule"),
                      *steps = schedule ? json_member(schedule, "wd_incr_steps") : NULL;
    if (result == 0 && steps && steps->type == JSON_NUMBER)
        result = json_get_int(schedule, "wd_incr_steps", &config->run.wd_incr_steps);
    for (size_t i = 0; i < sizeof members / sizeof members[0] && result == 0; i++)
        if (json_member(root, members[i].name))
            result = json_get_double(root, members[i].name, members[i].value);
    return result;
}

static const struct weight *find_state(const struct model_source *source, size_t i, enum source_state state) {
    const struct ours_detail *detail = source->detail;
    OWNED char *name = memory_printf("%s.%s", source_state_names[state], source->tensors[i].name);
    return weights_find(&detail->optimizer, name);
}

static void note_average(const struct model_source *source) {
    const struct ours_detail *detail = source->detail;
    OWNED char *name = memory_printf(OPTIMIZER_AVERAGE ".%s", source->count > 0 ? source->tensors[0].name : "");
    if (weights_find(&detail->optimizer, name))
        log_warn("the moving average of %s is not converted; bevatron checkpoint average --ema exports it",
                 detail->iteration_path);
}

static int open_optimizer(struct model_source *source) {
    struct ours_detail *detail = source->detail;
    if (!checkpoint_has_part(detail->iteration_path, CHECKPOINT_OPTIMIZER))
        return 0;
    TRY(weights_open_checkpoint(&detail->optimizer, detail->iteration_path, "optimizer"));
    source->has_masters = source->count > 0 && find_state(source, 0, STATE_MASTER);
    for (size_t i = 0; i < source->count - source->biases; i++)
        for (int state = 0; state < (source->has_masters ? SOURCE_STATES : STATE_MASTER); state++) {
            const struct weight *weight = find_state(source, i, (enum source_state)state);
            const struct source_tensor *tensor = &source->tensors[i];
            bool is_float =
                weight && weight->is_readable && (weight->dtype == DTYPE_F32 || weight->dtype == DTYPE_BF16);
            if (!is_float || weight->bytes != tensor->bytes / dtype_bytes(tensor->dtype) * dtype_bytes(weight->dtype))
                return error_set("%s has no Adam optimizer for every parameter; give --weights-only to convert without "
                                 "it",
                                 detail->iteration_path);
        }
    source->has_optimizer = true;
    note_average(source);
    return read_schedules(source, detail->iteration_path);
}

// Converts bf16 moments to fp32, which is exact.
static int read_state(struct model_source *source, size_t i, enum source_state state, float *to) {
    const struct weight *weight = find_state(source, i, state);
    if (weight->dtype == DTYPE_F32)
        return weight_read(weight, to);
    OWNED unsigned char *narrow = memory_alloc(weight->bytes + 1);
    TRY(weight_read(weight, narrow));
    convert_elements(&(struct convert){.to = to,
                                       .to_dtype = DTYPE_F32,
                                       .from = narrow,
                                       .from_dtype = weight->dtype,
                                       .count = weight->bytes / dtype_bytes(weight->dtype)});
    return 0;
}

static void close_source(struct model_source *source) {
    OWNED struct ours_detail *detail = source->detail;
    if (!detail)
        return;
    weights_close(&detail->optimizer);
    weights_close(&detail->weights);
    if (detail->hold >= 0)
        close(detail->hold);
    free(detail->of_tensor);
    free(detail->iteration_path);
}

const struct model_source_kind source_ours = {
    .name = "bevatron",
    .open = open_source,
    .read = read_tensor,
    .close = close_source,
    .open_optimizer = open_optimizer,
    .read_state = read_state,
};
