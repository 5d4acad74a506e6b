// What config.json of DeepSeek-V2 and V3 says otherwise than other families: which layers have experts, how wide shared
// experts are together, groups of experts, and YaRN of latent attention.
#include "base/error.h"
#include "base/memory.h"
#include "checkpoint/hf_config.h"
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static bool is_v3(const struct hf_family *family) {
    return strcmp(family->model_type, "deepseek_v3") == 0;
}

static int set_double(struct config *config, const char *flag, double value) {
    char *text = memory_printf("%.17g", value);
    int result = config_take(config, flag, text);
    free(text);
    return result;
}

// A member that is absent or null has its fallback.
static int whole_of(const struct json *root, const char *key, int64_t fallback, int64_t *value) {
    const struct json *member = root ? json_member(root, key) : NULL;
    *value = fallback;
    if (!member || member->type == JSON_NULL)
        return 0;
    if (member->type != JSON_NUMBER || member->number != floor(member->number) || fabs(member->number) > 1e9)
        return error_set("its \"%s\" is not a whole number", key);
    *value = (int64_t)member->number;
    return 0;
}

static int real_of(const struct json *root, const char *key, double fallback, double *value) {
    const struct json *member = root ? json_member(root, key) : NULL;
    *value = fallback;
    if (!member || member->type == JSON_NULL)
        return 0;
    if (member->type != JSON_NUMBER || !isfinite(member->number))
        return error_set("its \"%s\" is not a number", key);
    *value = member->number;
    return 0;
}

static int read_layers(const struct hf_family *family, const struct json *root, struct config *config) {
    int64_t dense = 0, L = config->num_layers;
    TRY(whole_of(root, "first_k_dense_replace", is_v3(family) ? 3 : 0, &dense));
    if (dense < 0 || dense >= L)
        return error_set("its \"first_k_dense_replace\" %" PRId64 " leaves none of %" PRId64 " layers with experts",
                         dense, L);
    if (dense == 0)
        return 0;
    char *layers = memory_printf("[0]*%" PRId64 "+[1]*%" PRId64, dense, L - dense);
    int result = config_take(config, "--moe-layer-freq", layers);
    free(layers);
    return result;
}

static int read_shared(const struct hf_family *family, const struct json *root, struct config *config) {
    int64_t shared = 0;
    TRY(whole_of(root, "n_shared_experts", is_v3(family) ? 1 : 2, &shared));
    if (shared < 1 || shared > 1 << 10)
        return error_set("its \"n_shared_experts\" is not a number of experts from 1 to 1024");
    return config_take_number(config, "--moe-shared-expert-intermediate-size", shared * config->moe_ffn_hidden_size);
}

// How many of its best scores a group is judged by.
static int64_t best_of_group(const struct hf_family *family) {
    return is_v3(family) ? 2 : 1;
}

static int read_groups(const struct hf_family *family, const struct json *root, struct config *config) {
    const struct json *method = json_member(root, "topk_method");
    const char *name = method && method->type == JSON_STRING ? method->string : is_v3(family) ? "noaux_tc" : "greedy";
    bool is_greedy = !is_v3(family) && strcmp(name, "greedy") == 0;
    if (!is_greedy && strcmp(name, is_v3(family) ? "noaux_tc" : "group_limited_greedy") != 0)
        return error_set("its \"topk_method\" \"%.64s\" is not supported, only %s", name,
                         is_v3(family) ? "noaux_tc" : "greedy and group_limited_greedy");
    int64_t groups = 1, chosen = 1;
    if (is_greedy)
        return 0;
    TRY(whole_of(root, "n_group", is_v3(family) ? 8 : 1, &groups));
    TRY(whole_of(root, "topk_group", is_v3(family) ? 4 : 1, &chosen));
    if (groups < 1 || chosen < 1)
        return error_set("its \"n_group\" and \"topk_group\" are not numbers of groups");
    if (groups == 1)
        return 0;
    TRY(config_take_number(config, "--moe-router-num-groups", groups));
    TRY(config_take_number(config, "--moe-router-group-topk", chosen));
    return config_take_number(config, "--moe-router-group-best", best_of_group(family));
}

// transformers multiplies rotated channels by the quotient of two growths if both settings are there and not 0, else by
// the growth of 1; scores grow by the square of that of mscale_all_dim.
static int read_yarn(const struct json *root, const struct json *scaling, struct config *config) {
    double factor, mscale, all, attention, fast, slow;
    int64_t length = 0;
    TRY(real_of(scaling, "factor", 0, &factor));
    TRY(real_of(scaling, "mscale", 0, &mscale));
    TRY(real_of(scaling, "mscale_all_dim", 0, &all));
    TRY(real_of(scaling, "attention_factor", 0, &attention));
    TRY(real_of(scaling, "beta_fast", 32, &fast));
    TRY(real_of(scaling, "beta_slow", 1, &slow));
    TRY(whole_of(scaling, "original_max_position_embeddings", 0, &length));
    if (length == 0)
        TRY(whole_of(root, "max_position_embeddings", 0, &length));
    const struct json *truncate = json_member(scaling, "truncate");
    if (truncate && truncate->type == JSON_FALSE)
        return error_set("its rotary scaling has \"truncate\": false, which is not supported");
    if (!(factor >= 1) || attention != 0)
        return error_set("its rotary scaling has no \"factor\" of at least 1, or an \"attention_factor\", which is not "
                         "supported");
    if (all != 0 && mscale == 0)
        return error_set("its rotary scaling has \"mscale_all_dim\" without \"mscale\", which is not supported");
    TRY(set_double(config, "--rotary-scaling-factor", factor));
    TRY(config_take_number(config, "--original-max-position-embeddings", length));
    TRY(set_double(config, "--mscale", all != 0 ? mscale : 1));
    TRY(set_double(config, "--mscale-all-dim", all));
    TRY(set_double(config, "--yarn-beta-fast", fast != 0 ? fast : 32));
    return set_double(config, "--yarn-beta-slow", slow != 0 ? slow : 1);
}

// transformers 5 has everything in rope_parameters; before, rope_theta stood by itself and rope_scaling beside it.
static int read_rope(const struct json *root, struct config *config) {
    const struct json *all = json_member(root, "rope_parameters"), *scaling = json_member(root, "rope_scaling");
    all = all && all->type == JSON_OBJECT ? all : NULL;
    double base = 10000;
    TRY(real_of(all && json_member(all, "rope_theta") ? all : root, "rope_theta", 10000, &base));
    TRY(set_double(config, "--rotary-base", base));
    scaling = scaling && scaling->type != JSON_NULL ? scaling : all;
    if (!scaling)
        return 0;
    if (scaling->type != JSON_OBJECT)
        return error_set("its rotary scaling is not an object with a \"rope_type\"");
    const struct json *kind = json_member(scaling, "rope_type");
    kind = kind ? kind : json_member(scaling, "type");
    const char *name = kind && kind->type == JSON_STRING ? kind->string : "default";
    if (strcmp(name, "default") == 0)
        return 0;
    if (strcmp(name, "yarn") != 0)
        return error_set("its rotary scaling \"%.64s\" is not supported for latent attention, only default and yarn",
                         name);
    return read_yarn(root, scaling, config);
}

int hf_latent_read(const struct hf_family *family, const struct json *root, struct config *config) {
    if (config->norm_epsilon != HF_LATENT_EPSILON)
        return error_set("its \"rms_norm_eps\" is %g, but the norms of its latents have %g in any case; norms that "
                         "differ are not supported",
                         config->norm_epsilon, HF_LATENT_EPSILON);
    TRY(read_layers(family, root, config));
    TRY(read_shared(family, root, config));
    TRY(read_groups(family, root, config));
    return read_rope(root, config);
}

// ---- writing ----

bool hf_latent_mentions(const char *flag) {
    static const char *const flags[] = {
        "--kv-channels",           "--moe-layer-freq",        "--moe-shared-expert-intermediate-size",
        "--moe-router-num-groups", "--moe-router-group-topk", "--moe-router-group-best"};
    for (size_t i = 0; i < sizeof flags / sizeof flags[0]; i++)
        if (strcmp(flags[i], flag) == 0)
            return true;
    return false;
}

// How many layers come before the first with experts; -1 if layers behind that have none.
static int64_t dense_layers(const struct config *config) {
    int64_t dense = 0, L = config->num_layers;
    bool *layers = config_list_expert_layers(config);
    while (dense < L && !layers[dense])
        dense++;
    free(layers);
    return config_expert_layers(config) == L - dense ? dense : -1;
}

const char *hf_latent_obstacle(const struct hf_family *family, const struct config *config) {
    int64_t width = config_expert_width(config), shared = config->moe_shared_expert_intermediate_size;
    double all = config->mscale_all_dim, mscale = config->mscale;
    if (config->norm_epsilon != HF_LATENT_EPSILON)
        return "--norm-epsilon";
    if (dense_layers(config) < 0)
        return "--moe-layer-freq";
    if (shared == 0 || shared % width != 0)
        return "--moe-shared-expert-intermediate-size";
    if (config->moe_router_num_groups > 1 && config_group_best(config) != best_of_group(family))
        return "--moe-router-group-best";
    if (config->softmax_scale > 0)
        return "--softmax-scale";
    bool is_usual = mscale == 1 && all == 0;
    return config_yarn(config).factor > 1 && !is_usual && (mscale == 0 || all == 0) ? "--mscale" : NULL;
}

static void append_yarn(const struct config *config, struct buffer *out) {
    struct json_writer json = {.out = out};
    json_begin_object(&json);
    json_key(&json, "type");
    json_cstring(&json, "yarn");
    const struct {
        const char *key;
        double value;
    } reals[] = {{"factor", config->rotary_scaling_factor},
                 {"mscale", config->mscale},
                 {"mscale_all_dim", config->mscale_all_dim},
                 {"beta_fast", config->yarn_beta_fast},
                 {"beta_slow", config->yarn_beta_slow}};
    for (size_t i = 0; i < sizeof reals / sizeof reals[0]; i++) {
        json_key(&json, reals[i].key);
        json_double(&json, reals[i].value);
    }
    json_key(&json, "original_max_position_embeddings");
    json_int(&json, config->original_max_position_embeddings);
    json_end_object(&json);
}

size_t hf_latent_members(const struct hf_family *family, const struct config *config,
                         struct hf_member members[HF_LATENT_MEMBERS]) {
    int64_t groups = config->moe_router_num_groups, chosen = config->moe_router_group_topk;
    struct buffer yarn = {0};
    size_t count = 0;
    if (config_yarn(config).factor > 1)
        append_yarn(config, &yarn);
    const struct {
        const char *key;
        char *value;
    } all[] = {
        {"first_k_dense_replace", memory_printf("%" PRId64, dense_layers(config))},
        {"n_shared_experts",
         memory_printf("%" PRId64, config->moe_shared_expert_intermediate_size / config_expert_width(config))},
        {"n_group", memory_printf("%" PRId64, groups > 1 ? groups : 1)},
        {"topk_group", memory_printf("%" PRId64, groups > 1 ? chosen : 1)},
        {"topk_method", memory_string(is_v3(family) ? "\"noaux_tc\""
                                      : groups > 1  ? "\"group_limited_greedy\""
                                                    : "\"greedy\"")},
        {"rope_theta", memory_printf("%.17g", config->rotary_base)},
        {"rope_scaling", yarn.length > 0 ? memory_string(buffer_string(&yarn)) : memory_string("null")},
        {"num_key_value_heads", memory_printf("%" PRId64, config->num_attention_heads)},
    };
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        if (all[i].value)
            members[count++] = (struct hf_member){all[i].key, all[i].value};
    buffer_free(&yarn);
    return count;
}
