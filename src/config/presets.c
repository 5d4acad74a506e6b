// Presets: a preset is a short command line that sets the flags that are not given. The table is in presets_table.c.
#include "config/flags.h"
#include "base/error.h"
#include "base/memory.h"
#include "base/words.h"
#include "config/config.h"
#include "config/validate.h"
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
    struct nearest nearest = nearest_begin(name, strlen(name));
    const struct preset *preset = NULL;
    const char *longer = NULL;  // qwen3-30b is the beginning of qwen3-30b-a3b
    for (size_t i = 0; (preset = preset_at(i)); i++) {
        nearest_consider(&nearest, preset->name);
        if (!longer && strncmp(preset->name, name, strlen(name)) == 0 && preset->name[strlen(name)] == '-')
            longer = preset->name;
    }
    const char *meant = longer ? longer : nearest.best;
    return error_set_code(EXIT_CODE_USAGE, "--preset %s is not known; %s%s%s`bevatron help presets` lists them", name,
                          meant ? "did you mean " : "", meant ? meant : "", meant ? "? " : "");
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

// "--flag value --flag value …", separated by spaces.
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

static int apply_sizes(struct config *config, const struct preset *preset) {
    TRY(give(config, "--num-layers", preset->layers));
    TRY(give(config, "--hidden-size", preset->hidden));
    TRY(give(config, "--num-attention-heads", preset->heads));
    TRY(give(config, "--make-vocab-size-divisible-by", preset->vocab_multiple));
    TRY(give_all(config, preset->kind));
    TRY(give_all(config, preset->more));
    // A longer --seq-length needs a longer table, unless the user gives its size.
    int64_t positions = preset->positions > config->run.seq_length ? preset->positions : config->run.seq_length;
    return give(config, "--max-position-embeddings", positions);
}

// Replaces the family named by --model by a form and its flags, so that later code needs no families.
static int apply_family(struct config *config) {
    const struct preset_family *family = NULL;
    for (size_t i = 0; (family = preset_family_at(i)) && family->name != config->model.form; i++)
        ;
    if (!family)
        return 0;
    config->model.form = family->form;
    return give_all(config, family->kind);
}

int config_apply_preset(struct config *config) {
    const struct preset *preset = config->model.preset ? find_preset(config->model.preset) : NULL;
    if (config->model.preset && !preset)
        return unknown_preset(config->model.preset);
    if (preset)
        TRY(apply_sizes(config, preset));
    TRY(apply_family(config));
    return config_apply_deepspeed(config);
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

const char *config_preset_parameters(size_t i) {
    const struct preset *preset = preset_at(i);
    return preset ? preset->parameters : NULL;
}

int64_t config_preset_vocabulary(const char *name) {
    const struct preset *preset = find_preset(name);
    return preset ? preset->vocabulary : 0;
}
