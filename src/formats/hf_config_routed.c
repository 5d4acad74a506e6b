// Experts in DeepSeek's and GLM's families: the total width of shared experts, and groups of experts.
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

static const char *shared_key(const struct hf_routed *routed) {
    return routed->shared_key ? routed->shared_key : "n_shared_experts";
}

static int read_shared(const struct hf_routed *routed, const struct json *root, struct config *config) {
    int64_t shared = 0;
    TRY(hf_whole_of(root, shared_key(routed), routed->shared, &shared));
    if (shared < 1 || shared > 1 << 10)
        return error_set("its \"%s\" is not a number of experts from 1 to 1024", shared_key(routed));
    return config_take_number(config, "--moe-shared-expert-intermediate-size", shared * config->moe_ffn_hidden_size);
}

// Whether experts are chosen without groups, despite other members of config.json.
static int read_method(const struct hf_routed *routed, const struct json *root, bool *is_plain) {
    const struct json *method = routed->method ? json_member(root, "topk_method") : NULL;
    const char *usual = routed->plain_method ? routed->plain_method : routed->method;
    const char *name = method && method->type == JSON_STRING ? method->string : usual;
    *is_plain = routed->plain_method && strcmp(name, routed->plain_method) == 0;
    if (routed->method && !*is_plain && strcmp(name, routed->method) != 0)
        return error_set("its \"topk_method\" \"%.64s\" is not supported, only %s%s%s", name,
                         routed->plain_method ? routed->plain_method : "", routed->plain_method ? " and " : "",
                         routed->method);
    return 0;
}

static int read_groups(const struct hf_routed *routed, const struct json *root, struct config *config) {
    int64_t groups = 1, chosen = 1;
    bool is_plain = false;
    TRY(read_method(routed, root, &is_plain));
    if (is_plain)
        return 0;
    TRY(hf_whole_of(root, "n_group", routed->groups, &groups));
    TRY(hf_whole_of(root, "topk_group", routed->chosen, &chosen));
    if (groups < 1 || chosen < 1)
        return error_set("its \"n_group\" and \"topk_group\" are not numbers of groups");
    if (groups == 1)
        return 0;
    TRY(config_take_number(config, "--moe-router-num-groups", groups));
    TRY(config_take_number(config, "--moe-router-group-topk", chosen));
    return config_take_number(config, "--moe-router-group-best", routed->best);
}

int hf_routed_read(const struct hf_routed *routed, const struct json *root, struct config *config) {
    TRY(read_shared(routed, root, config));
    return read_groups(routed, root, config);
}

// ---- writing ----

bool hf_routed_mentions(const char *flag) {
    static const char *const flags[] = {"--moe-shared-expert-intermediate-size", "--moe-router-num-groups",
                                        "--moe-router-group-topk", "--moe-router-group-best"};
    for (size_t i = 0; i < sizeof flags / sizeof flags[0]; i++)
        if (strcmp(flags[i], flag) == 0)
            return true;
    return false;
}

const char *hf_routed_obstacle(const struct hf_routed *routed, const struct config *config) {
    int64_t width = config_expert_width(config), shared = config->moe_shared_expert_intermediate_size;
    if (shared == 0 || shared % width != 0)
        return "--moe-shared-expert-intermediate-size";
    return config->moe_router_num_groups > 1 && config_group_best(config) != routed->best ? "--moe-router-group-best"
                                                                                          : NULL;
}

size_t hf_routed_members(const struct hf_routed *routed, const struct config *config,
                         struct hf_member members[HF_OWN_MEMBERS]) {
    int64_t groups = config->moe_router_num_groups, chosen = config->moe_router_group_topk;
    int64_t shared = config->moe_shared_expert_intermediate_size;
    const char *method = groups <= 1 && routed->plain_method ? routed->plain_method : routed->method;
    size_t count = 0;
    members[count++] =
        (struct hf_member){shared_key(routed), memory_printf("%" PRId64, shared / config_expert_width(config))};
    members[count++] = (struct hf_member){"n_group", memory_printf("%" PRId64, groups > 1 ? groups : 1)};
    members[count++] = (struct hf_member){"topk_group", memory_printf("%" PRId64, groups > 1 ? chosen : 1)};
    if (method)
        members[count++] = (struct hf_member){"topk_method", memory_printf("\"%s\"", method)};
    return count;
}
