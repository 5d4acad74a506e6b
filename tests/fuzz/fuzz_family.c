// layer: formats
// config.json of Hugging Face from hostile bytes. A valid configuration must be written as JSON that is read as the
// same model.
#include "fuzz.h"

#include "base/log.h"
#include "formats/hf_config.h"
#include "model/likeness.h"
#include <string.h>

static void round_trip(const struct hf_family *family, const struct config *config, const struct json *root) {
    struct buffer text = {0}, ours = {0};
    struct weights weights = {0};
    struct config again;
    struct json *written = NULL, *flags = NULL;
    hf_config_write(&(struct hf_config_write){.family = family, .config = config, .base = root, .dtype = "float32"},
                    &text);
    CHECK(json_parse(&written, text.data, text.length, "config.json") == 0);
    config_defaults(&again);
    CHECK(hf_config_read(family, written, &weights, &again) == 0);
    struct json_writer writer = {.out = &ours};
    config_to_json(config, &writer);
    CHECK(json_parse(&flags, ours.data, ours.length, "config") == 0);
    CHECK(likeness_check_json(flags, &again, false, "config") == 0);
    json_free(flags);
    json_free(written);
    config_free(&again);
    buffer_free(&ours);
    buffer_free(&text);
}

// A BERT without token types gets a table of them there.
static bool comes_back(const struct config *config) {
    return config->model.form != CONFIG_BERT || config_token_types(&config->model) > 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    log_set_level(LOG_ERROR);
    struct json *root = NULL;
    const char *type = NULL;
    if (json_parse(&root, (const char *)data, size, "config.json") == 0 &&
        json_get_string(root, "model_type", &type) == 0) {
        const struct hf_family *family = hf_family_find(type, root);
        struct weights weights = {0};
        struct config config;
        config_defaults(&config);
        if (family && hf_config_read(family, root, &weights, &config) == 0 &&
            config_validate_for(&config, 1, CONFIG_GENERATE) == 0 && hf_config_family(&config, type, false) == family &&
            comes_back(&config))
            round_trip(family, &config, root);
        config_free(&config);
    }
    json_free(root);
    return 0;
}
