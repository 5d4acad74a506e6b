// Folders of Hugging Face as a model source: every parameter of ours is found through the family's table, its shape is
// compared, and the remaining tensors must be known buffers.
#include "base/error.h"
#include "base/file.h"
#include "base/memory.h"
#include "formats/hf_config.h"
#include "formats/hf_names.h"
#include "formats/hf_surroundings.h"
#include "formats/hf_tokenizer_files.h"
#include "formats/source_kind.h"
#include "store/extra.h"
#include <stdlib.h>
#include <string.h>

enum { MAX_CONFIG_BYTES = 16 << 20 };

// Adds the model's other files, which are copied unchanged.
static void find_other_files(struct model_source *source) {
    OWNED_BY(checkpoint_file_list_free) struct checkpoint_file_list all = {0};
    hf_surroundings_list(source->path, &all, &source->left);
    for (size_t i = 0; i < all.count; i++) {
        bool is_taken = false;
        for (size_t k = 0; k < source->files.count && !is_taken; k++)
            is_taken = strcmp(source->files.items[k].path, all.items[i].path) == 0;
        if (!is_taken)
            checkpoint_file_list_add(&source->files, all.items[i].role, all.items[i].path);
    }
    source->has_foreign_tokenizer = true;
}

// Files of a base model lack the prefix, and the oldest BERTs call a norm's weight gamma and its bias beta.
static const struct weight *find_weight(const struct hf_source *detail, const char *name) {
    const char *prefix = detail->family->prefix;
    size_t length = strlen(prefix);
    const char *bare = strncmp(name, prefix, length) == 0 ? name + length : name;
    const struct weight *found = weights_find(&detail->weights, name);
    if (!found)
        found = weights_find(&detail->weights, bare);
    const char *norm = strstr(name, "LayerNorm.");
    if (found || !norm)
        return found;
    bool is_weight = strcmp(norm, "LayerNorm.weight") == 0;
    for (int i = 0; i < 2 && !found; i++) {
        const char *from = i == 0 ? name : bare;
        char *old = memory_printf("%.*sLayerNorm.%s", (int)(strstr(from, "LayerNorm.") - from), from,
                                  is_weight ? "gamma" : "beta");
        found = weights_find(&detail->weights, old);
        free(old);
    }
    return found;
}

// A joined tensor has one type; converting a part of it would not be reversible bit by bit.
static void add_mixed(struct source_problems *problems, const struct weight *weight, const struct weight *first) {
    OWNED char *note = memory_printf("%.200s is %s and %.200s %s", weight->name, dtype_name(weight->dtype), first->name,
                                     dtype_name(first->dtype));
    name_list_add(&problems->mixed, note);
}

static bool has_first_piece(const struct hf_source *detail, const struct hf_match *match) {
    OWNED char *name = hf_piece_name(match, 0);
    return find_weight(detail, name) != NULL;
}

// The row whose tensors are in the files, else the family's first.
static struct hf_match find_match(const struct hf_source *detail, const struct param *param, int64_t layers) {
    struct hf_match own = hf_match(detail->family, param, layers), match = own;
    while (match.row && !has_first_piece(detail, &match))
        match = hf_match_next(detail->family, param, &match);
    return match.row ? match : own;
}

static bool check_piece(struct source_problems *problems, const struct weight *weight, const struct hf_match *match,
                        struct hf_shape shape) {
    if (!hf_is_mxfp4(match->row->transform))
        return source_check_weight(problems, weight, shape.rank, shape.at);
    return source_check_bytes(problems, weight, shape.rank, shape.at);
}

static void plan_tensor(struct model_source *source, size_t i, struct source_problems *problems) {
    struct hf_source *detail = source->detail;
    const struct param *param = source->params.items[i];
    struct source_tensor *tensor = &source->tensors[i];
    struct hf_match match = find_match(detail, param, source->config.model.num_layers);
    if (!match.row) {
        name_list_add(&problems->missing, tensor->name);
        return;
    }
    struct hf_plan *plan = &detail->plans[i];
    *plan = (struct hf_plan){.transform = match.row->transform, .count = match.pieces};
    plan->pieces = memory_alloc((size_t)match.pieces * sizeof plan->pieces[0]);
    for (int k = 0; k < match.pieces; k++) {
        OWNED char *name = hf_piece_name(&match, k);
        const struct weight *weight = find_weight(detail, name);
        if (!weight) {
            name_list_add(&problems->missing, name);
        } else {
            detail->is_used[weight - detail->weights.items] = true;
            if (check_piece(problems, weight, &match, hf_piece_shape(&match, param, k)) && plan->pieces[0] &&
                weight->dtype != plan->pieces[0]->dtype)
                add_mixed(problems, weight, plan->pieces[0]);
            plan->pieces[k] = weight;
            tensor->dtype = weight->dtype;
            tensor->bytes += weight->bytes;
        }
    }
    if (hf_is_mxfp4(plan->transform)) {
        const int64_t *shape = param->shard.global;
        tensor->dtype = DTYPE_BF16;
        tensor->bytes = (size_t)(shape[0] * shape[1] * shape[2]) * dtype_bytes(DTYPE_BF16);
    }
}

static bool is_ignored(const struct hf_source *detail, const char *name) {
    const struct hf_family *family = detail->family;
    OWNED char *full = memory_printf("%s%s", family->prefix, name);
    bool is_known = false;
    int64_t number = 0;
    static const char *const of_rope[] = {"model.layers.*.self_attn.rotary_emb.inv_freq", "model.rotary_emb.inv_freq",
                                          NULL};
    for (const char *const *known = family->ignored ? family->ignored : of_rope; *known && !is_known; known++)
        is_known = name_match(*known, name, &number) || name_match(*known, full, &number);
    return is_known || strcmp(name, family->head) == 0;  // a tied head was compared with the embedding
}

// Whether a tensor is of a layer after the last: depths of multi-token prediction.
static bool is_beyond(const struct model_source *source, const char *name) {
    const struct hf_source *detail = source->detail;
    const char *at = strstr(name, "layers.");
    return detail->family->has_latents && at &&
           strtoll(at + strlen("layers."), NULL, 10) >= source->config.model.num_layers;
}

static bool is_left(struct model_source *source, const char *name) {
    const struct hf_source *detail = source->detail;
    if (is_ignored(detail, name) || weight_is_scale(&detail->weights, name))
        return true;
    if (detail->family->left_out && strstr(name, detail->family->left_out)) {
        if (source->notes.length == 0)
            buffer_printf(&source->notes,
                          "tensors of layers that predict further tokens (%.200s, …) are left out, as "
                          "in transformers",
                          name);
        return true;
    }
    if (!is_beyond(source, name))
        return false;
    if (source->notes.length == 0)
        buffer_printf(&source->notes, "layers from %lld on, which predict further tokens, are left out",
                      (long long)source->config.model.num_layers);
    return true;
}

// Layers for multi-token prediction carry copies of the embedding and of the output layer, which are kept once here.
static int check_copies(const struct hf_source *detail) {
    static const char *const copies[] = {"layers.*.embed_tokens.weight", "layers.*.shared_head.head.weight"};
    const struct hf_family *family = detail->family;
    const struct weight *embedding = find_weight(detail, family->embedding), *head = find_weight(detail, family->head);
    int64_t number = 0;
    for (size_t i = 0; i < detail->weights.count * 2; i++) {
        const struct weight *weight = &detail->weights.items[i / 2], *main = i % 2 == 0 || !head ? embedding : head;
        const char *at = strstr(weight->name, "layers.");
        if (at && name_match(copies[i % 2], at, &number) && !hf_is_same_tensor(weight, main))
            return error_set(
                "%.200s differs from %.200s; layers that predict further tokens with matrices of their own "
                "are not supported, since a copy of the main one would be written back",
                weight->name, main ? main->name : family->embedding);
    }
    return 0;
}

// transformers can also store the experts of a layer as one tensor, in families with matrices per expert.
static int check_fused(const struct model_source *source) {
    const struct hf_source *detail = source->detail;
    int64_t number = 0;
    for (size_t i = 0; i < detail->weights.count; i++) {
        const char *name = detail->weights.items[i].name, *at = strstr(name, "layers.");
        if (!detail->is_used[i] && at && name_match("layers.*.mlp.experts.gate_up_proj", at, &number))
            return error_set("%s has fused experts (%.100s), which are not supported for %s; save it again with "
                             "save_pretrained(save_original_format=True)",
                             source->path, name, detail->family->model_type);
    }
    return 0;
}

int hf_source_plan(struct model_source *source) {
    struct hf_source *detail = source->detail;
    struct source_problems problems = {0};
    detail->plans = memory_alloc((source->count + 1) * sizeof detail->plans[0]);
    detail->is_used = memory_alloc(detail->weights.count + 1);
    for (size_t i = 0; i < source->count; i++)
        plan_tensor(source, i, &problems);
    int result = problems.missing.count > 0 ? check_fused(source) : 0;
    for (size_t i = 0; i < detail->weights.count; i++)
        if (!detail->is_used[i] && !is_left(source, detail->weights.items[i].name))
            name_list_add(&problems.extra, detail->weights.items[i].name);
    if (result < 0)
        source_problems_free(&problems);
    return result < 0 ? result : source_report(&problems, source->path);
}

static int read_config(struct model_source *source, struct hf_source *detail, const char *path) {
    const char *model_type = NULL;
    TRY(extra_check_inside(source->path, path));
    TRY(json_parse_own(&source->foreign_config, path, MAX_CONFIG_BYTES));
    if (source->foreign_config->type != JSON_OBJECT)
        return error_set("it is not a JSON object that says \"model_type\"; copy or download it again");
    const char *repeated = json_repeated(source->foreign_config);
    if (repeated)
        return error_set("it has \"%.64s\" twice, and programs differ in which of them they read; leave one", repeated);
    TRY(json_get_string(source->foreign_config, "model_type", &model_type));
    detail->family = hf_family_find(model_type, source->foreign_config);
    if (!detail->family) {
        const char *missing = hf_family_missing(model_type);
        OWNED char *known = hf_family_list();
        if (missing)
            error_set("the model_type \"%.64s\" is not supported: it has %s; supported: %s", model_type, missing,
                      known);
        else
            error_set("the model_type \"%.64s\" is not supported; supported: %s", model_type, known);
        return -1;
    }
    return 0;
}

// Other programs often drop depths that the configuration still names.
static void drop_missing_depths(struct model_source *source, const struct hf_source *detail) {
    OWNED char *name = memory_printf("model.layers.%lld.eh_proj.weight", (long long)source->config.model.num_layers);
    if (source->config.model.mtp_num_layers > 0 && !find_weight(detail, name)) {
        source->config.model.mtp_num_layers = 0;
        buffer_printf(&source->notes, "config.json names layers that predict further tokens, and no file has them");
    }
}

// A LoRA adapter is refused: transformers adds its matrices to the weights of the model that it names.
static int check_adapter(const struct model_source *source) {
    return file_is_in(source->path, "adapter_config.json")
               ? error_set("%s has an adapter (adapter_config.json), which is not supported: merge it into the "
                           "model (merge_and_unload of peft), or remove that file if it is left over",
                           source->path)
               : 0;
}

// Errors in weight files do not name config.json.
static int read_model(struct model_source *source, struct hf_source *detail, const char *path) {
    TRY(check_adapter(source));
    if (!file_exists(path))
        return error_set(
            "%s has weights of Hugging Face but no config.json, which says what model they are; copy it too",
            source->path);
    if (read_config(source, detail, path) < 0)
        return error_context("cannot use %s", path);
    TRY(weights_open_folder(&detail->weights, source->path));
    if (detail->family->has_fp8_blocks && weights_pair_blocks(&detail->weights) < 0)
        return error_context("cannot use %s", source->path);
    if (hf_config_read(detail->family, source->foreign_config, &detail->weights, &source->config) < 0)
        return error_context("cannot use %s", path);
    drop_missing_depths(source, detail);
    return 0;
}

static int open_source(struct model_source *source, const struct model_source_options *options) {
    (void)options;
    struct hf_source *detail = memory_alloc(sizeof *detail);
    source->detail = detail;
    OWNED char *path = file_join(source->path, "config.json");
    TRY(read_model(source, detail, path));
    TRY(hf_tokenizer_find(source));
    find_other_files(source);
    TRY(source_build(source));
    source->has_bare_names = !weights_find(&detail->weights, detail->family->embedding);
    if (source->config.model.mtp_num_layers > 0)
        TRY(check_copies(detail));
    return hf_source_plan(source);
}

static int read_blocks(const struct hf_plan *plan, size_t bytes, uint16_t *to) {
    const struct weight *const *pieces = plan->pieces;
    OWNED unsigned char *blocks = memory_alloc(pieces[0]->bytes + 1), *scales = memory_alloc(pieces[1]->bytes + 1);
    TRY(weight_read(pieces[0], blocks));
    TRY(weight_read(pieces[1], scales));
    hf_dequantize_mxfp4(to, blocks, scales, bytes / sizeof *to);
    return 0;
}

static int read_reordered(const struct model_source *source, size_t i, void *to) {
    const struct hf_plan *plan = &((struct hf_source *)source->detail)->plans[i];
    const struct source_tensor *tensor = &source->tensors[i];
    OWNED void *memory = memory_alloc(tensor->bytes + 1);
    bool is_mxfp4 = plan->transform == HF_MXFP4_PAIRS;
    TRY(is_mxfp4 ? read_blocks(plan, tensor->bytes, memory) : weight_read(plan->pieces[0], memory));
    hf_reorder(&(struct hf_reorder){.transform = is_mxfp4 ? HF_PAIRS : plan->transform,
                                    .to = to,
                                    .from = memory,
                                    .param = source->params.items[i],
                                    .config = &source->config,
                                    .bytes = tensor->bytes,
                                    .element = dtype_bytes(tensor->dtype)});
    return 0;
}

int hf_source_read(struct model_source *source, size_t i, void *to) {
    const struct hf_plan *plan = &((struct hf_source *)source->detail)->plans[i];
    if (plan->transform == HF_MXFP4)
        return read_blocks(plan, source->tensors[i].bytes, to);
    if (plan->transform == HF_MXFP4_PAIRS || hf_is_reordered(plan->transform))
        return read_reordered(source, i, to);
    unsigned char *at = to;
    for (int k = 0; k < plan->count; k++) {
        TRY(weight_read(plan->pieces[k], at));
        at += plan->pieces[k]->bytes;
    }
    return 0;
}

void hf_source_close(struct model_source *source) {
    OWNED struct hf_source *detail = source->detail;
    if (!detail)
        return;
    weights_close(&detail->weights);
    for (size_t i = 0; detail->plans && i < source->count; i++)
        free(detail->plans[i].pieces);
    free(detail->plans);
    free(detail->is_used);
}

const struct model_source_kind source_huggingface = {.name = "huggingface",
                                                     .is_folder = hf_surroundings_is_folder,
                                                     .open = open_source,
                                                     .read = hf_source_read,
                                                     .close = hf_source_close};
