// The common part of all kinds of model folders. See model_source.h.
#include "formats/model_source.h"

#include "base/error.h"
#include "base/file.h"
#include "base/file_patience.h"
#include "base/memory.h"
#include "formats/gguf.h"
#include "formats/source_kind.h"
#include "model/census.h"
#include "net/hub.h"
#include "store/convert.h"
#include "store/gather.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

const struct model_source_kind *const source_kinds[] = {
    [CONTENTS_OURS] = &source_ours,         [CONTENTS_HUGGINGFACE] = &source_huggingface,
    [CONTENTS_MEGATRON] = &source_megatron, [CONTENTS_LLMC] = &source_llmc,
    [CONTENTS_FAIRSEQ] = &source_fairseq,
};

// Default length of a sample: one as long as today's models have positions would not fit the memory of users who only
// inspect a model.
enum { MOST_TOKENS = 4096 };

static int refuse(const char *path) {
    if (!file_exists(path)) {
        error_set_code(EXIT_CODE_NO_CHECKPOINT, "there is no model %s; check the path", path);
        return hub_suggest(path, HUB_MODEL);
    }
    if (gguf_is_file(path))
        return error_set_code(EXIT_CODE_NO_CHECKPOINT,
                              "%s is a GGUF file, which is only written: its tensors may have lost bits; give the "
                              "model that it was made from",
                              path);
    return error_set_code(
        EXIT_CODE_NO_CHECKPOINT,
        "%s is not a readable model: found no iter_…/manifest.json, config.json with a model_type (Hugging Face), "
        "mp_rank_00/model_optim_rng.pt or .metadata (Megatron-LM; a zip archive of the former), llm.c file, or RoBERTa "
        "of fairseq",
        path);
}

static int open_source(struct model_source *source, const struct model_source_options *options) {
    struct contents contents;
    *source = (struct model_source){.path = memory_string(options->path), .leaves_depths = options->leaves_depths};
    config_defaults(&source->config);
    int result = contents_look(&contents, options->path, options->step);
    if (result == 0 && contents.kind == CONTENTS_NONE)
        result = refuse(options->path);
    if (result == 0) {
        source->of = source_kinds[contents.kind];
        source->kind = source->of->name;
        result = source->of->open(source, options);
    }
    if (result < 0)
        model_source_close(source);
    return result;
}

int model_source_open(struct model_source *source, const struct model_source_options *options) {
    FILE_PATIENCE();
    return file_answer(open_source(source, options));
}

void model_source_close(struct model_source *source) {
    if (source->of)
        source->of->close(source);
    config_free(&source->config);
    param_list_free(&source->params);
    checkpoint_state_free(&source->state);
    checkpoint_file_list_free(&source->files);
    json_free(source->foreign_config);
    buffer_free(&source->notes);
    buffer_free(&source->left);
    free(source->tensors);
    free(source->path);
    *source = (struct model_source){0};
}

int model_source_read(struct model_source *source, size_t i, void *to) {
    CHECK(i < source->count);
    return source->of->read(source, i, to);
}

const char *const source_state_names[SOURCE_STATES] = {"exp_avg", "exp_avg_sq", "master"};

int model_source_open_optimizer(struct model_source *source) {
    return source->of->open_optimizer ? source->of->open_optimizer(source) : 0;
}

int model_source_read_state(struct model_source *source, size_t i, enum source_state state, float *to) {
    CHECK(i < source->count && source->has_optimizer && (state != STATE_MASTER || source->has_masters));
    return source->of->read_state(source, i, state, to);
}

// Biases that balance experts belong to a model but are not parameters. Returns their number.
size_t source_declare_biases(const struct config *config, struct param_list *params) {
    int before = params->count;
    if (config->model.num_experts == 0 || !config->model.moe_router_enable_expert_bias)
        return 0;
    OWNED bool *has_experts = config_list_expert_layers(&config->model);
    int64_t depths = config_routed_layers(&config->model) - config_expert_layers(&config->model),
            L = config->model.num_layers;
    for (int64_t layer = 0; layer < L + depths; layer++) {
        if (layer < L && !has_experts[layer])
            continue;
        OWNED char *name =
            layer < L ? memory_printf("decoder.layers.%" PRId64 "%s", layer, MODEL_EXPERT_BIAS)
                      : memory_printf("mtp.layers.%" PRId64 ".transformer_layer%s", layer - L, MODEL_EXPERT_BIAS);
        (void)param_add(params, name, shard_whole(1, config->model.num_experts, 1), INIT_ZERO, 0);
    }
    return (size_t)(params->count - before);
}

bool model_is_bias_of_experts(const char *name) {
    return name_ends(name, MODEL_EXPERT_BIAS);
}

int source_build(struct model_source *source) {
    struct config *config = &source->config;
    if (config->run.seq_length == 0 && config->model.max_position_embeddings > 0)
        config->run.seq_length =
            config->model.max_position_embeddings < MOST_TOKENS ? config->model.max_position_embeddings : MOST_TOKENS;
    if (!config->data.tokenizer_type && config->data.vocab_size == 0)
        config->data.vocab_size = config->model.padded_vocab_size;
    config->model.mtp_num_layers = source->leaves_depths ? 0 : config->model.mtp_num_layers;
    TRY(config_validate_for(config, 1, CONFIG_GENERATE));
    if (config->model.padded_vocab_size <= 0)
        return error_set("the size of the vocabulary is unknown");
    census_declare(config, &source->params);
    source->biases = source_declare_biases(config, &source->params);
    source->count = (size_t)source->params.count;
    source->tensors = memory_alloc((source->count + 1) * sizeof source->tensors[0]);
    for (size_t i = 0; i < source->count; i++) {
        const struct param *param = source->params.items[i];
        struct source_tensor *tensor = &source->tensors[i];
        *tensor = (struct source_tensor){.name = param->name, .rank = param->shard.rank};
        memcpy(tensor->shape, param->shard.global, sizeof tensor->shape);
    }
    return 0;
}

static bool check_weight(struct source_problems *problems, const struct weight *weight, bool has_type, int rank,
                         const int64_t *shape) {
    char theirs[128];
    weight_describe(weight, theirs, sizeof theirs);
    OWNED_BY(buffer_free) struct buffer note = {0};
    bool has_shape = weight->rank == rank && memcmp(weight->shape, shape, (size_t)rank * sizeof shape[0]) == 0;
    buffer_printf(&note, "%.200s is %s", weight->name, theirs);
    for (int i = 0; i < rank && has_type; i++)
        buffer_printf(&note, "%s%" PRId64, i > 0 ? ", " : " and not (", shape[i]);
    buffer_append_string(&note, has_type ? ")" : "");
    if (!has_type)
        name_list_add(&problems->mistyped, buffer_string(&note));
    else if (!has_shape)
        name_list_add(&problems->misshaped, buffer_string(&note));
    return has_type && has_shape;
}

bool source_check_weight(struct source_problems *problems, const struct weight *weight, int rank,
                         const int64_t *shape) {
    bool is_float = weight->is_readable && convert_is_possible(weight->dtype, DTYPE_F32);
    return check_weight(problems, weight, is_float, rank, shape);
}

bool source_check_bytes(struct source_problems *problems, const struct weight *weight, int rank, const int64_t *shape) {
    return check_weight(problems, weight, weight->is_readable && weight->dtype == DTYPE_U8, rank, shape);
}

void source_problems_free(struct source_problems *problems) {
    name_list_free(&problems->missing);
    name_list_free(&problems->extra);
    name_list_free(&problems->misshaped);
    name_list_free(&problems->mistyped);
    name_list_free(&problems->mixed);
}

int source_report(struct source_problems *problems, const char *path) {
    OWNED_BY(buffer_free) struct buffer text = {0};
    name_list_describe(&problems->missing, "tensors are missing", &text);
    name_list_describe(&problems->extra, "tensors that this model does not have", &text);
    name_list_describe(&problems->misshaped, "tensors have another shape than the configuration says", &text);
    name_list_describe(&problems->mistyped, "tensors are neither fp32, bf16 nor fp16", &text);
    name_list_describe(&problems->mixed, "tensors have another type than those they are joined with", &text);
    int result = text.length > 0 ? error_set("%s does not hold this model: %s", path, buffer_string(&text)) : 0;
    source_problems_free(problems);
    return result;
}

// ---- loading onto a device ----

int64_t model_source_find(const struct model_source *source, const char *name) {
    for (size_t i = 0; i < source->count; i++)
        if (strcmp(source->tensors[i].name, name) == 0)
            return (int64_t)i;
    return -1;
}

static int load_one(struct model_source *source, struct stage *stage, const struct checkpoint_tensor *wanted) {
    int64_t i = model_source_find(source, wanted->name);
    if (i < 0)
        return error_set("%s: tensor \"%s\" of this model is missing", source->path, wanted->name);
    const struct source_tensor *tensor = &source->tensors[i];
    char ours[128];
    tensor_describe(wanted->tensor, ours, sizeof ours);
    int64_t shape[TENSOR_MAX_RANK];
    if (tensor->rank != gather_shape(wanted, shape) ||
        memcmp(tensor->shape, shape, (size_t)tensor->rank * sizeof shape[0]) != 0)
        return error_set("%s: tensor \"%s\" has another shape than %s of this model; leave out the model's flags and "
                         "give --use-checkpoint-args",
                         source->path, wanted->name, ours);
    struct safetensors_tensor bytes = {.name = tensor->name, .dtype = tensor->dtype, .rank = tensor->rank};
    OWNED void *memory = memory_alloc(tensor->bytes + 1);
    int result = model_source_read(source, (size_t)i, memory);
    bytes.data = memory;
    bytes.bytes = tensor->bytes;
    if (result == 0)
        result = gather_take(stage, wanted, &bytes);
    stage_end(stage);  // the memory is freed next
    return result;
}

int model_source_load(struct model_source *source, struct device *device, const struct checkpoint_tensor *tensors,
                      size_t count, bool is_partial) {
    struct stage stage = {.device = device};
    if (count != source->count && !is_partial)
        return error_set(
            "%s has %zu tensors and this model %zu; leave out the model's flags and give --use-checkpoint-args",
            source->path, source->count, count);
    for (size_t i = 0; i < count; i++)
        TRY(load_one(source, &stage, &tensors[i]));
    return 0;
}
