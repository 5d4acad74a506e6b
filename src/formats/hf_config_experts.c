// Experts in config.json: which layers have them, in each family's way; the total width of shared experts; and groups
// of experts. Layers are every decoder_sparse_step-th but none of mlp_only_layers (Qwen's); all after
// first_k_dense_replace layers (DeepSeek's); or a list, mlp_layer_types.
#include "base/error.h"
#include "base/memory.h"
#include "formats/hf_config.h"
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

int hf_whole_of(const struct json *root, const char *key, int64_t fallback, int64_t *value) {
    const struct json *member = root ? json_member(root, key) : NULL;
    *value = fallback;
    if (!member || member->type == JSON_NULL)
        return 0;
    if (member->type != JSON_NUMBER || member->number != floor(member->number) || fabs(member->number) > 1e9)
        return error_set("its \"%s\" is not a whole number", key);
    *value = (int64_t)member->number;
    return 0;
}

// A whole number with the family's default for `member`.
static int whole_of(const struct hf_family *family, const struct json *root, const char *key, const char *member,
                    int64_t *value) {
    const char *usual = hf_default(family, member);
    return hf_whole_of(root, key, usual ? strtoll(usual, NULL, 10) : 0, value);
}

// ---- reading; `layers` has room for `count` ----

static int read_step(const struct json *root, int64_t *step) {
    const struct json *value = hf_member_of(root, "decoder_sparse_step");
    *step = 1;
    if (!value)
        return 0;
    if (value->type != JSON_NUMBER || !(value->number >= 1 && value->number < 1e6) ||
        value->number != floor(value->number))
        return error_set("its \"decoder_sparse_step\" is not a number of layers");
    *step = (int64_t)value->number;
    return 0;
}

static int read_by_step(const struct json *root, bool *layers, int64_t count) {
    const struct json *dense = hf_member_of(root, "mlp_only_layers");
    int64_t step = 1;
    TRY(read_step(root, &step));
    for (int64_t i = 0; i < count; i++)
        layers[i] = (i + 1) % step == 0;
    if (!dense)
        return 0;
    if (dense->type != JSON_ARRAY)
        return error_set("its \"mlp_only_layers\" is not a list of layers");
    for (size_t i = 0; i < dense->count; i++) {
        if (dense->items[i].type != JSON_NUMBER)
            return error_set("its \"mlp_only_layers\" is not a list of layers");
        double number = dense->items[i].number;
        if (number >= 0 && number < (double)count)
            layers[(int64_t)number] = false;
    }
    return 0;
}

static int read_first(const struct hf_family *family, const struct json *root, bool *layers, int64_t count) {
    int64_t dense = 0;
    TRY(whole_of(family, root, "first_k_dense_replace", "first_k_dense_replace", &dense));
    if (dense < 0 || dense >= count)
        return error_set("its \"first_k_dense_replace\" %" PRId64 " leaves none of %" PRId64 " layers with experts",
                         dense, count);
    for (int64_t i = 0; i < count; i++)
        layers[i] = i >= dense;
    return 0;
}

static int read_types(const struct json *types, bool *layers, int64_t count) {
    if (types->type != JSON_ARRAY || (int64_t)types->count < count)
        return error_set("its \"mlp_layer_types\" is not a list of %" PRId64 " layers", count);
    for (int64_t i = 0; i < count; i++) {
        const struct json *type = &types->items[i];
        const char *name = type->type == JSON_STRING ? type->string : "";
        layers[i] = strcmp(name, "sparse") == 0;
        if (!layers[i] && strcmp(name, "dense") != 0)
            return error_set("its \"mlp_layer_types\" has \"%.64s\" for layer %" PRId64
                             "; only dense and sparse are supported",
                             name, i);
    }
    return 0;
}

static int read_layers(const struct hf_family *family, const struct json *root, bool *layers, int64_t count) {
    const struct json *types = hf_member_of(root, "mlp_layer_types");
    switch (family->sparse) {
    case HF_SPARSE_STEP:
        return read_by_step(root, layers, count);
    case HF_SPARSE_TYPES:
        return types ? read_types(types, layers, count) : read_first(family, root, layers, count);
    default:
        return read_first(family, root, layers, count);
    }
}

// "1" if all layers have experts, "[0]*3+[1]*58" if only the first have none.
static char *name_layers(const struct hf_family *family, const bool *layers, int64_t count) {
    bool is_listed = family->sparse == HF_SPARSE_STEP;
    int64_t dense = 0, sparse = 0;
    OWNED_BY(buffer_free) struct buffer text = {0};
    while (dense < count && !layers[dense])
        dense++;
    for (int64_t i = 0; i < count; i++) {
        sparse += layers[i];
        buffer_printf(&text, "%s%d", i > 0 ? "," : "[", layers[i]);
    }
    return sparse == count                       ? memory_string("1")
           : is_listed || dense + sparse < count ? memory_printf("%s]", buffer_string(&text))
                                                 : memory_printf("[0]*%" PRId64 "+[1]*%" PRId64, dense, sparse);
}

char *hf_sparse_read(const struct hf_family *family, const struct json *root, int64_t count) {
    OWNED bool *layers = memory_alloc((size_t)count + 1);
    if (read_layers(family, root, layers, count) < 0)
        return NULL;
    if (memchr(layers, true, (size_t)count) || family->sparse == HF_SPARSE_STEP)
        return name_layers(family, layers, count);
    error_set("none of its %" PRId64 " layers has experts, which is not supported", count);
    return NULL;
}

// ---- writing ----

bool hf_sparse_are(const struct hf_family *family, const struct json *base, const struct config *config) {
    size_t count = (size_t)config->model.num_layers;
    OWNED bool *layers = config_list_expert_layers(&config->model), *theirs = memory_alloc(count + 1);
    bool are_same =
        read_layers(family, base, theirs, config->model.num_layers) == 0 && memcmp(layers, theirs, count) == 0;
    error_clear();
    return are_same;
}

int64_t hf_dense_layers(const struct config *config) {
    int64_t dense = 0, L = config->model.num_layers;
    OWNED bool *layers = config_list_expert_layers(&config->model);
    while (dense < L && !layers[dense])
        dense++;
    return config_expert_layers(&config->model) == L - dense ? dense : -1;
}

bool hf_sparse_is_possible(const struct hf_family *family, const struct config *config) {
    if (family->sparse == HF_SPARSE_ALL)
        return config_expert_layers(&config->model) == config->model.num_layers;
    return family->sparse != HF_SPARSE_FIRST || hf_dense_layers(config) >= 0;
}

static char *list_dense(const struct config *config) {
    OWNED_BY(buffer_free) struct buffer text = {0};
    OWNED bool *layers = config_list_expert_layers(&config->model);
    for (int64_t i = 0; i < config->model.num_layers; i++)
        if (!layers[i])
            buffer_printf(&text, "%s%" PRId64, text.length > 0 ? ", " : "", i);
    return memory_printf("[%s]", buffer_string(&text));
}

static char *list_types(const struct config *config) {
    OWNED_BY(buffer_free) struct buffer text = {0};
    OWNED bool *layers = config_list_expert_layers(&config->model);
    for (int64_t i = 0; i < config->model.num_layers; i++)
        buffer_printf(&text, "%s\"%s\"", i > 0 ? ", " : "[", layers[i] ? "sparse" : "dense");
    return memory_printf("%s]", buffer_string(&text));
}

size_t hf_sparse_members(const struct hf_family *family, const struct config *config,
                         struct hf_member members[HF_OWN_MEMBERS]) {
    int64_t dense = hf_dense_layers(config);
    size_t count = 0;
    if (family->sparse == HF_SPARSE_STEP) {
        members[count++] = (struct hf_member){"decoder_sparse_step", memory_string("1")};
        members[count++] = (struct hf_member){"mlp_only_layers", list_dense(config)};
    } else {
        // Programs other than transformers read the number even if there is a list.
        if (dense >= 0)
            members[count++] = (struct hf_member){"first_k_dense_replace", memory_printf("%" PRId64, dense)};
        if (family->sparse == HF_SPARSE_TYPES)
            members[count++] = (struct hf_member){"mlp_layer_types", list_types(config)};
    }
    return count;
}

// ---- shared experts and groups ----

static const char *shared_key(const struct hf_family *family) {
    return family->shared_key ? family->shared_key : "n_shared_experts";
}

static int read_shared(const struct hf_family *family, const struct json *root, struct config *config) {
    int64_t shared = 0;
    TRY(whole_of(family, root, shared_key(family), "n_shared_experts", &shared));
    if (shared < 1 || shared > 1 << 10)
        return error_set("its \"%s\" is not a number of experts from 1 to 1024", shared_key(family));
    return config_take_number(config, "--moe-shared-expert-intermediate-size",
                              shared * config->model.moe_ffn_hidden_size);
}

// Whether experts are chosen without groups, despite other members of config.json.
static int read_method(const struct hf_family *family, const struct json *root, bool *is_plain) {
    const struct json *method = family->topk_method ? json_member(root, "topk_method") : NULL;
    const char *usual = family->plain_method ? family->plain_method : family->topk_method;
    const char *name = method && method->type == JSON_STRING ? method->string : usual;
    *is_plain = family->plain_method && strcmp(name, family->plain_method) == 0;
    if (family->topk_method && !*is_plain && strcmp(name, family->topk_method) != 0)
        return error_set("its \"topk_method\" \"%.64s\" is not supported, only %s%s%s", name,
                         family->plain_method ? family->plain_method : "", family->plain_method ? " and " : "",
                         family->topk_method);
    return 0;
}

static int read_groups(const struct hf_family *family, const struct json *root, struct config *config) {
    int64_t groups = 1, chosen = 1;
    bool is_plain = false;
    TRY(read_method(family, root, &is_plain));
    if (is_plain)
        return 0;
    TRY(whole_of(family, root, "n_group", "n_group", &groups));
    TRY(whole_of(family, root, "topk_group", "topk_group", &chosen));
    if (groups < 1 || chosen < 1)
        return error_set("its \"n_group\" and \"topk_group\" are not numbers of groups");
    if (groups == 1)
        return 0;
    TRY(config_take_number(config, "--moe-router-num-groups", groups));
    TRY(config_take_number(config, "--moe-router-group-topk", chosen));
    return config_take_number(config, "--moe-router-group-best", family->group_best);
}

int hf_routed_read(const struct hf_family *family, const struct json *root, struct config *config) {
    TRY(read_shared(family, root, config));
    return read_groups(family, root, config);
}

const char *hf_routed_obstacle(const struct hf_family *family, const struct config *config) {
    int64_t width = config_expert_width(&config->model), shared = config->model.moe_shared_expert_intermediate_size;
    if (shared == 0 || shared % width != 0)
        return "--moe-shared-expert-intermediate-size";
    return config->model.moe_router_num_groups > 1 && config_group_best(&config->model) != family->group_best
               ? "--moe-router-group-best"
               : NULL;
}

size_t hf_routed_members(const struct hf_family *family, const struct config *config,
                         struct hf_member members[HF_OWN_MEMBERS]) {
    int64_t groups = config->model.moe_router_num_groups, chosen = config->model.moe_router_group_topk;
    int64_t shared = config->model.moe_shared_expert_intermediate_size;
    const char *method = groups <= 1 && family->plain_method ? family->plain_method : family->topk_method;
    size_t count = 0;
    members[count++] =
        (struct hf_member){shared_key(family), memory_printf("%" PRId64, shared / config_expert_width(&config->model))};
    members[count++] = (struct hf_member){"n_group", memory_printf("%" PRId64, groups > 1 ? groups : 1)};
    members[count++] = (struct hf_member){"topk_group", memory_printf("%" PRId64, groups > 1 ? chosen : 1)};
    if (method)
        members[count++] = (struct hf_member){"topk_method", memory_printf("\"%s\"", method)};
    return count;
}
