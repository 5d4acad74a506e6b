// A model of tests/golden/models (made by transformers, see make_models.py, or by make_mtp.py) opened as a step: the
// flags in the file's metadata give the config, the file's weights are copied, its samples are the micro-batches.
#ifndef TESTS_TRAIN_GOLDEN_MODEL_H
#define TESTS_TRAIN_GOLDEN_MODEL_H

#include "base/memory.h"
#include "model/census.h"
#include "plan/setup.h"
#include "store/safetensors.h"
#include "test.h"
#include "words.h"

enum { GOLDEN_STEPS = 10 };

struct golden_model {
    const char *name;
    struct safetensors file;
    struct config config;
    struct device *device;
    struct world *world;
    struct step *step;
    int64_t next;  // sample of the next micro-batch
};

static const char *const golden_families[] = {
    "gpt2",       "gpt2_erf",     "opt",       "llama1",        "llama2",      "llama3",    "mistral", "qwen2",
    "nemotron",   "qwen3",        "bert",      "megatron_bert", "roberta",     "t5",        "t5_v1_1", "opt_narrow",
    "llama_yarn", "llama_biases", "bert_tanh", "umt5",          "gpt_neox",    "granite",   "smollm3", "gemma",
    "mixtral",    "qwen3_moe",    "glm4_moe",  "glm4_moe_bias", "phi",         "qwen2_moe", "olmo2",   "windows",
    "gemma2",     "gemma3",       "mtp",       "mtp_moe",       "mtp_megatron"};
enum { GOLDEN_FAMILIES = sizeof golden_families / sizeof golden_families[0] };

static inline const struct safetensors_tensor *golden_find(const struct golden_model *g, const char *prefix,
                                                           const char *name) {
    char *full = memory_printf("%s%s", prefix, name);
    const struct safetensors_tensor *found = safetensors_find(&g->file, full);
    if (!found)
        test_fail("%s has no %s", g->name, full);
    free(full);
    return found;
}

static inline float golden_float(const struct golden_model *g, const char *name, int64_t index) {
    float value;
    memcpy(&value, golden_find(g, "", name)->data + sizeof value * (size_t)index, sizeof value);
    return value;
}

// Row `row` of an array of samples, NULL if the family has none.
static inline void *golden_row(const struct golden_model *g, const char *name, int64_t row) {
    char *full = memory_printf("data.%s", name);
    const struct safetensors_tensor *found = safetensors_find(&g->file, full);
    free(full);
    if (!found)
        return NULL;
    return (void *)(found->data + found->bytes / (size_t)found->shape[0] * (size_t)row);
}

static inline void golden_parse(struct golden_model *g, const char *more) {
    char *line = memory_printf("train %s --lr 2e-3 --adam-beta2 0.95 --weight-decay 0.1 --train-iters 10 --mock-data "
                               "--vocab-size 37 %s",
                               safetensors_metadata(&g->file, "flags"), more);
    struct string_list words = {0};
    split_words(&words, line);
    EXPECT_OK(config_parse(&g->config, (int)words.count, words.items));
    EXPECT_OK(config_validate_for(&g->config, 1, CONFIG_TRAIN));
    string_list_free(&words);
    free(line);
}

// The bias of routers that the run of the file began with, if it has any; biases after each step follow it.
static inline void golden_take_bias(const struct golden_model *g) {
    const struct safetensors_tensor *path = safetensors_find(&g->file, "expert_bias");
    for (int64_t l = 0; path && l < path->shape[1]; l++) {
        struct tensor bias = step_expert_bias(g->step, l);
        EXPECT_INT(path->shape[2], tensor_count(bias));
        device_copy_in(g->device, bias, path->data + tensor_bytes(bias) * (size_t)l);
    }
    device_synchronize(g->device);
}

// `more` are flags in addition to those of the file.
static inline void golden_open(struct golden_model *g, const char *name, const char *more, enum step_mode mode,
                               int threads) {
    *g = (struct golden_model){.name = name};
    char *path = memory_printf("tests/golden/models/%s.safetensors", name);
    EXPECT_OK(safetensors_open(&g->file, path));
    free(path);
    golden_parse(g, more);
    struct mesh mesh;
    EXPECT_OK(
        device_open(&g->device, &(struct device_options){.name = threads > 0 ? "cpu" : "cuda", .threads = threads}));
    EXPECT_OK(world_open(&g->world, &(struct world_options){.backend = "self"}, g->device));
    EXPECT_OK(mesh_place(&mesh, 0, 1, NULL));
    EXPECT_OK(mesh_connect(&mesh, g->world));
    EXPECT_OK(setup_step(&g->step, &(struct setup){&g->config, g->device, &mesh, mode}));
    struct config counted = g->config;
    counted.model.mtp_num_layers =
        mode == STEP_GENERATE ? 0 : g->config.model.mtp_num_layers;  // which is left out then
    EXPECT_INT(param_list_elements(step_params(g->step)), census_parameters(&counted));
    if (mode == STEP_TRAIN)
        step_initialize(g->step);
    for (int i = 0; i < step_params(g->step)->count; i++) {
        const struct param *param = step_params(g->step)->items[i];
        const struct safetensors_tensor *value = golden_find(g, "param.", param->name);
        struct tensor target = param_in(param, step_weights_target(g->step));
        EXPECT_INT(value->bytes, tensor_bytes(target));
        EXPECT_INT(value->rank, target.rank);
        EXPECT_INT(value->shape[0], target.shape[0]);
        device_copy_in(g->device, target, value->data);
    }
    step_accept_weights(g->step);
    golden_take_bias(g);
}

static inline void golden_close(struct golden_model *g) {
    step_close(g->step);
    world_close(g->world);
    device_close(g->device);
    safetensors_close(&g->file);
    config_free(&g->config);
}

static inline int golden_next(void *context, struct batch *input) {
    struct golden_model *g = context;
    static int64_t samples[64];
    int64_t B = g->config.run.micro_batch_size, first = g->next;
    for (int64_t b = 0; b < B; b++)
        samples[b] = first + b;
    *input = (struct batch){.B = B,
                            .T = g->config.run.seq_length,
                            .S = g->config.run.decoder_seq_length,
                            .tokens = golden_row(g, "tokens", first),
                            .labels = golden_row(g, "labels", first),
                            .loss_mask = golden_row(g, "mask", first),
                            .token_types = golden_row(g, "types", first),
                            .lengths = golden_row(g, "lengths", first),
                            .decoder_tokens = golden_row(g, "decoder_tokens", first),
                            .context_tokens = golden_row(g, "context_tokens", first),
                            .context_lengths = golden_row(g, "context_lengths", first),
                            .pair_labels = golden_row(g, "pair_labels", first),
                            .samples = samples};
    g->next += B;
    return 0;
}

static inline struct step_source golden_source(struct golden_model *g) {
    return (struct step_source){.next = golden_next, .context = g, .count = 1};
}

// ||actual - expected|| / ||expected||, in double; actual is fp32 on the device.
static inline double golden_error(const struct golden_model *g, struct tensor actual,
                                  const struct safetensors_tensor *expected) {
    int64_t count = tensor_count(actual);
    EXPECT_INT(expected->bytes, sizeof(float) * (size_t)count);
    float *values = memory_alloc(sizeof(float) * (size_t)count);
    device_copy_out(g->device, values, actual);
    double difference = 0, norm = 0;
    for (int64_t i = 0; i < count; i++) {
        float want;
        memcpy(&want, expected->data + sizeof want * (size_t)i, sizeof want);
        difference += ((double)values[i] - (double)want) * ((double)values[i] - (double)want);
        norm += (double)want * (double)want;
    }
    free(values);
    return sqrt(difference) / sqrt(norm > 0 ? norm : 1);
}

#endif
