// The timed model, and its matmuls. See bench_model.h.
#include "cli/bench_model.h"
#include "base/error.h"
#include "base/pool.h"
#include "config/flags.h"
#include "model/census.h"

#include <inttypes.h>
#include <string.h>

struct flag_table bench_model_flags(size_t base) {
    struct flag_table table = config_flag_table(base);
    table.essential = USE_BENCH;
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
    if (config->data.vocab_size == 0)
        TRY(set_default(config, "--vocab-size", "50257"));
    if (is_batch_given && config->run.global_batch_size != config->run.micro_batch_size)
        return error_set_code(EXIT_CODE_USAGE,
                              "--global-batch-size %" PRId64 " is not one micro-batch of %" PRId64
                              ", but one micro-batch is timed; leave it out or give --micro-batch-size",
                              config->run.global_batch_size, config->run.micro_batch_size);
    TRY(config_validate_for(config, 1, CONFIG_EVALUATE));
    return config_pad_vocab(config, config->data.vocab_size);
}

struct device_options bench_device_options(const struct config *config) {
    return (struct device_options){.name = config->machine.device,
                                   .threads = config->machine.threads > 0 ? (int)config->machine.threads
                                                                          : pool_available_processors(),
                                   .cpu_kernels = config->machine.cpu_kernels,
                                   .allows_tf32 = config->run.tf32,
                                   .is_deterministic = config->machine.deterministic_mode,
                                   .has_fast_dropout = config->run.fast_attention_dropout};
}

const char *matmul_pass_name(enum matmul_pass pass) {
    static const char *const names[] = {"forward", "input gradient", "weight gradient"};
    return names[pass];
}

// The layers whose matmuls are timed, by the start and a part of their weights' names.
static const struct {
    const char *begins, *has, *layer;
    bool is_encoded;  // its rows are the encoder's tokens, if there are two kinds
} layers[] = {
    {"encoder.layers.", ".self_attention.linear_qkv.weight", "qkv", true},
    {"encoder.layers.", ".self_attention.linear_proj.weight", "proj", true},
    {"encoder.layers.", ".mlp.linear_fc1.weight", "fc1", true},
    {"encoder.layers.", ".mlp.linear_fc2.weight", "fc2", true},
    {"decoder.layers.", ".self_attention.linear_qkv.weight", "qkv", false},
    {"decoder.layers.", ".self_attention.linear_q_down_proj.weight", "q down", false},
    {"decoder.layers.", ".self_attention.linear_q_up_proj.weight", "q up", false},
    {"decoder.layers.", ".self_attention.linear_q_proj.weight", "q", false},
    {"decoder.layers.", ".self_attention.linear_kv_down_proj.weight", "kv down", false},
    {"decoder.layers.", ".self_attention.linear_kv_up_proj.weight", "kv up", false},
    {"decoder.layers.", ".self_attention.linear_proj.weight", "proj", false},
    {"decoder.layers.", ".mlp.linear_fc1.weight", "fc1", false},
    {"decoder.layers.", ".mlp.linear_fc2.weight", "fc2", false},
    {"decoder.layers.", ".cross_attention.linear_q.weight", "cross q", false},
    {"decoder.layers.", ".cross_attention.linear_kv.weight", "cross kv", true},
    {"decoder.layers.", ".cross_attention.linear_proj.weight", "cross proj", false},
    {"embedding.", ".projection.weight", "widen", true},
    {"lm_head.", ".projection.weight", "narrow", false},
    {"lm_head.", ".dense.weight", "transform", false},
    {"embedding.", ".word_embeddings.weight", "head", false},
};

int bench_model_matmuls(const struct config *config, struct model_matmul *list) {
    struct param_list params = {0};
    int count = 0;
    census_declare(config, &params);
    bool has_both = config_form(config) == CONFIG_T5, is_ict = config_form(config) == CONFIG_ICT;
    for (size_t i = 0; i < sizeof layers / sizeof layers[0]; i++) {
        int64_t times = 0, in = 0, out = 0, T = config->run.seq_length;
        for (int k = 0; k < params.count; k++) {
            const struct param *param = params.items[k];
            const char *name = census_name(param->name);
            if (strncmp(name, layers[i].begins, strlen(layers[i].begins)) != 0 || !strstr(name, layers[i].has) ||
                (is_ict && strcmp(layers[i].begins, "embedding.") == 0))  // it has no head
                continue;
            out = param->shard.global[0];
            in = param->shard.global[1];
            times += is_ict && config->model.biencoder_shared_query_context_model ? 2 : 1;  // it reads two texts
        }
        if (times == 0)
            continue;
        CHECK(count + PASS_COUNT <= MOST_MATMULS);
        int64_t N =
            config->run.micro_batch_size * (has_both && !layers[i].is_encoded ? config->run.decoder_seq_length : T);
        list[count++] = (struct model_matmul){layers[i].layer, PASS_FORWARD, N, out, in, times};
        list[count++] = (struct model_matmul){layers[i].layer, PASS_INPUT_GRADIENT, N, in, out, times};
        list[count++] = (struct model_matmul){layers[i].layer, PASS_WEIGHT_GRADIENT, out, in, N, times};
    }
    param_list_free(&params);
    return count;
}
