// Rotary scaling by a number alpha, which stretches the base: Hunyuan calls it "dynamic", but it does not depend on the
// length. The members stay in config.json as long as they give the base of the model.
#include "base/error.h"
#include "formats/hf_config.h"
#include <math.h>
#include <string.h>

static double number_of(const struct json *object, const char *key) {
    const struct json *value = object ? json_member(object, key) : NULL;
    return value && value->type == JSON_NUMBER ? value->number : 0;
}

static const struct json *object_of(const struct json *root, const char *key) {
    const struct json *value = json_member(root, key);
    return value && value->type == JSON_OBJECT && value->count > 0 ? value : NULL;
}

static bool is_dynamic(const struct json *scaling, const char *key) {
    const struct json *kind = json_member(scaling, key);
    return kind && kind->type == JSON_STRING && strcmp(kind->string, "dynamic") == 0;
}

const struct json *hf_alpha_scaling(const struct json *root) {
    const struct json *scaling = object_of(root, "rope_scaling");
    scaling = scaling ? scaling : object_of(root, "rope_parameters");
    bool is_there = scaling && (is_dynamic(scaling, "rope_type") || is_dynamic(scaling, "type"));
    return is_there && number_of(scaling, "alpha") != 0 ? scaling : NULL;
}

double hf_alpha_base(const struct json *root, const struct config *config, double base) {
    double head = config->kv_channels > 0 ? (double)config->kv_channels
                                          : floor((double)config->hidden_size / (double)config->num_attention_heads);
    return base * pow(number_of(hf_alpha_scaling(root), "alpha"), head / (head - 2));
}
