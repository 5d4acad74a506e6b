// Presets: a preset is a short command line that gives values to the flags the user did not give. The table is in
// presets_table.c.
#include "config/presets.h"
#include "base/error.h"
#include "base/memory.h"
#include "config/config.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static const struct preset *find_preset(const char *name) {
    const struct preset *preset = NULL;
    for (size_t i = 0; (preset = preset_at(i)) && strcmp(preset->name, name) != 0; i++)
        ;
    return preset;
}

static int unknown_preset(const char *name) {
    struct buffer names = {0};
    const struct preset *preset = NULL;
    for (size_t i = 0; (preset = preset_at(i)); i++)
        buffer_printf(&names, "%s%s", i ? ", " : "", preset->name);
    error_set_code(EXIT_CODE_USAGE, "--preset %s is not known; there are %s", name, buffer_string(&names));
    buffer_free(&names);
    return -1;
}

static int give_text(struct config *config, const char *flag, const char *text) {
    struct flag_table table = config_flag_table(0);
    return flag_is_given(&config->given, flag) ? 0 : flag_set(&table, config, flag, text, FLAG_FROM_PRESET);
}

static int give(struct config *config, const char *flag, int64_t value) {
    char *text = memory_printf("%" PRId64, value);
    int status = give_text(config, flag, text);
    free(text);
    return status;
}

// "--flag value --flag value …", separated by blanks.
static int give_all(struct config *config, const char *flags) {
    char *copy = memory_string(flags), *rest = copy;
    int status = 0;
    for (const char *flag = strsep(&rest, " "); flag && *flag && status == 0; flag = strsep(&rest, " ")) {
        const char *value = strsep(&rest, " ");
        CHECK(value != NULL);
        status = give_text(config, flag, value);
    }
    free(copy);
    return status;
}

int config_apply_preset(struct config *config) {
    if (!config->preset)
        return 0;
    const struct preset *preset = find_preset(config->preset);
    if (!preset)
        return unknown_preset(config->preset);
    TRY(give(config, "--num-layers", preset->layers));
    TRY(give(config, "--hidden-size", preset->hidden));
    TRY(give(config, "--num-attention-heads", preset->heads));
    TRY(give(config, "--make-vocab-size-divisible-by", preset->vocab_multiple));
    TRY(give_all(config, preset->kind));
    TRY(give_all(config, preset->more));
    // A longer --seq-length wants a longer table, unless the user says otherwise.
    int64_t positions = preset->positions > config->seq_length ? preset->positions : config->seq_length;
    return give(config, "--max-position-embeddings", positions);
}

void config_list_presets(struct buffer *out) {
    buffer_printf(out, "%-18s %10s %7s %7s %6s %10s   %s\n", "preset", "parameters", "layers", "hidden", "heads",
                  "positions", "from");
    const struct preset *p = NULL;
    for (size_t i = 0; (p = preset_at(i)); i++)
        buffer_printf(out, "%-18s %10s %7" PRId64 " %7" PRId64 " %6" PRId64 " %10" PRId64 "   %s\n", p->name,
                      p->parameters, p->layers, p->hidden, p->heads, p->positions, p->source);
}

const char *config_preset_name(size_t i) {
    const struct preset *preset = preset_at(i);
    return preset ? preset->name : NULL;
}
