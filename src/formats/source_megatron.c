// Checkpoints of Megatron-LM as a model source: joins the shards of tensor-parallel ranks, and reorders the rows of
// packed queries, keys and values, whose order changed twice, into ours: all queries, all keys, all values.
//
//   version 0          (3, heads, channels)
//   version 1          (heads, channels, 3)
//   version 2 and 3    (groups, queries of the group + key + value, channels)
//
// T5's keys and values of the memory are packed in the same way, without queries.
#include "base/error.h"
#include "base/memory.h"
#include "formats/hf_surroundings.h"
#include "formats/megatron_folder.h"
#include "formats/source_kind.h"
#include "store/convert.h"
#include <stdlib.h>
#include <string.h>

// The part of our tensor that is stored separately: all of it or, of experts, the matrix of one.
struct stored_part {
    char *name;
    int rank;
    int64_t shape[SHARD_MAX_RANK];
    enum megatron_split split;
};

// Whether the matrices of experts are stored one by one. Distributed checkpoints store a layer's in one tensor.
static bool is_apart(const struct model_source *source, size_t i) {
    const char *name = source->tensors[i].name;
    return strstr(name, ".mlp.experts.") && !megatron_find(source->detail, 0, name);
}

static int64_t part_count(const struct model_source *source, size_t i) {
    return is_apart(source, i) ? source->tensors[i].shape[0] : 1;
}

static struct stored_part part_of(const struct model_source *source, size_t i, int64_t k) {
    const struct source_tensor *tensor = &source->tensors[i];
    int skipped = is_apart(source, i) ? 1 : 0;
    bool is_whole = strstr(tensor->name, ".mlp.experts.") && !skipped;
    struct stored_part part = {.rank = tensor->rank - skipped};
    part.name = skipped ? memory_printf("%s#%lld", tensor->name, (long long)k) : memory_string(tensor->name);
    part.split = is_whole ? SPLIT_WHOLE : megatron_split(tensor->name, config_is_gated(&source->config.model));
    memcpy(part.shape, tensor->shape + skipped, (size_t)part.rank * sizeof part.shape[0]);
    return part;
}

static size_t part_elements(const struct stored_part *part) {
    size_t count = 1;
    for (int i = 0; i < part->rank; i++)
        count *= (size_t)part->shape[i];
    return count;
}

// Checks the number of our rows (or columns) in a rank's shard.
static void check_part(const struct model_source *source, size_t i, const struct stored_part *part, int rank,
                       struct source_problems *problems) {
    const struct megatron_folder *folder = source->detail;
    struct source_tensor *tensor = &source->tensors[i];
    const struct weight *weight = megatron_find(folder, rank, part->name);
    if (!weight) {
        OWNED char *name = memory_printf("%s of rank %d", part->name, rank);
        name_list_add(&problems->missing, name);
        return;
    }
    int64_t shape[SHARD_MAX_RANK];
    memcpy(shape, part->shape, sizeof shape);
    megatron_shard_shape(part->split, folder->tensor_ranks, shape);
    source_check_weight(problems, weight, part->rank, shape);
    if (tensor->bytes > 0 && weight->dtype != tensor->dtype)
        name_list_add(&problems->mixed, weight->name);
    tensor->dtype = weight->dtype;
    size_t count = 1;
    for (int k = 0; k < tensor->rank; k++)
        count *= (size_t)tensor->shape[k];
    tensor->bytes = count * dtype_bytes(tensor->dtype);
}

static void check_shards(const struct model_source *source, size_t i, struct source_problems *problems) {
    const struct megatron_folder *folder = source->detail;
    int64_t count = part_count(source, i);
    for (int64_t k = 0; k < count; k++) {
        struct stored_part part = part_of(source, i, k);
        for (int rank = 0; rank < folder->tensor_ranks; rank++)
            check_part(source, i, &part, rank, problems);
        free(part.name);
    }
}

// Everything in the files must be a parameter of the model. The output layer of a tied model is its embedding again.
static void find_extra(const struct model_source *source, struct source_problems *problems) {
    const struct megatron_folder *folder = source->detail;
    for (size_t i = 0; i < folder->weights.count; i++) {
        const char *name = strchr(folder->weights.items[i].name, '/') + 1;
        size_t length = strcspn(name, "#");  // without an expert's number
        bool is_expert = !name[length] || strtoll(name + length + 1, NULL, 10) < source->config.model.num_experts;
        bool is_known = strcmp(name, "output_layer.weight") == 0 ||
                        (source->leaves_depths && strncmp(name, "mtp.", strlen("mtp.")) == 0);
        for (size_t k = 0; k < source->count && !is_known && is_expert; k++)
            is_known = strncmp(source->tensors[k].name, name, length) == 0 && !source->tensors[k].name[length];
        if (!is_known)
            name_list_add(&problems->extra, name);
    }
    for (size_t i = 0; i < folder->unknown.count; i++)
        name_list_add(&problems->extra, i < NAME_LIST_KEPT ? folder->unknown.names[i] : "");
}

// Ranks have whole groups or, if there are more ranks, equal parts of the rows of all groups. T5 packs a memory's keys
// and values by themselves, which are read by whole heads only.
static bool can_split_groups(const struct model_source *source, int64_t ranks) {
    const struct megatron_folder *folder = source->detail;
    int64_t groups = config_query_groups(&source->config.model);
    int64_t rows = (source->config.model.num_attention_heads + 2 * groups) * source->config.model.kv_channels;
    return groups % ranks == 0 ||
           (ranks % groups == 0 && rows % ranks == 0 && folder->version >= 2 && folder->form != CONFIG_T5);
}

static int check_groups(const struct model_source *source) {
    const struct megatron_folder *folder = source->detail;
    int64_t groups = config_query_groups(&source->config.model);
    if (!can_split_groups(source, folder->tensor_ranks))
        return error_set(
            "%s: %lld query groups over %d tensor-parallel ranks are not supported; save it in Megatron-LM "
            "with a --tensor-model-parallel-size that divides the groups, e.g. 1",
            folder->path, (long long)groups, folder->tensor_ranks);
    if (folder->version < 2 && groups != source->config.model.num_attention_heads)
        return error_set("%s: checkpoint version %g has no grouped-query attention", folder->path, folder->version);
    return 0;
}

// The tokenizer's files were on another machine; if some are missing here, or the arguments do not name them, the size
// of the vocabulary has to suffice.
static void take_tokenizer(struct model_source *source) {
    struct config *config = &source->config;
    char **files[] = {&config->data.vocab_file, &config->data.merge_file, &config->data.tokenizer_model};
    static const char *const roles[] = {"vocab-file", "merge-file", "tokenizer-model"};
    bool is_lost = false, is_named = false;
    for (size_t i = 0; i < 3; i++) {
        is_named = is_named || *files[i];
        if (*files[i] && file_exists(*files[i]))
            hf_surroundings_add_tokenizer(&source->files, roles[i], *files[i]);
        else if (*files[i])
            is_lost = true;
    }
    bool needs_none = config->data.tokenizer_type && strcmp(config->data.tokenizer_type, "NullTokenizer") == 0 &&
                      config->data.vocab_size > 0;
    if (!is_lost && (is_named || needs_none))
        return;
    for (size_t i = 0; i < 3; i++) {
        free(*files[i]);
        *files[i] = NULL;
    }
    free(config->data.tokenizer_type);
    config->data.tokenizer_type = NULL;
    checkpoint_file_list_free(&source->files);
}

static int open_source(struct model_source *source, const struct model_source_options *options) {
    struct megatron_folder *folder = memory_alloc(sizeof *folder);
    source->detail = folder;
    TRY(megatron_open(folder, options->path, options->step));
    if (megatron_read_config(folder, options->attention_heads, &source->config) < 0)
        return error_context("cannot use %s", folder->path);
    source->state.iteration = folder->iteration;
    const struct torch_value *consumed = torch_get(folder->args, "consumed_train_samples");
    if (consumed && consumed->type == TORCH_INT && consumed->integer > 0)
        source->state.consumed_train_samples = consumed->integer;
    take_tokenizer(source);
    TRY(source_build(source));
    TRY(check_groups(source));
    struct source_problems problems = {0};
    for (size_t i = 0; i < source->count; i++)
        check_shards(source, i, &problems);
    find_extra(source, &problems);
    return source_report(&problems, folder->path);
}

// ---- putting shards together ----

struct gathering {
    const struct model_source *source;
    const struct megatron_folder *folder;
    const struct stored_part *part;
    const unsigned char *shard;  // this rank's, row-major
    int rank, ranks;
    size_t row_bytes;  // our row; for a shard of columns its part
    unsigned char *to;
};

static void copy_rows(const struct gathering *g, int64_t to, int64_t from, int64_t count) {
    memcpy(g->to + (size_t)to * g->row_bytes, g->shard + (size_t)from * g->row_bytes, (size_t)count * g->row_bytes);
}

static void gather_columns(const struct gathering *g) {
    size_t part = g->row_bytes / (size_t)g->ranks;
    for (int64_t row = 0; row < g->part->shape[0]; row++)
        memcpy(g->to + (size_t)row * g->row_bytes + (size_t)g->rank * part, g->shard + (size_t)row * part, part);
}

static void gather_gated(const struct gathering *g) {
    int64_t half = g->part->shape[0] / 2, part = half / g->ranks;
    copy_rows(g, g->rank * part, 0, part);
    copy_rows(g, half + g->rank * part, part, part);
}

// Row of channel c of a head in a shard of only keys (kind 0) and values (1).
static int64_t packed_pair_row(const struct gathering *g, int kind, int64_t head, int64_t c) {
    int64_t D = g->source->config.model.kv_channels, heads = config_query_groups(&g->source->config.model);
    if (g->folder->version < 1)
        return (kind * (heads / g->ranks) + head) * D + c;
    if (g->folder->version < 2)
        return (head * D + c) * 2 + kind;
    return (head * 2 + kind) * D + c;
}

static void gather_kv(const struct gathering *g) {
    int64_t D = g->source->config.model.kv_channels, heads = config_query_groups(&g->source->config.model);
    int64_t part = heads / g->ranks;
    for (int kind = 0; kind < 2; kind++)
        for (int64_t head = 0; head < part; head++)
            for (int64_t c = 0; c < D; c++)
                copy_rows(g, (kind * heads + g->rank * part + head) * D + c, packed_pair_row(g, kind, head, c), 1);
}

// Row of channel c of a head in a shard, or since version 2 in all shards together. kind: 0 query, 1 key, 2 value; head
// counts queries or groups of the shard or of all.
static int64_t packed_row(const struct gathering *g, int kind, int64_t head, int64_t c) {
    const struct config *config = &g->source->config;
    int64_t D = config->model.kv_channels, groups = config_query_groups(&config->model);
    int64_t queries = config->model.num_attention_heads / groups, heads = config->model.num_attention_heads / g->ranks;
    if (g->folder->version < 1)
        return (kind * heads + head) * D + c;
    if (g->folder->version < 2)
        return (head * D + c) * 3 + kind;
    int64_t group = kind == 0 ? head / queries : head, place = kind == 0 ? head % queries : queries + kind - 1;
    return (group * (queries + 2) + place) * D + c;
}

// With more ranks than groups, a shard has an equal part of all rows, across groups.
static void gather_split_groups(const struct gathering *g, const int64_t heads[3], const int64_t first[3]) {
    int64_t D = g->source->config.model.kv_channels, part = (heads[0] + heads[1] + heads[2]) * D / g->ranks;
    for (int kind = 0; kind < 3; kind++)
        for (int64_t i = 0; i < heads[kind] * D; i++) {
            int64_t row = packed_row(g, kind, i / D, i % D);
            if (row / part == g->rank)
                copy_rows(g, first[kind] + i, row % part, 1);
        }
}

static void gather_qkv(const struct gathering *g) {
    const struct config *config = &g->source->config;
    int64_t D = config->model.kv_channels, H = config->model.num_attention_heads,
            G = config_query_groups(&config->model);
    const int64_t heads[3] = {H, G, G}, first[3] = {0, H * D, (H + G) * D};
    if (G % g->ranks != 0) {
        gather_split_groups(g, heads, first);
        return;
    }
    for (int kind = 0; kind < 3; kind++) {
        int64_t part = heads[kind] / g->ranks;
        for (int64_t head = 0; head < part; head++)
            for (int64_t c = 0; c < D; c++)
                copy_rows(g, first[kind] + (g->rank * part + head) * D + c, packed_row(g, kind, head, c), 1);
    }
}

static void gather(const struct gathering *g) {
    int64_t rows = g->part->shape[0], part = rows / g->ranks;
    switch (g->part->split) {
    case SPLIT_WHOLE:
        if (g->rank == 0)
            copy_rows(g, 0, 0, rows);
        return;
    case SPLIT_ROWS:
        copy_rows(g, g->rank * part, 0, part);
        return;
    case SPLIT_COLUMNS:
        gather_columns(g);
        return;
    case SPLIT_QKV:
        gather_qkv(g);
        return;
    case SPLIT_KV:
        gather_kv(g);
        return;
    case SPLIT_GATED:
        gather_gated(g);
        return;
    }
}

// Assembles a part from the shards of all ranks.
static int read_part(struct gathering *g, const char *state, enum dtype dtype) {
    const struct stored_part *part = g->part;
    for (g->rank = 0; g->rank < g->ranks; g->rank++) {
        const struct weight *weight = state ? megatron_find_state(g->folder, g->rank, state, part->name)
                                            : megatron_find(g->folder, g->rank, part->name);
        unsigned char *shard = memory_alloc(weight->bytes + 1);
        int result = weight_read(weight, shard);
        if (result == 0 && weight->dtype != dtype) {
            float *wide = convert_shifted(shard, weight->dtype, weight->bytes / dtype_bytes(weight->dtype), 0);
            free(shard);
            shard = (unsigned char *)wide;
        }
        g->shard = shard;
        if (result == 0)
            gather(g);
        free(shard);
        TRY(result);
    }
    return 0;
}

// Reads tensor i: the parameter itself or, in fp32, a state of its optimizer.
static int read_shards(struct model_source *source, size_t i, const char *state, void *to) {
    const struct megatron_folder *folder = source->detail;
    enum dtype dtype = state ? DTYPE_F32 : source->tensors[i].dtype;
    int64_t count = part_count(source, i);
    unsigned char *at = to;
    int result = 0;
    for (int64_t k = 0; k < count && result == 0; k++) {
        struct stored_part part = part_of(source, i, k);
        struct gathering g = {.source = source, .folder = folder, .part = &part, .to = at};
        size_t elements = part_elements(&part);
        g.row_bytes = elements / (size_t)part.shape[0] * dtype_bytes(dtype);
        g.ranks = state && folder->state_ranks > 0 ? folder->state_ranks : folder->tensor_ranks;
        result = read_part(&g, state, dtype);
        at += elements * dtype_bytes(dtype);
        free(part.name);
    }
    return result;
}

static int read_tensor(struct model_source *source, size_t i, void *to) {
    return read_shards(source, i, NULL, to);
}

// ---- the optimizer ----

static void check_states_of(const struct model_source *source, const struct stored_part *part, int states,
                            struct source_problems *problems) {
    const struct megatron_folder *folder = source->detail;
    int ranks = folder->state_ranks > 0 ? folder->state_ranks : folder->tensor_ranks;
    int64_t shape[SHARD_MAX_RANK];
    memcpy(shape, part->shape, sizeof shape);
    megatron_shard_shape(part->split, ranks, shape);
    for (int state = 0; state < states; state++)
        for (int rank = 0; rank < ranks; rank++) {
            const struct weight *found = megatron_find_state(folder, rank, source_state_names[state], part->name);
            if (found) {
                (void)source_check_weight(problems, found, part->rank, shape);
                continue;
            }
            OWNED char *missing = memory_printf("%s of %s", source_state_names[state], part->name);
            name_list_add(&problems->missing, missing);
        }
}

static int check_states(const struct model_source *source) {
    const struct megatron_folder *folder = source->detail;
    int states = source->has_masters || folder->needs_proof ? SOURCE_STATES : STATE_MASTER;
    struct source_problems problems = {0};
    for (size_t i = 0; i < source->count; i++) {
        int64_t count = part_count(source, i);
        for (int64_t k = 0; k < count; k++) {
            struct stored_part part = part_of(source, i, k);
            check_states_of(source, &part, states, &problems);
            free(part.name);
        }
    }
    if (source_report(&problems, folder->path) < 0)
        return error_context("the optimizer state cannot be used (give --weights-only to convert without it)");
    return 0;
}

static int open_optimizer(struct model_source *source) {
    struct megatron_folder *folder = source->detail;
    TRY(megatron_open_optimizer(folder, &source->has_optimizer));
    if (!source->has_optimizer)
        return 0;
    if (folder->state_ranks > 0 && !can_split_groups(source, folder->state_ranks))
        return megatron_refuse_optimizer(folder, "query groups that tensor-parallel ranks share are not supported");
    // Copies of fp32 parameters are the same numbers again.
    for (size_t i = 0; i < source->count; i++)
        source->has_masters = source->has_masters || source->tensors[i].dtype != DTYPE_F32;
    TRY(check_states(source));
    return megatron_read_progress(folder, source);
}

// The copy of a parameter must round to it: otherwise the states are those of other parameters.
static int check_master(struct model_source *source, size_t i, const float *master) {
    const struct source_tensor *tensor = &source->tensors[i];
    size_t count = tensor->bytes / dtype_bytes(tensor->dtype);
    OWNED unsigned char *weights = memory_alloc(tensor->bytes + 1), *rounded = memory_alloc(tensor->bytes + 1);
    TRY(read_tensor(source, i, weights));
    convert_elements(&(struct convert){
        .to = rounded, .to_dtype = tensor->dtype, .from = master, .from_dtype = DTYPE_F32, .count = count});
    if (memcmp(weights, rounded, tensor->bytes) == 0)
        return 0;
    OWNED char *why = memory_printf("the fp32 copy of %s does not round to it", tensor->name);
    return megatron_refuse_optimizer(source->detail, why);
}

// For fp32 parameters no copy is needed, but one that exists is compared.
static int prove_place(struct model_source *source, size_t i) {
    const struct source_tensor *tensor = &source->tensors[i];
    OWNED float *copy = memory_alloc(tensor->bytes / dtype_bytes(tensor->dtype) * sizeof *copy + 1);
    TRY(read_shards(source, i, source_state_names[STATE_MASTER], copy));
    return check_master(source, i, copy);
}

static int read_state(struct model_source *source, size_t i, enum source_state state, float *to) {
    const struct megatron_folder *folder = source->detail;
    if (state == STATE_EXP_AVG && folder->needs_proof && !source->has_masters)
        TRY(prove_place(source, i));
    TRY(read_shards(source, i, source_state_names[state], to));
    return state == STATE_MASTER ? check_master(source, i, to) : 0;
}

static void close_source(struct model_source *source) {
    if (source->detail)
        megatron_close(source->detail);
    free(source->detail);
}

const struct model_source_kind source_megatron = {
    .name = "megatron",
    .is_folder = megatron_is_folder,
    .open = open_source,
    .read = read_tensor,
    .close = close_source,
    .open_optimizer = open_optimizer,
    .read_state = read_state,
};
