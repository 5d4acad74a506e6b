// FLOPs of a training step. See flops.h.
#include "model/flops.h"

double flops_per_step(const struct config *config, int64_t global_batch_size) {
    double B = (double)global_batch_size, s = (double)config->seq_length, L = (double)config->num_layers;
    double h = (double)config->hidden_size, f = (double)config->ffn_hidden_size;
    double q = (double)config->num_attention_heads * (double)config->kv_channels;
    double V = (double)config->padded_vocab_size;
    double mlp = L * h * f * 2, attention = L * (h * 3 * q + q * h), head = h * V;
    return 6 * B * s * (mlp + attention + head) + 6 * B * s * s * q * L;
}
