// Counts over the parameters that a model declares. See census.h.
#include "model/census.h"
#include "model/model.h"

#include <string.h>

void census_declare(const struct config *config, struct param_list *params) {
    struct model model;
    model_build(&model, params, &(struct model_options){.config = config, .chunk = config_whole(&config->model)});
    model_free(&model);
}

int64_t census_parameters(const struct config *config) {
    struct param_list params = {0};
    census_declare(config, &params);
    int64_t count = param_list_elements(&params);
    param_list_free(&params);
    return count;
}

const char *census_name(const char *name) {
    static const char *const scopes[] = {"query_model.", "context_model.", "shared_model."};
    for (size_t i = 0; i < sizeof scopes / sizeof scopes[0]; i++)
        if (strncmp(name, scopes[i], strlen(scopes[i])) == 0)
            return name + strlen(scopes[i]);
    return name;
}

// Fraction of a parameter's elements that one token uses: it is routed to only some of the experts.
static double active_share(const struct config_model *model, const char *name) {
    bool is_of_experts = strstr(name, ".mlp.experts.");
    return is_of_experts ? (double)model->moe_router_topk / (double)model->num_experts : 1;
}

static int64_t active_parameters(const struct config_model *model, const struct param_list *params) {
    double count = 0;
    for (int i = 0; i < params->count; i++)
        count += (double)shard_global_count(&params->items[i]->shard) * active_share(model, params->items[i]->name);
    return (int64_t)count;
}

int64_t census_active_parameters(const struct config *config) {
    return census_take(config).active;
}

static void count_matrix(struct census *census, const struct config_model *model, const struct param *param) {
    const char *name = census_name(param->name);
    double elements = (double)shard_global_count(&param->shard) * active_share(model, name);
    // Attention itself: the mean of the channels of queries and of values.
    double columns = (double)param->shard.global[1];
    if (model->multi_latent_attention && strstr(name, ".linear_proj."))
        columns = (columns + (double)(model->num_attention_heads * model->kv_channels)) / 2;
    bool is_encoder = strncmp(name, "encoder.", strlen("encoder.")) == 0;
    if (strstr(name, ".linear_") || strstr(name, ".eh_proj."))
        *(is_encoder ? &census->encoder : &census->decoder) += elements;
    else if (strcmp(name, "embedding.word_embeddings.weight") == 0 || strstr(name, ".projection."))
        census->head += elements;
    if (strstr(name, ".cross_attention.linear_proj."))
        census->cross_channels += columns;
    else if (strstr(name, ".linear_proj."))
        *(is_encoder ? &census->encoder_channels : &census->channels) += columns;
}

struct census census_take(const struct config *config) {
    struct param_list params = {0};
    struct census census = {0};
    census_declare(config, &params);
    for (int i = 0; i < params.count; i++)
        if (params.items[i]->shard.rank >= 2 && params.items[i]->has_decay)
            count_matrix(&census, &config->model, params.items[i]);
    census.parameters = param_list_elements(&params);
    census.active = active_parameters(&config->model, &params);
    param_list_free(&params);
    census.depth_norms = 3 * (double)config->model.mtp_num_layers * (double)config->model.hidden_size;
    return census;
}

double census_flops(const struct census *census, const struct config *config, int64_t global_batch_size) {
    bool is_t5 = config->model.form == CONFIG_T5, has_decoder = !config_is_encoder(&config->model);
    double B = (double)global_batch_size, s = (double)config->run.seq_length;
    // The projections of first tokens and the scores are left out: few rows.
    if (config->model.form == CONFIG_ICT) {
        double texts = config->model.biencoder_shared_query_context_model ? 2 : 1;  // that go through each matrix
        return texts * (6 * B * s * census->encoder + 12 * B * s * s * census->encoder_channels);
    }
    double S = is_t5 ? (double)config->run.decoder_seq_length : s;
    double encoder =
        6 * B * s * (census->encoder + (has_decoder ? 0 : census->head)) + 12 * B * s * s * census->encoder_channels;
    double outputs = 1 + (double)config->model.mtp_num_layers;
    double decoder = 6 * B * S * (census->decoder + census->depth_norms + outputs * census->head) +
                     6 * B * S * S * census->channels + 12 * B * S * s * census->cross_channels;
    return encoder + (has_decoder ? decoder : 0);
}
