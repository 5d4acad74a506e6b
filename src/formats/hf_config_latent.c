// Latent attention in config.json of DeepSeek-V2 and V3: its YaRN differs from other families'.
#include "base/error.h"
#include "base/memory.h"
#include "formats/hf_config.h"
#include <inttypes.h>
#include <math.h>
#include <string.h>

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

// ---- writing ----

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
