// Megatron's distributed checkpoints (--ckpt-format torch_dist), its default since core 0.9. Tensors are whole there,
// for any number of ranks: rows of tensor-parallel ranks are joined under one name, SwiGLU's halves are in order, and a
// stack of equal layers is one tensor with the layers as its first dimension: (L, …) under
// "decoder.layers.mlp.linear_fc1.weight". Layers that differ have their numbers in their names. Arguments and iteration
// are in common.pt or in an object that is stored like a tensor.
#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "base/memory.h"
#include "formats/megatron_folder.h"
#include "formats/model_source.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

// Excludes moments, random generators and state of the run. Names with a slash are pieces of objects.
static bool is_of_model(const char *name) {
    static const char *const others[] = {"optimizer.", "chained_", "rng_state", "rerun_state_machine", "common_state"};
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        if (strncmp(name, others[i], strlen(others[i])) == 0)
            return false;
    return !strchr(name, '/') && !strstr(name, "_extra_state");
}

static enum config_form form_of(const struct distributed *checkpoint) {
    enum config_form form = CONFIG_GPT;
    for (size_t i = 0; i < checkpoint->count; i++) {
        if (strstr(checkpoint->tensors[i].name, "cross_attention"))
            return CONFIG_T5;
        if (strncmp(checkpoint->tensors[i].name, "lm_head", 7) == 0)
            form = CONFIG_BERT;
    }
    return form;
}

// Where tensors are added: to the optimizer's state if there is one, else to the weights.
struct megatron_target {
    struct megatron_folder *folder;
    const char *state;
};

// The norm before experts may be there under two names, that of local layers and that of Transformer Engine's.
static bool is_second(const struct weights *weights, const char *ours, const char *key) {
    bool may_be = strstr(ours, ".pre_mlp_layernorm.");
    for (size_t i = weights->count; may_be && i-- > 0;)
        if (strcmp(weights->items[i].name, key) == 0)
            return true;
    return false;
}

static void add_state(const struct megatron_target *target, const struct distributed_tensor *tensor, const char *name,
                      int64_t first) {
    const struct megatron_place place = {.form = target->folder->form};
    struct megatron_found found = megatron_name(name, &place);
    OWNED char *ours = found.ours && found.expert >= 0 ? memory_printf("%s#%" PRId64, found.ours, found.expert) : NULL;
    const char *of = ours ? ours : found.ours;
    const struct weight *whole = of ? megatron_find(target->folder, 0, of) : NULL;
    if (whole) {
        OWNED char *key = memory_printf("00/%s/%s", target->state, of);
        bool is_there = is_second(&target->folder->states, of, key);
        if (!is_there && distributed_is_blocks(tensor, first, whole->rank, whole->shape))
            weights_add_flat(&target->folder->states, key, tensor, first, whole, PIECES_BLOCKS);
        else if (!is_there)
            weights_add_distributed(&target->folder->states, key, tensor, first);
    }
    free(found.ours);
}

static void add(const struct megatron_target *target, const struct distributed_tensor *tensor, const char *name,
                int64_t first) {
    struct megatron_folder *folder = target->folder;
    if (target->state) {
        add_state(target, tensor, name, first);
        return;
    }
    const struct megatron_place place = {.form = folder->form};
    struct megatron_found found = megatron_name(name, &place);
    if (found.layer >= folder->layers[found.stack])
        folder->layers[found.stack] = found.layer + 1;
    if (found.ours) {
        OWNED char *key = found.expert < 0 ? memory_printf("00/%s", found.ours)
                                           : memory_printf("00/%s#%" PRId64, found.ours, found.expert);
        if (found.layer >= 0 ? !is_second(&folder->weights, found.ours, key) : !megatron_is_there(folder, key))
            weights_add_distributed(&folder->weights, key, tensor, first);
    } else if (!found.is_ignored)
        name_list_add(&folder->unknown, name);
    free(found.ours);
}

// Adds a stack's layers: each gets its number where the stack's name has none.
static void add_stack(const struct megatron_target *target, const struct distributed_tensor *tensor, const char *theirs,
                      const char *rest) {
    for (int64_t layer = 0; layer < tensor->shape[0]; layer++) {
        OWNED char *name = memory_printf("%.*s%" PRId64 ".%s", (int)(rest - theirs), theirs, layer, rest);
        add(target, tensor, name, layer);
    }
}

// `theirs` is the name of the parameter that the tensor belongs to.
static int add_tensor(const struct megatron_target *target, const struct distributed_tensor *tensor,
                      const char *theirs) {
    enum { MAX_LAYERS = 100000 };
    const char *layers = strstr(theirs, ".layers."), *rest = layers ? layers + strlen(".layers.") : NULL;
    bool is_stack = rest && strspn(rest, "0123456789") == 0 && tensor->rank > 0;
    if (is_stack && tensor->shape[0] > MAX_LAYERS)
        return error_set("%s: \"%.200s\" has %" PRId64 " layers, which is not possible", target->folder->path,
                         tensor->name, tensor->shape[0]);
    if (is_stack)
        add_stack(target, tensor, theirs, rest);
    else
        add(target, tensor, theirs, DISTRIBUTED_ALL);
    return 0;
}

static int add_tensors(struct megatron_folder *folder) {
    const struct megatron_target target = {.folder = folder};
    const struct distributed *checkpoint = folder->weights.distributed;
    for (size_t i = 0; i < checkpoint->count; i++)
        TRY(add_tensor(&target, &checkpoint->tensors[i], checkpoint->tensors[i].name));
    return 0;
}

// ---- the optimizer ----

static const char model_space[] = "optimizer.state.", bucket_space[] = "optimizer.distributed.";

static bool is_of_optimizer(const char *name) {
    bool is_state =
        strncmp(name, model_space, strlen(model_space)) == 0 || strncmp(name, bucket_space, strlen(bucket_space)) == 0;
    return is_state && !strchr(name, '/');
}

// Prefixes of the parameters' names, and our states. Optimizers that are not distributed, and earlier releases, call
// the copies fp32_param.
static const struct {
    const char *theirs;
    enum source_state state;
} states[] = {{"exp_avg.", STATE_EXP_AVG},
              {"exp_avg_sq.", STATE_EXP_AVG_SQ},
              {"param.", STATE_MASTER},
              {"fp32_param.", STATE_MASTER}};

int megatron_open_model_space(struct megatron_folder *folder, bool *is_there) {
    TRY(weights_open_distributed(&folder->states, folder->path, is_of_optimizer));
    const struct distributed *checkpoint = folder->states.distributed;
    for (size_t i = 0; i < checkpoint->count; i++) {
        const struct distributed_tensor *tensor = &checkpoint->tensors[i];
        const char *rest = tensor->name + strlen(model_space);
        bool is_flat = strncmp(tensor->name, bucket_space, strlen(bucket_space)) == 0;
        for (size_t k = 0; !is_flat && k < sizeof states / sizeof states[0]; k++) {
            size_t length = strlen(states[k].theirs);
            if (strncmp(rest, states[k].theirs, length) != 0)
                continue;
            const struct megatron_target target = {.folder = folder, .state = source_state_names[states[k].state]};
            TRY(add_tensor(&target, tensor, rest + length));
        }
    }
    *is_there = folder->states.count > 0;
    if (distributed_has_prefix(checkpoint, "chained_"))
        return megatron_refuse_optimizer(folder, "it is made of several optimizers");
    if (!*is_there && distributed_has_prefix(checkpoint, bucket_space)) {
        TRY(megatron_open_bucket_space(folder));
        *is_there = true;
    }
    return weights_sort(&folder->states);
}

// Opens common.pt or, since core 0.19, its replacement among the pieces, a list of one dict.
static int open_common(struct megatron_folder *folder, const char *path, const struct torch_value **root) {
    const struct torch_file *file = NULL;
    if (file_exists(path)) {
        TRY(weights_open_torch(&folder->weights, path, &file));
        *root = file->pickle.root;
        folder->common_file = file;
        return 0;
    }
    const unsigned char *bytes = NULL;
    size_t size = 0;
    TRY(distributed_find_object(folder->weights.distributed, "common_state/shard_0_1", &bytes, &size));
    if (!bytes)
        return error_set("%s, which holds the arguments of a Megatron-LM run, is missing, and so is \"common_state\"; "
                         "copy the folder again",
                         path);
    OWNED char *name = memory_printf("\"common_state\" of %s", folder->path);
    TRY(weights_parse_torch(&folder->weights, bytes, size, name, &file));
    const struct torch_value *list = file->pickle.root;
    if (list->type != TORCH_LIST || list->count != 1)
        return error_set("%s is not a list of one dict", file->path);
    *root = list->items[0];
    folder->common_file = file;
    return 0;
}

static int read_common(struct megatron_folder *folder) {
    OWNED char *path = file_join(folder->path, "common.pt");
    const struct torch_value *root = NULL;
    int result = open_common(folder, path, &root);
    if (result == 0)
        megatron_read_numbers(folder, root);
    folder->common = root;
    if (result == 0 && !folder->args)
        result = error_set("%s of %s has no \"args\", so the model's size is unknown",
                           file_exists(path) ? "common.pt" : "\"common_state\"", folder->path);
    return result;
}

int megatron_read_distributed(struct megatron_folder *folder) {
    const char *backend;
    folder->tensor_ranks = folder->stages = folder->expert_ranks = 1;
    TRY(megatron_metadata_read(folder->path, &backend));
    TRY(weights_open_distributed(&folder->weights, folder->path, is_of_model));
    TRY(read_common(folder));
    if (folder->version < 2)
        folder->version = 3;  // the format has no older version; not every release states it
    folder->form = form_of(folder->weights.distributed);
    TRY(add_tensors(folder));
    if (folder->weights.count == 0)
        return error_set("%s has no tensors of a model", folder->path);
    return weights_sort(&folder->weights);
}

// metadata.json of Megatron's distributed checkpoints.

enum { MAX_BYTES = 1 << 16 };

static int check_backend(const struct json *root, const char *member, const char *const *known, const char **found) {
    const char *name = NULL;
    TRY(json_get_string(root, member, &name));
    for (size_t i = 0; known[i]; i++)
        if (strcmp(name, known[i]) == 0) {
            *found = known[i];
            return 0;
        }
    return error_set("\"%s\" is \"%.60s\", which no release of Megatron-LM writes", member, name);
}

static int check_version(const struct json *root, const char *member) {
    int64_t version = 0;
    TRY(json_get_int(root, member, &version));
    return version == 1 ? 0 : error_set("\"%s\" is %" PRId64 "; only 1 is supported", member, version);
}

static int check_members(const struct json *root, const char **backend) {
    static const char *const sharded[] = {"torch_dist", "zarr", NULL}, *const common[] = {"torch", NULL};
    const char *of_common = NULL;
    if (root->type != JSON_OBJECT)
        return error_set("it is not an object");
    TRY(check_backend(root, "sharded_backend", sharded, backend));
    for (size_t i = 0; i < root->count; i++) {
        const char *key = root->keys[i].string;
        if (strlen(key) != root->keys[i].length)
            return error_set("a member's name has a NUL");
        if (strcmp(key, "sharded_backend_version") == 0 || strcmp(key, "common_backend_version") == 0)
            TRY(check_version(root, key));
        else if (strcmp(key, "common_backend") == 0)
            TRY(check_backend(root, key, common, &of_common));
        else if (strcmp(key, "sharded_backend") != 0)
            return error_set("it has the unknown member \"%.60s\"", key);
    }
    return 0;
}

int megatron_metadata_parse(const char *text, size_t length, const char *name, const char **backend) {
    OWNED struct json *root = NULL;
    int result = json_parse(&root, text, length, name);
    *backend = NULL;
    if (result == 0 && check_members(root, backend) < 0)
        result = error_context("%s is damaged, or of a release that is not known; copy it again", name);
    return result;
}

int megatron_metadata_read(const char *folder, const char **backend) {
    OWNED char *path = file_join(folder, "metadata.json");
    OWNED_BY(buffer_free) struct buffer text = {0};
    *backend = NULL;
    if (!file_exists(path))
        return 0;
    TRY(file_read_own(path, MAX_BYTES, &text));
    return megatron_metadata_parse(buffer_string(&text), text.length, path, backend);
}
