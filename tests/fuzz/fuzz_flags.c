// layer: model
// A command line from hostile bytes, one word per line. A valid configuration must describe itself as arguments, and as
// JSON with the same meaning. --config is left out: its files have their own target.
#include "fuzz.h"

#include "base/log.h"
#include "base/memory.h"
#include "model/likeness.h"
#include <string.h>

static void check_config(struct config *config) {
    struct buffer text = {0};
    struct json *object = NULL;
    config_dump(config, false, &text);
    buffer_clear(&text);
    struct json_writer writer = {.out = &text};
    config_to_json(config, &writer);
    CHECK(json_parse(&object, text.data, text.length, "config") == 0);
    CHECK(likeness_check_json(object, config, false, "config") == 0);
    json_free(object);
    buffer_free(&text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    log_set_level(LOG_ERROR);
    struct string_list words = {0};
    string_list_add(&words, "train");
    for (size_t at = 0; at < size;) {
        const uint8_t *end = memchr(data + at, '\n', size - at);
        size_t length = end ? (size_t)(end - data) - at : size - at;
        char *word = memory_printf("%.*s", (int)length, (const char *)data + at);
        bool is_ours = strncmp(word, "--config", 8) != 0 && strncmp(word, "--help", 6) != 0 && strcmp(word, "-h") != 0;
        if (is_ours)
            string_list_add(&words, word);
        free(word);
        at += length + 1;
    }
    struct config config = {0};
    if (config_parse(&config, (int)words.count, words.items) == 0 && config_apply_preset(&config) == 0 &&
        config_validate(&config, 1 + (int)(size % 8)) == 0)
        check_config(&config);
    config_free(&config);
    string_list_free(&words);
    return 0;
}
