// Which layers have experts, as Qwen's families say it: every decoder_sparse_step-th one, but none of mlp_only_layers.
#include "base/error.h"
#include "base/memory.h"
#include "checkpoint/hf_config.h"
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static int read_step(const struct json *root, int64_t *step) {
    const struct json *value = json_member(root, "decoder_sparse_step");
    *step = 1;
    if (!value || value->type == JSON_NULL)
        return 0;
    if (value->type != JSON_NUMBER || !(value->number >= 1 && value->number < 1e6) ||
        value->number != floor(value->number))
        return error_set("its \"decoder_sparse_step\" is not a number of layers");
    *step = (int64_t)value->number;
    return 0;
}

// `layers` has room for `count`.
static int read_layers(const struct json *root, bool *layers, int64_t count) {
    const struct json *dense = json_member(root, "mlp_only_layers");
    int64_t step = 1;
    TRY(read_step(root, &step));
    for (int64_t i = 0; i < count; i++)
        layers[i] = (i + 1) % step == 0;
    if (!dense || dense->type == JSON_NULL)
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

char *hf_sparse_layers_read(const struct json *root, int64_t count) {
    bool *layers = memory_alloc((size_t)count + 1);
    int64_t sparse = 0;
    if (read_layers(root, layers, count) < 0) {
        free(layers);
        return NULL;
    }
    struct buffer text = {0};
    for (int64_t i = 0; i < count; i++) {
        sparse += layers[i];
        buffer_printf(&text, "%s%d", i > 0 ? "," : "[", layers[i]);
    }
    char *list = sparse == count ? memory_string("1") : memory_printf("%s]", buffer_string(&text));
    buffer_free(&text);
    free(layers);
    return list;
}

// Those of a valid configuration, to be freed.
static bool *list_layers(const struct config *config) {
    bool *layers = memory_alloc((size_t)config->num_layers + 1);
    CHECK(config_parse_layer_freq(config->moe_layer_freq, layers, config->num_layers) == 0);
    return layers;
}

bool hf_sparse_layers_are(const struct json *base, const struct config *config) {
    size_t count = (size_t)config->num_layers;
    bool *layers = list_layers(config), *theirs = memory_alloc(count + 1);
    bool are_same = read_layers(base, theirs, config->num_layers) == 0 && memcmp(layers, theirs, count) == 0;
    free(layers);
    free(theirs);
    return are_same;
}

char *hf_sparse_layers_dense(const struct config *config) {
    struct buffer text = {0};
    bool *layers = list_layers(config);
    for (int64_t i = 0; i < config->num_layers; i++)
        if (!layers[i])
            buffer_printf(&text, "%s%" PRId64, text.length > 0 ? ", " : "", i);
    char *list = memory_printf("[%s]", buffer_string(&text));
    buffer_free(&text);
    free(layers);
    return list;
}
