// DeepSeek's in config.json: shared experts and groups of experts, which others have, too; and latent attention, whose
// YaRN differs from other families'. See hf_config.h.
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

int hf_count_of(const struct hf_family *family, const struct json *root, const char *key, const char *member,
                int64_t *value) {
    const char *usual = hf_default(family, member);
    return hf_whole_of(root, key, usual ? strtoll(usual, NULL, 10) : 0, value);
}

// ---- shared experts and groups ----

static const char *shared_key(const struct hf_family *family) {
    return family->shared_key ? family->shared_key : "n_shared_experts";
}

static int read_shared(const struct hf_family *family, const struct json *root, struct config *config) {
    int64_t shared = 0;
    TRY(hf_count_of(family, root, shared_key(family), "n_shared_experts", &shared));
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
    TRY(hf_count_of(family, root, "n_group", "n_group", &groups));
    TRY(hf_count_of(family, root, "topk_group", "topk_group", &chosen));
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

// ---- latent attention ----

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

// transformers multiplies rotated channels by the quotient of two growths if both settings are there and not 0, else by
// the growth of 1; scores grow by the square of that of mscale_all_dim.
static int read_yarn(const struct json *root, const struct json *scaling, struct config *config) {
    double factor, mscale, all, fast, slow;
    int64_t length = 0;
    TRY(real_of(scaling, "factor", 0, &factor));
    TRY(real_of(scaling, "mscale", 0, &mscale));
    TRY(real_of(scaling, "mscale_all_dim", 0, &all));
    TRY(real_of(scaling, "beta_fast", 32, &fast));
    TRY(real_of(scaling, "beta_slow", 1, &slow));
    TRY(hf_whole_of(scaling, "original_max_position_embeddings", 0, &length));
    if (length == 0)
        TRY(hf_whole_of(root, "max_position_embeddings", 0, &length));
    const struct json *truncate = json_member(scaling, "truncate");
    if (truncate && truncate->type != JSON_TRUE)
        return error_set("its rotary scaling has a \"truncate\" that is not true, which is not supported");
    if (!(factor >= 1) || hf_member_of(scaling, "attention_factor"))
        return error_set("its rotary scaling has no \"factor\" of at least 1, or an \"attention_factor\", which is not "
                         "supported");
    if (all != 0 && mscale == 0)
        return error_set("its rotary scaling has \"mscale_all_dim\" without \"mscale\", which is not supported");
    TRY(hf_config_set_real(config, "--rotary-scaling-factor", factor));
    TRY(config_take_number(config, "--original-max-position-embeddings", length));
    TRY(hf_config_set_real(config, "--mscale", all != 0 ? mscale : 1));
    TRY(hf_config_set_real(config, "--mscale-all-dim", all));
    TRY(hf_config_set_real(config, "--yarn-beta-fast", fast != 0 ? fast : 32));
    return hf_config_set_real(config, "--yarn-beta-slow", slow != 0 ? slow : 1);
}

static int read_rope(const struct hf_family *family, const struct json *root, struct config *config) {
    const struct json *all = hf_member_of(root, "rope_parameters"), *scaling;
    double base = 10000, part = 1;
    TRY(hf_rope_find(family, root, all, &scaling));
    TRY(real_of(hf_member_of(scaling, "partial_rotary_factor") ? scaling : root, "partial_rotary_factor", 1, &part));
    if (part != 1)
        return error_set("its \"partial_rotary_factor\" is not 1, which is not supported with latent attention");
    TRY(real_of(hf_member_of(scaling, "rope_theta") ? scaling : root, "rope_theta", 10000, &base));
    TRY(hf_config_set_real(config, "--rotary-base", base));
    const struct json *kind = hf_member_of(scaling, "rope_type");
    kind = kind ? kind : hf_member_of(scaling, "type");
    const char *name = kind ? kind->string : "default";
    if (strcmp(name, "default") == 0)
        return 0;
    if (strcmp(name, "yarn") != 0)
        return error_set("its rotary scaling \"%.64s\" is not supported for latent attention, only default and yarn",
                         name);
    return read_yarn(root, scaling, config);
}

int hf_latent_read(const struct hf_family *family, const struct json *root, struct config *config) {
    if (config->model.norm_epsilon != HF_LATENT_EPSILON)
        TRY(hf_config_set_real(config, "--latent-norm-epsilon", HF_LATENT_EPSILON));
    return read_rope(family, root, config);
}

const char *hf_latent_obstacle(const struct config *config) {
    double all = config->model.mscale_all_dim, mscale = config->model.mscale;
    if (config_latent_epsilon(&config->model) != HF_LATENT_EPSILON)
        return "--latent-norm-epsilon";
    if (config->model.softmax_scale > 0)
        return "--softmax-scale";
    bool is_usual = mscale == 1 && all == 0;
    return config_yarn(&config->model).factor > 1 && !is_usual && (mscale == 0 || all == 0) ? "--mscale" : NULL;
}

static void append_yarn(const struct config *config, struct buffer *out) {
    struct json_writer json = {.out = out};
    json_begin_object(&json);
    json_put_string(&json, "type", "yarn");
    const struct {
        const char *key;
        double value;
    } reals[] = {{"factor", config->model.rotary_scaling_factor},
                 {"mscale", config->model.mscale},
                 {"mscale_all_dim", config->model.mscale_all_dim},
                 {"beta_fast", config->model.yarn_beta_fast},
                 {"beta_slow", config->model.yarn_beta_slow}};
    for (size_t i = 0; i < sizeof reals / sizeof reals[0]; i++)
        json_put_double(&json, reals[i].key, reals[i].value);
    json_put_int(&json, "original_max_position_embeddings", config->model.original_max_position_embeddings);
    json_end_object(&json);
}

size_t hf_latent_members(const struct config *config, struct hf_member members[HF_OWN_MEMBERS]) {
    OWNED_BY(buffer_free) struct buffer yarn = {0};
    if (config_yarn(&config->model).factor > 1)
        append_yarn(config, &yarn);
    const struct hf_member all[] = {
        {"rope_theta", memory_printf("%.17g", config->model.rotary_base)},
        {"rope_scaling", memory_string(yarn.length > 0 ? buffer_string(&yarn) : "null")},
        {"num_key_value_heads", memory_printf("%" PRId64, config->model.num_attention_heads)},
    };
    memcpy(members, all, sizeof all);
    return sizeof all / sizeof all[0];
}
