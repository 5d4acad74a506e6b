// FLOPs of a training step. See flops.h.
#include "model/flops.h"

// Multiplications per token in the products of a stack's layers.
static double stack_products(const struct config *config, int64_t layers, bool has_cross) {
    double h = (double)config->hidden_size, f = (double)config->ffn_hidden_size;
    double q = (double)config->num_attention_heads * (double)config->kv_channels;
    double k = (double)config_query_groups(config) * (double)config->kv_channels;
    double mlp = h * f * (config_is_gated(config) ? 3 : 2), attention = h * (q + 2 * k) + q * h;
    return (double)layers * (mlp + attention + (has_cross ? attention : 0));
}

double flops_per_step(const struct config *config, int64_t global_batch_size) {
    double B = (double)global_batch_size, s = (double)config->seq_length;
    double q = (double)config->num_attention_heads * (double)config->kv_channels;
    double h = (double)config->hidden_size, e = (double)config_word_embedding_size(config);
    double head = e * (double)config->padded_vocab_size + (e != h ? 2 * e * h : 0);
    int64_t encoder = config_encoder_layers(config), decoder = config_decoder_layers(config);
    if (config_form(config) == CONFIG_GPT)
        return 6 * B * s * (stack_products(config, decoder, false) + head) + 6 * B * s * s * q * (double)decoder;
    // Bidirectional attention is not halved.
    double both = 12 * B * s * s * q * (double)encoder;
    if (config_form(config) == CONFIG_BERT)
        return 6 * B * s * (stack_products(config, encoder, false) + head) + both;
    double S = (double)config->decoder_seq_length;
    double decoding = 6 * B * S * (stack_products(config, decoder, true) + head) + 6 * B * S * S * q * (double)decoder +
                      12 * B * S * s * q * (double)decoder;
    return 6 * B * s * stack_products(config, encoder, false) + both + decoding;
}
