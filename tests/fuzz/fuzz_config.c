// layer: model
// A configuration file from hostile bytes. A valid configuration must be written as JSON that describes the same model,
// and gives that model when read into an empty configuration.
#include "fuzz.h"

#include "base/log.h"
#include "model/likeness.h"

#include <string.h>

static void round_trip(struct config *config) {
    struct buffer text = {0};
    config_dump(config, false, &text);
    buffer_clear(&text);
    struct json_writer writer = {.out = &text};
    config_to_json(config, &writer);
    struct json *object = NULL;
    CHECK(json_parse(&object, text.data, text.length, "config") == 0);
    CHECK(likeness_check_json(object, config, false, "config") == 0);
    struct config other;
    config_defaults(&other);
    CHECK(config_from_json(&other, object) == 0);
    CHECK(likeness_check_json(object, &other, false, "config") == 0);
    config_free(&other);
    json_free(object);
    buffer_free(&text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    log_set_level(LOG_ERROR);
    struct config config;
    config_defaults(&config);
    if (flags_read_text(config_command(), &config, "fuzz", (const char *)data, size) == 0 &&
        config_apply_preset(&config) == 0 && config_validate(&config, 1) == 0) {
        CHECK(config.run.train_iters > 0 || config.run.skip_train);
        CHECK(config.run.lr_warmup_steps < (double)config.run.lr_decay_steps || config.run.lr_decay_steps == 0 ||
              strcmp(config.run.lr_decay_style, "polynomial_decay") == 0);
        if (config_pad_vocab(&config, config.data.vocab_size > 0 ? config.data.vocab_size : 50257) == 0)
            round_trip(&config);
    }
    config_free(&config);
    return 0;
}
