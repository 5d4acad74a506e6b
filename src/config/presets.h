// Published models by name. Internal to this folder.
#ifndef CONFIG_PRESETS_H
#define CONFIG_PRESETS_H

#include "config/model_value.h"
#include <stddef.h>
#include <stdint.h>

struct preset {
    const char *name;
    int64_t layers, hidden, heads, positions;
    int64_t vocabulary;      // rows of the released embedding: a plan uses it as the tokenizer's size
    int64_t vocab_multiple;  // --make-vocab-size-divisible-by
    const char *kind;        // flags of its family, "--flag value …"
    const char *more;        // flags of its own, or ""
    const char *parameters;  // as published
    const char *source;
};

// A family named by --model that is another form with other flags.
struct preset_family {
    enum config_form name, form;
    const char *kind;  // "--flag value …"
};

// Row i of each table, NULL after the last.
const struct preset *preset_at(size_t i);
const struct preset_family *preset_family_at(size_t i);

#endif
