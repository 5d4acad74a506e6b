// The report of a dry run, and the vocabulary of a planned one. See dry_run.h.
#include "train/dry_run.h"
#include "base/error.h"
#include "base/file.h"
#include "base/log.h"
#include "base/memory.h"
#include "model/census.h"
#include "plan/setup.h"
#include "recovery/memory_checkpoint.h"
#include "train/datasets.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

int dry_run_world(const struct config *config, int size) {
    int64_t least = config_least_ranks(config);
    if (size > 1 || least <= 1 || least > INT32_MAX)
        return size;
    log_info("note: one rank of the %" PRId64 " that one copy of the model needs is shown", least);
    return (int)least;
}

int dry_run_complete(struct config *config) {
    bool has_data = config->data.mock_data || config->data.data_path.count > 0 ||
                    config->data.train_data_path.count > 0 || config->data.data_args_path ||
                    config->data.per_split_data_args_path || config->data.train_weighted_split_paths.count > 0 ||
                    config->data.train_weighted_split_paths_path;
    int64_t padded = config->model.padded_vocab_size;
    if ((!config->model.preset && config->data.vocab_size == 0 && padded == 0) || has_data)
        return 0;
    TRY(config_choose(config, "--mock-data", "true"));
    if (config->run.micro_batch_size == 0)
        TRY(config_choose_number(config, "--micro-batch-size", 1));
    if (config->run.train_iters == 0 && config->run.train_samples == 0)
        TRY(config_choose_number(config, "--train-iters", 1));
    if (config->run.lr == 0)
        TRY(config_choose(config, "--lr", "1e-4"));
    bool has_tokenizer = config->data.tokenizer_type || config->data.vocab_file || config->data.tokenizer_model;
    if (config->data.vocab_size == 0 && !has_tokenizer)
        TRY(config_choose_number(config, "--vocab-size",
                                 (double)(padded > 0 ? padded : config_preset_vocabulary(config->model.preset))));
    OWNED_BY(buffer_free) struct buffer size = {0};
    if (config->data.vocab_size > 0)
        buffer_printf(&size, " and a vocabulary of %" PRId64 " tokens", config->data.vocab_size);
    log_info("note: no data is given; this is the model for micro-batches of %" PRId64 "%s",
             config->run.micro_batch_size, buffer_string(&size));
    return 0;
}

// The part after the layer number in "decoder.layers.7.mlp…"; NULL if the name has none.
static const char *behind_layer(const char *name) {
    const char *layers = strstr(name, ".layers.");
    return layers ? strchr(layers + strlen(".layers."), '.') : NULL;
}

// Whether two parameters are the same one in different layers of a stack.
static bool are_alike(const char *a, const char *b) {
    const char *rest_a = behind_layer(a), *rest_b = behind_layer(b);
    size_t stack = strcspn(a, ".");
    return rest_a && rest_b && strcmp(rest_a, rest_b) == 0 && strncmp(a, b, stack + 1) == 0;
}

// Number of parameters like number i, including itself; 0 if an earlier one is like it and stands for all of them.
static int64_t count_alike(const struct param_list *params, int i) {
    const char *name = params->items[i]->name;
    int64_t count = 1;
    for (int k = 0; k < params->count; k++) {
        bool has_same = params->items[i]->factors == params->items[k]->factors;
        if (k == i || !has_same || !are_alike(name, params->items[k]->name))
            continue;
        if (k < i)
            return 0;
        count++;
    }
    return count;
}

static void append_lengths(struct buffer *out, int rank, const int64_t *lengths) {
    for (int i = 0; i < rank; i++)
        buffer_printf(out, "%s%" PRId64, i == 0 ? "(" : ", ", lengths[i]);
    buffer_append_string(out, ")");
}

// The whole shape and, if ranks share the parameter, one rank's slice.
static void append_shape(const struct param *param, struct buffer *out) {
    const struct shard *shard = &param->shard;
    int64_t own[SHARD_MAX_RANK];
    for (int i = 0; i < shard->rank; i++)
        own[i] = shard_local_size(shard, i);
    append_lengths(out, shard->rank, shard->global);
    if (shard_local_count(shard) != shard_global_count(shard)) {
        buffer_append_string(out, " of which ");
        append_lengths(out, shard->rank, own);
    }
}

// All layers of a stack are alike, so the first one stands for all.
static void append_parameters(const struct step *step, struct buffer *out) {
    for (int i = 0; i < step_params(step)->count; i++) {
        const struct param *param = step_params(step)->items[i];
        int64_t layers = count_alike(step_params(step), i);
        if (layers == 0)
            continue;
        OWNED_BY(buffer_free) struct buffer shape = {0};
        append_shape(param, &shape);
        if (layers > 1)
            buffer_printf(out, "  %-56s %-*s × %" PRId64, param->name,
                          step_mesh(step)->length[AXIS_TENSOR] > 1 ? 44 : 18, buffer_string(&shape), layers);
        else
            buffer_printf(out, "  %-56s %s", param->name, buffer_string(&shape));
        struct param_factors factors = param_factors(step_params(step), param);
        if (param->factors > 0)
            buffer_printf(out, "  lr × %g, weight decay × %g", factors.lr, factors.decay);
        buffer_append_string(out, "\n");
    }
}

static int64_t held_parameters(const struct param_list *params) {
    int64_t count = 0;
    for (int i = 0; i < params->count; i++)
        count += tensor_count(params->items[i]->value);
    return count;
}

static void append_report(const struct step *step, const struct config *config, struct buffer *out) {
    append_parameters(step, out);
    int64_t parameters = census_parameters(config), held = held_parameters(step_params(step));
    buffer_printf(out, "number of parameters: %" PRId64 "\n", parameters);
    if (config->model.num_experts > 0)
        buffer_printf(out, "of which a token meets: %" PRId64 "\n", census_active_parameters(config));
    if (held != parameters)
        buffer_printf(out, "of which rank 0 holds: %" PRId64 "\n", held);
    buffer_append_string(out, step_mesh(step)->length[AXIS_PIPELINE] > 1 ? "memory of rank 0: " : "memory of a rank: ");
    setup_describe_memory(step_memory(step), out);
    buffer_append_string(out, "\n");
    if (step_memory(step)->total_kept > step_memory(step)->total)
        buffer_printf(out, "a GPU with enough memory keeps what would be computed twice: %.2f GB\n",
                      (double)step_memory(step)->total_kept / 1e9);
    if (config->run.checkpoint_in_memory)
        buffer_printf(out, "host memory of a rank for --checkpoint-in-memory: %.2f GB\n",
                      (double)memory_checkpoint_bytes(step, config) / 1e9);
}

// The stages of a pipeline hold different layers, and the first ones have more micro-batches in flight.
static int append_stages(const struct config *config, struct device *paper, struct mesh mesh, struct buffer *out) {
    int stages = mesh.length[AXIS_PIPELINE], largest = 0;
    size_t most = 0;
    for (int stage = 0; stages > 1 && stage < stages; stage++) {
        struct step *step;
        mesh.place[AXIS_PIPELINE] = stage;
        mesh.rank = mesh_rank_at(&mesh, mesh.place);
        TRY(setup_step(&step, &(struct setup){config, paper, &mesh, STEP_TRAIN}));
        buffer_printf(out, "stage %d of %d: a rank holds %" PRId64 " parameters, memory ", stage, stages,
                      held_parameters(step_params(step)));
        setup_describe_memory(step_memory(step), out);
        buffer_append_string(out, "\n");
        if (step_memory(step)->total > most) {
            most = step_memory(step)->total;
            largest = stage;
        }
        step_close(step);
    }
    if (stages > 1)
        buffer_printf(out, "ranks of stage %d need most memory: %.2f GB\n", largest, (double)most / 1e9);
    return 0;
}

// Opens a paper device; if the run would use this CPU, the device's own memory is counted too. *cpu must stay open, and
// may be NULL.
static int open_devices(const struct config *config, struct device **paper, struct device **cpu) {
    const struct device_options options = {.threads = 1, .cpu_kernels = config->machine.cpu_kernels};
    *cpu = NULL;
    if (!device_times_algorithms(config->machine.device))
        TRY(device_open(cpu, &options));
    return device_open_twin(paper, *cpu);
}

int dry_run_report(struct config *config, int world_size, struct buffer *out) {
    struct device *paper, *cpu;
    struct mesh mesh;
    struct step *step = NULL;
    const char *assumed_for;
    TRY(planned_vocabulary_set(config, &assumed_for));
    if (assumed_for)
        log_info("note: %s is not on this machine; assuming the published vocabulary, padded to %" PRId64
                 " tokens (--vocab-size changes it)",
                 assumed_for, config->model.padded_vocab_size);
    TRY(mesh_place_config(&mesh, 0, world_size, config));
    TRY(open_devices(config, &paper, &cpu));
    int status = setup_step(&step, &(struct setup){config, paper, &mesh, STEP_TRAIN});
    if (status == 0)
        append_report(step, config, out);
    if (status == 0)
        status = append_stages(config, paper, mesh, out);
    step_close(step);
    device_close(paper);
    device_close(cpu);
    return status;
}

// The bytes of a rank of one stage and, if too many, the flags that would help.
static int measure_stage(const struct setup *setup, size_t room, size_t *most, struct buffer *remedies) {
    struct step *step;
    TRY(setup_step(&step, setup));
    size_t total = step_memory(step)->total;
    step_close(step);
    if (total <= *most)
        return 0;
    *most = total;
    buffer_clear(remedies);
    if (total > room)
        memory_remedies(setup, total, room, remedies);
    return 0;
}

int dry_run_fit(struct config *config, int world_size, size_t room, struct buffer *out) {
    struct device *paper;
    struct mesh mesh;
    OWNED_BY(buffer_free) struct buffer remedies = {0};
    size_t most = 0;
    const char *assumed_for;
    TRY(planned_vocabulary_set(config, &assumed_for));
    TRY(mesh_place_config(&mesh, 0, world_size, config));
    TRY(device_open_twin(&paper, NULL));
    int status = 0;
    for (int stage = 0; status == 0 && stage < mesh.length[AXIS_PIPELINE]; stage++) {
        mesh.place[AXIS_PIPELINE] = stage;
        mesh.rank = mesh_rank_at(&mesh, mesh.place);
        status = measure_stage(&(struct setup){config, paper, &mesh, STEP_TRAIN}, room, &most, &remedies);
    }
    if (status == 0 && most > room)
        buffer_printf(out, "a rank needs %.2f GB and has %.2f GB%s%s", (double)most / 1e9, (double)room / 1e9,
                      remedies.length > 0 ? "; " : "", buffer_string(&remedies));
    device_close(paper);
    return status;
}

// The file of the tokenizer that this machine does not have; NULL if it has all that the flags name.
static const char *missing_file(const struct config *config) {
    const char *files[] = {config->data.vocab_file, config->data.merge_file, config->data.tokenizer_model};
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++)
        if (files[i] && !file_exists(files[i]))
            return files[i];
    return NULL;
}

// Published tokenizers, by their type: GPT-2's, Llama 2's, BERT's, and of fairseq RoBERTa's and the words of
// WikiText-103 with the mask. 0 if the type does not say.
static int64_t size_of_type(const struct config *config) {
    static const struct {
        const char *type;
        int64_t size;
    } types[] = {{"GPT2BPETokenizer", 50257},
                 {"Llama2Tokenizer", 32000},
                 {"BertWordPieceLowerCase", 30522},
                 {"BertWordPieceCase", 28996},
                 {"FairseqTokenizer", 50265}};
    if (config->data.published_size > 0)
        return config->data.published_size;
    const char *type = config->data.tokenizer_type ? config->data.tokenizer_type : types[0].type;
    if (strcmp(type, "FairseqTokenizer") == 0 && !config->data.vocab_file)
        return 267745;
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++)
        if (strcmp(type, types[i].type) == 0)
            return types[i].size;
    return 0;
}

// Of a published model, by the last part of its name at Hugging Face: deepseek-ai/DeepSeek-V3. 0 if it is none.
static int64_t size_of_name(const char *name) {
    static const struct {
        const char *name;
        int64_t size;
    } others[] = {{"t5-small", 32100}, {"mt5-base", 250100}};
    char preset[64] = "";
    const char *last = strrchr(name, '/') ? strrchr(name, '/') + 1 : name;
    for (size_t i = 0; last[i] && i + 1 < sizeof preset; i++)
        preset[i] = (char)tolower((unsigned char)last[i]);
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        if (strcmp(preset, others[i].name) == 0)
            return others[i].size;
    return config_preset_vocabulary(preset);
}

// The flags, the published tokenizer of this type, or that of the preset.
static int assume(struct config *config, const char *file) {
    if (config->data.vocab_size == 0 && config->model.padded_vocab_size > 0)
        return config_pad_vocab(config, config->model.padded_vocab_size);
    int64_t size = config->data.vocab_size > 0 ? config->data.vocab_size : size_of_type(config);
    if (size > 0 && size == config->data.published_size && config->data.extra_vocab_size >= 0)
        config->model.padded_vocab_size = size += config->data.extra_vocab_size;
    if (size == 0 && config->model.preset)
        size = config_preset_vocabulary(config->model.preset);
    if (size == 0)
        size = size_of_name(file);
    if (size == 0)
        return error_set_code(
            EXIT_CODE_USAGE,
            "%s is not on this machine, so the size of the vocabulary is unknown; give --vocab-size or "
            "--padded-vocab-size",
            file);
    return config_pad_vocab(config, size + config->data.vocab_extra_ids);
}

int planned_vocabulary_set(struct config *config, const char **assumed_for) {
    const char *missing = missing_file(config);
    *assumed_for = config->data.vocab_size > 0 || config->model.padded_vocab_size > 0 ? NULL : missing;
    if (missing)
        return assume(config, missing);
    struct tokenizer *tokenizer;
    TRY(datasets_open_tokenizer(&tokenizer, config));
    tokenizer_free(tokenizer);
    return 0;
}
