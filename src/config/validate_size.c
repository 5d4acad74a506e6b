// Sizes that no device here supports: limits of the operations, and models beyond any memory. Reported as complaints
// about flags before anything is opened; later the same limits would end the process.
#include "config/validate.h"
#include "base/error.h"
#include <inttypes.h>
#include <math.h>

enum {
    MOST_HEAD_SIZE = 4096,  // twice the rotated pairs of channels; a GPU has a lower limit, and reports it
    MOST_HEADS = 65535,     // blocks of a grid along one side
    MOST_LAYERS = 16383,    // four places of dropout each, numbered in 16 bits; T5's decoder counts twice
};
static const double MOST_BYTES = 0x1p48;  // 281 TB; steps are measured in arenas of four times that
static const double TERABYTE = 1e12;

// More than a step takes: parameters, gradients and Adam's state in fp32, and all that a block stores per token. In
// doubles, because the product of the largest flags far exceeds 64 bits.
static double bound_of_bytes(const struct config *config) {
    // Every layer counts as a dense one and, with experts, as one with experts.
    double experts = (double)config->model.num_experts,
           chosen = experts > 0 ? (double)config->model.moe_router_topk : 0;
    double inner = (double)config_expert_width(&config->model),
           shared = (double)config->model.moe_shared_expert_intermediate_size;
    double h = (double)config->model.hidden_size, f = (double)config->model.ffn_hidden_size + shared,
           heads = (double)config->model.num_attention_heads;
    double q = heads * (double)config->model.kv_channels, latents = 0;
    if (config->model.multi_latent_attention) {
        q += heads * (double)config->model.v_head_dim;
        latents = (double)(config->model.q_lora_rank + config->model.kv_lora_rank + config->model.qk_pos_emb_head_dim);
    }
    // A layer of T5's decoder has attention twice; counting every stack's layers twice bounds it.
    double stacks = config->model.form == CONFIG_T5 || config->model.form == CONFIG_ICT ? 2 : 1;
    double layers = stacks * (double)(config_encoder_layers(&config->model) + config_decoder_layers(&config->model));
    double depths = (double)config->model.mtp_num_layers;  // each is a layer, a matmul before it and logits after it
    layers += depths;
    double vocabulary = (double)config->model.padded_vocab_size,
           positions = (double)config->model.max_position_embeddings;
    double tokens = (double)config->run.micro_batch_size * (double)config->run.seq_length;
    if (tokens < positions)
        tokens = positions;  // generation goes up to this length
    double gated = config_is_gated(&config->model) ? 2 : 1,
           output = config->model.untie_embeddings_and_output_weights ? 2 : 1;
    if (config->model.form == CONFIG_ICT) {  // two towers, each with its tables
        output = 2;
        positions *= 2;
    }
    double heads_of_bert = config->model.form == CONFIG_BERT ? 2 * h : 0;
    double words = fmax(h, (double)config_word_embedding_size(&config->model));
    double projections = config_word_embedding_size(&config->model) != config->model.hidden_size ? 2 * words * h : 0;
    double of_experts = experts * ((1 + gated) * h * inner + gated * inner + 2 * h);
    double parameters =
        layers *
            (4 * h * q + latents * (h + 2 * q + 2) + (1 + gated) * h * f + 4 * q + gated * f + 8 * h + of_experts) +
        (output * vocabulary + positions + heads_of_bert + 32) * words + projections + depths * (2 * h + 8) * h;
    // Stored values per token. A padded capacity has more places than there are choices.
    double places = chosen * fmax(1, config->model.moe_expert_capacity_factor);
    double kept = layers * (8 * h + 8 * q + 4 * latents + 4 * gated * f + 2 * heads +
                            places * (2 * h + 4 * gated * inner + 8) + experts) +
                  (1 + depths) * (2 * vocabulary + 16 * h);
    return 20 * parameters + 4 * tokens * kept;
}

// Choices of experts, the places of rows padded to a capacity, and the rows received from all ranks of the experts are
// numbered in 32 bits.
static void validate_places(const struct config *config, struct complaints *complaints) {
    double tokens = (double)config->run.micro_batch_size * (double)config->run.seq_length /
                    (double)config->machine.context_parallel_size;
    double E = (double)config->model.num_experts, choices = tokens * (double)config->model.moe_router_topk,
           places = choices;
    if (config->model.moe_pad_expert_input_to_capacity)
        places = fmax(places, E * fmin(tokens, ceil(choices / E * config_expert_capacity(&config->model))));
    double ranks = (double)config->machine.expert_model_parallel_size;
    double rows = tokens * (double)config_expert_slices(config) / (double)config->machine.tensor_model_parallel_size;
    if (ranks > 1)
        places = fmax(places, ranks * rows * fmin((double)config->model.moe_router_topk, E / ranks));
    if (config->run.fp8_format)  // with block scaling, each expert's rows begin at a multiple of at most 128
        places += 127 * E;
    if (E > 0 && places > INT32_MAX)
        complain(
            complaints,
            "batches of %" PRId64 " × %" PRId64
            " tokens have up to %.3g places at the experts of a rank, and %d is the most; make --micro-batch-size, "
            "--moe-router-topk, --expert-model-parallel-size or a padded --moe-expert-capacity-factor smaller",
            config->run.micro_batch_size, config->run.seq_length, places, INT32_MAX);
}

void validate_size(const struct config *config, struct complaints *complaints) {
    double bytes = bound_of_bytes(config);
    if (config->model.kv_channels > MOST_HEAD_SIZE)
        complain(complaints,
                 "a head is %" PRId64 " channels wide (--kv-channels, else --hidden-size / --num-attention-heads), and "
                 "%d is the most; give more or narrower heads",
                 config->model.kv_channels, MOST_HEAD_SIZE);
    if (config->model.multi_latent_attention && config->model.v_head_dim > MOST_HEAD_SIZE)
        complain(complaints, "--v-head-dim %" PRId64 " is above %d; give less", config->model.v_head_dim,
                 MOST_HEAD_SIZE);
    if (config->model.num_attention_heads > MOST_HEADS)
        complain(complaints, "--num-attention-heads %" PRId64 " is above %d; give fewer",
                 config->model.num_attention_heads, MOST_HEADS);
    int64_t cross = config->model.form == CONFIG_T5 ? config_decoder_layers(&config->model) : 0;
    int64_t layers = config_encoder_layers(&config->model) + config_decoder_layers(&config->model) + cross +
                     config->model.mtp_num_layers;
    if (layers > MOST_LAYERS)
        complain(complaints, "--num-layers %" PRId64 " is above %d; give fewer", layers, MOST_LAYERS);
    // Each tensor-parallel rank has ceil(vocabulary / ranks) rows of it, the last one the remainder.
    int64_t ranks = config->machine.tensor_model_parallel_size, vocabulary = config->model.padded_vocab_size;
    if (vocabulary > 0 && ranks > 1 && (vocabulary + ranks - 1) / ranks * (ranks - 1) >= vocabulary)
        complain(complaints,
                 "a vocabulary of %" PRId64
                 " tokens leaves nothing for the last of --tensor-model-parallel-size %" PRId64
                 " ranks; give --padded-vocab-size %" PRId64 " or fewer ranks",
                 vocabulary, ranks, (vocabulary + ranks - 1) / ranks * ranks);
    validate_places(config, complaints);
    if (bytes >= MOST_BYTES)
        complain(complaints,
                 "this model with batches of %" PRId64 " × %" PRId64
                 " tokens needs about %.0f TB of memory, and %.0f TB "
                 "is the most that is counted with; make the model or --micro-batch-size smaller",
                 config->run.micro_batch_size, config->run.seq_length, bytes / TERABYTE, MOST_BYTES / TERABYTE);
}
