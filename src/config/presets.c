// Published models by name. A preset is a short command line: it gives values to the flags the user did not give.
// Sizes are those of the papers; the test computes every parameter count from the flags and compares it with the
// published one.
#include "config/config.h"
#include "base/error.h"
#include "base/memory.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

struct preset {
    const char *name;
    int64_t layers, hidden, heads, positions;
    int64_t vocab_multiple;
    const char *parameters;  // as published
    const char *source;
};

// GPT-3 13B is printed with a width of 5140, and 1.3B with 24 heads of 128, which do not fit their own tables; the
// values here (5120, 16 heads) are the ones everybody trains. The Megatron family has a vocabulary of 51200: 50257
// padded to a multiple of 1024.
static const struct preset presets[] = {
    {"gpt2-124m", 12, 768, 12, 1024, 128, "124M", "Radford et al. 2019"},
    {"gpt2-355m", 24, 1024, 16, 1024, 128, "355M", "Radford et al. 2019"},
    {"gpt2-774m", 36, 1280, 20, 1024, 128, "774M", "Radford et al. 2019"},
    {"gpt2-1558m", 48, 1600, 25, 1024, 128, "1558M", "Radford et al. 2019"},
    {"gpt3-125m", 12, 768, 12, 2048, 128, "125M", "Brown et al. 2020"},
    {"gpt3-350m", 24, 1024, 16, 2048, 128, "350M", "Brown et al. 2020"},
    {"gpt3-760m", 24, 1536, 16, 2048, 128, "760M", "Brown et al. 2020"},
    {"gpt3-1.3b", 24, 2048, 16, 2048, 128, "1.3B", "Brown et al. 2020"},
    {"gpt3-2.7b", 32, 2560, 32, 2048, 128, "2.7B", "Brown et al. 2020"},
    {"gpt3-6.7b", 32, 4096, 32, 2048, 128, "6.7B", "Brown et al. 2020"},
    {"gpt3-13b", 40, 5120, 40, 2048, 128, "13B", "Brown et al. 2020"},
    {"gpt3-175b", 96, 12288, 96, 2048, 128, "175B", "Brown et al. 2020"},
    {"megatron-1.7b", 24, 2304, 24, 2048, 1024, "1.7B", "Narayanan et al. 2021"},
    {"megatron-3.6b", 30, 3072, 32, 2048, 1024, "3.6B", "Narayanan et al. 2021"},
    {"megatron-7.5b", 36, 4096, 32, 2048, 1024, "7.5B", "Narayanan et al. 2021"},
    {"megatron-18b", 40, 6144, 48, 2048, 1024, "18.4B", "Narayanan et al. 2021"},
    {"megatron-39b", 48, 8192, 64, 2048, 1024, "39.1B", "Narayanan et al. 2021"},
    {"megatron-76b", 60, 10240, 80, 2048, 1024, "76.1B", "Narayanan et al. 2021"},
    {"megatron-145b", 80, 12288, 96, 2048, 1024, "145.6B", "Narayanan et al. 2021"},
    {"megatron-310b", 96, 16384, 128, 2048, 1024, "310.1B", "Narayanan et al. 2021"},
    {"megatron-530b", 105, 20480, 128, 2048, 1024, "529.6B", "Narayanan et al. 2021"},
    {"megatron-1t", 128, 25600, 160, 2048, 1024, "1008.0B", "Narayanan et al. 2021"},
};
enum { PRESET_COUNT = sizeof presets / sizeof presets[0] };

static const struct preset *find_preset(const char *name) {
    for (size_t i = 0; i < PRESET_COUNT; i++)
        if (strcmp(presets[i].name, name) == 0)
            return &presets[i];
    return NULL;
}

static int unknown_preset(const char *name) {
    struct buffer names = {0};
    for (size_t i = 0; i < PRESET_COUNT; i++)
        buffer_printf(&names, "%s%s", i ? ", " : "", presets[i].name);
    error_set_code(EXIT_CODE_USAGE, "--preset %s is not known; there are %s", name, buffer_string(&names));
    buffer_free(&names);
    return -1;
}

static int give(struct config *config, const char *flag, int64_t value) {
    if (flag_is_given(&config->given, flag))
        return 0;
    struct flag_table table = config_flag_table(0);
    char *text = memory_printf("%" PRId64, value);
    int status = flag_set(&table, config, flag, text, FLAG_FROM_PRESET);
    free(text);
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
    // A longer --seq-length wants a longer table, unless the user says otherwise.
    int64_t positions = preset->positions > config->seq_length ? preset->positions : config->seq_length;
    return give(config, "--max-position-embeddings", positions);
}

void config_list_presets(struct buffer *out) {
    buffer_printf(out, "%-14s %10s %7s %7s %6s %10s   %s\n", "preset", "parameters", "layers", "hidden", "heads",
                  "positions", "from");
    for (size_t i = 0; i < PRESET_COUNT; i++) {
        const struct preset *p = &presets[i];
        buffer_printf(out, "%-14s %10s %7" PRId64 " %7" PRId64 " %6" PRId64 " %10" PRId64 "   %s\n", p->name,
                      p->parameters, p->layers, p->hidden, p->heads, p->positions, p->source);
    }
}
