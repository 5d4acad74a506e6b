// The model that is timed, and its products. See bench_model.h.
#include "cli/bench_model.h"
#include "base/error.h"
#include "base/pool.h"

#include <inttypes.h>

struct flag_table bench_model_flags(size_t base) {
    struct flag_table table = config_flag_table(base);
    table.essential = "--preset --model --num-layers --hidden-size --num-attention-heads --vocab-size --seq-length "
                      "--micro-batch-size --bf16 --fp16 --fp8-format --recompute-granularity --device --threads ";
    return table;
}

static int set_default(struct config *config, const char *name, const char *value) {
    struct flag_table table = config_flag_table(0);
    return flag_is_given(&config->given, name) ? 0 : flag_set(&table, config, name, value, FLAG_FROM_COMMAND);
}

int bench_model_complete(struct config *config) {
    static const char *const defaults[][2] = {
        {"--micro-batch-size", "4"}, {"--seq-length", "256"}, {"--hidden-dropout", "0"}, {"--attention-dropout", "0"}};
    bool is_batch_given = flag_is_given(&config->given, "--global-batch-size");
    if (!flag_is_given(&config->given, "--model"))
        TRY(set_default(config, "--preset", "gpt2-124m"));
    for (size_t i = 0; i < sizeof defaults / sizeof defaults[0]; i++)
        TRY(set_default(config, defaults[i][0], defaults[i][1]));
    TRY(config_apply_preset(config));
    if (config->vocab_size == 0)
        TRY(set_default(config, "--vocab-size", "50257"));
    if (is_batch_given && config->global_batch_size != config->micro_batch_size)
        return error_set_code(EXIT_CODE_USAGE,
                              "--global-batch-size %" PRId64 " is not one micro-batch of %" PRId64
                              ", which is what is timed; leave it out or give --micro-batch-size",
                              config->global_batch_size, config->micro_batch_size);
    TRY(config_validate_for(config, 1, CONFIG_EVALUATE));
    return config_pad_vocab(config, config->vocab_size);
}

struct device_options bench_device_options(const struct config *config) {
    return (struct device_options){.name = config->device,
                                   .threads = config->threads > 0 ? (int)config->threads : pool_available_processors(),
                                   .cpu_kernels = config->cpu_kernels,
                                   .allows_tf32 = config->tf32,
                                   .is_deterministic = config->deterministic_mode,
                                   .has_fast_dropout = config->fast_attention_dropout};
}

const char *product_pass_name(enum product_pass pass) {
    static const char *const names[] = {"forward", "input gradient", "weight gradient"};
    return names[pass];
}

struct products {
    struct product *list;
    int count;
};

// N rows through a layer from `in` to `out` channels, `times` times in a step.
static void add_linear(struct products *p, const char *layer, int64_t N, int64_t in, int64_t out, int64_t times) {
    if (times == 0)
        return;
    CHECK(p->count + PASS_COUNT <= MOST_PRODUCTS);
    p->list[p->count++] = (struct product){layer, PASS_FORWARD, N, out, in, times};
    p->list[p->count++] = (struct product){layer, PASS_INPUT_GRADIENT, N, in, out, times};
    p->list[p->count++] = (struct product){layer, PASS_WEIGHT_GRADIENT, out, in, N, times};
}

// The widths of a layer. Of a gated MLP the two first matrices are one product.
struct widths {
    int64_t C, q, kv, F, fc1;
};

static void add_layers(struct products *p, const struct widths *w, int64_t N, int64_t layers) {
    add_linear(p, "qkv", N, w->C, w->q + 2 * w->kv, layers);
    add_linear(p, "proj", N, w->q, w->C, layers);
    add_linear(p, "fc1", N, w->C, w->fc1, layers);
    add_linear(p, "fc2", N, w->F, w->C, layers);
}

int bench_model_products(const struct config *config, struct product *list) {
    struct products p = {.list = list};
    enum config_form form = config_form(config);
    int64_t C = config->hidden_size, B = config->micro_batch_size, E = config_word_embedding_size(config);
    int64_t encoder = B * config->seq_length, decoder = form == CONFIG_T5 ? B * config->decoder_seq_length : encoder;
    struct widths w = {.C = C,
                       .q = config->num_attention_heads * config->kv_channels,
                       .kv = config_query_groups(config) * config->kv_channels,
                       .F = config->ffn_hidden_size,
                       .fc1 = config_is_gated(config) ? 2 * config->ffn_hidden_size : config->ffn_hidden_size};
    if (form != CONFIG_T5) {
        add_layers(&p, &w, encoder, config_layers(config));
    } else {
        int64_t layers = config_decoder_layers(config);
        add_layers(&p, &w, encoder, config_encoder_layers(config));
        add_layers(&p, &w, decoder, layers);
        add_linear(&p, "cross q", decoder, C, w.q, layers);
        add_linear(&p, "cross kv", encoder, C, 2 * w.kv, layers);
        add_linear(&p, "cross proj", decoder, w.q, C, layers);
    }
    add_linear(&p, "widen", encoder, E, C, E != C ? 1 : 0);
    add_linear(&p, "narrow", decoder, C, E, E != C ? 1 : 0);
    add_linear(&p, "transform", decoder, C, C, form == CONFIG_BERT ? 1 : 0);
    add_linear(&p, "head", decoder, E, config->padded_vocab_size, 1);
    return p.count;
}
