// Which layers have experts, in each family's way: every decoder_sparse_step-th but none of mlp_only_layers (Qwen's);
// all after first_k_dense_replace layers (DeepSeek's); a list, mlp_layer_types; or a range of them (ERNIE's).
#include "base/error.h"
#include "base/memory.h"
#include "formats/hf_config.h"
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

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
    TRY(hf_whole_of(root, "first_k_dense_replace", family->dense_layers, &dense));
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
    struct buffer text = {0};
    while (dense < count && !layers[dense])
        dense++;
    for (int64_t i = 0; i < count; i++) {
        sparse += layers[i];
        buffer_printf(&text, "%s%d", i > 0 ? "," : "[", layers[i]);
    }
    char *list = sparse == count                       ? memory_string("1")
                 : is_listed || dense + sparse < count ? memory_printf("%s]", buffer_string(&text))
                                                       : memory_printf("[0]*%" PRId64 "+[1]*%" PRId64, dense, sparse);
    buffer_free(&text);
    return list;
}

char *hf_sparse_read(const struct hf_family *family, const struct json *root, int64_t count) {
    bool *layers = memory_alloc((size_t)count + 1), has_any = false;
    char *name = NULL;
    int status = read_layers(family, root, layers, count);
    for (int64_t i = 0; i < count; i++)
        has_any = has_any || layers[i];
    if (status == 0 && !has_any && family->sparse != HF_SPARSE_STEP)
        (void)error_set("none of its %" PRId64 " layers has experts, which is not supported", count);
    else if (status == 0)
        name = name_layers(family, layers, count);
    free(layers);
    return name;
}

// ---- writing ----

bool hf_sparse_are(const struct hf_family *family, const struct json *base, const struct config *config) {
    size_t count = (size_t)config->num_layers;
    bool *layers = config_list_expert_layers(config), *theirs = memory_alloc(count + 1);
    bool are_same = read_layers(family, base, theirs, config->num_layers) == 0 && memcmp(layers, theirs, count) == 0;
    error_clear();
    free(layers);
    free(theirs);
    return are_same;
}

int64_t hf_dense_layers(const struct config *config) {
    int64_t dense = 0, L = config->num_layers;
    bool *layers = config_list_expert_layers(config);
    while (dense < L && !layers[dense])
        dense++;
    free(layers);
    return config_expert_layers(config) == L - dense ? dense : -1;
}

bool hf_sparse_is_possible(const struct hf_family *family, const struct config *config) {
    if (family->sparse == HF_SPARSE_ALL)
        return config_expert_layers(config) == config->num_layers;
    return family->sparse != HF_SPARSE_FIRST || hf_dense_layers(config) >= 0;
}

static char *list_dense(const struct config *config) {
    struct buffer text = {0};
    bool *layers = config_list_expert_layers(config);
    for (int64_t i = 0; i < config->num_layers; i++)
        if (!layers[i])
            buffer_printf(&text, "%s%" PRId64, text.length > 0 ? ", " : "", i);
    char *list = memory_printf("[%s]", buffer_string(&text));
    buffer_free(&text);
    free(layers);
    return list;
}

static char *list_types(const struct config *config) {
    struct buffer text = {0};
    bool *layers = config_list_expert_layers(config);
    for (int64_t i = 0; i < config->num_layers; i++)
        buffer_printf(&text, "%s\"%s\"", i > 0 ? ", " : "[", layers[i] ? "sparse" : "dense");
    char *list = memory_printf("%s]", buffer_string(&text));
    buffer_free(&text);
    free(layers);
    return list;
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
