// How the layers of a model are cut into the pieces of a pipeline. With several chunks a stage, piece
// chunk * stages + stage lies on that stage, as in parallel/schedule.h. A stage's layers are divided evenly among its
// chunks, and pieces follow each other in the order of the layers. An embedding or a head that counts as a layer takes
// the place of one in the first or last piece, which then may have no layers at all.
#include "config/config.h"

int64_t config_chunks(const struct config *config) {
    if (config->num_virtual_stages_per_pipeline_rank > 0)
        return config->num_virtual_stages_per_pipeline_rank;
    int64_t together = config->num_layers_per_virtual_pipeline_stage;
    int64_t chunks = together > 0 ? config_stage_places(config, 0) / together : 1;
    return chunks > 0 ? chunks : 1;
}

int64_t config_layers(const struct config *config) {
    return config_encoder_layers(config) + config_decoder_layers(config);
}

int64_t config_split_stage(const struct config *config) {
    int64_t stages = config->pipeline_model_parallel_size, encoder = config_encoder_layers(config);
    if (config_form(config) != CONFIG_T5)
        return 0;
    if (stages == 1 || config->pipeline_model_parallel_split_rank > 0)
        return stages == 1 ? 0 : config->pipeline_model_parallel_split_rank;
    // In proportion to the layers, but at least one stage for each stack.
    int64_t split = (stages * encoder + config_layers(config) / 2) / config_layers(config);
    return split < 1 ? 1 : split > stages - 1 ? stages - 1 : split;
}

bool config_weighs_ends(const struct config *config) {
    return config->account_for_embedding_in_pipeline_split || config->account_for_loss_in_pipeline_split;
}

int64_t config_stage_layers(const struct config *config, int64_t stage) {
    int64_t last = config->pipeline_model_parallel_size - 1;
    return config_stage_places(config, stage) -
           (stage == 0 && last > 0 && config->account_for_embedding_in_pipeline_split) -
           (stage == last && last > 0 && config->account_for_loss_in_pipeline_split);
}

int64_t config_stage_places(const struct config *config, int64_t stage) {
    int64_t stages = config->pipeline_model_parallel_size, split = config_split_stage(config);
    int64_t first = config->decoder_first_pipeline_num_layers, last = config->decoder_last_pipeline_num_layers;
    if (split > 0)
        return stage < split ? config_encoder_layers(config) / split : config_decoder_layers(config) / (stages - split);
    if (config_weighs_ends(config))
        return (config_layers(config) + config->account_for_embedding_in_pipeline_split +
                config->account_for_loss_in_pipeline_split) /
               stages;
    if (stage == 0 && first > 0)
        return first;
    if (stage == stages - 1 && last > 0)
        return last;
    int64_t even = stages - (first > 0) - (last > 0);
    return even > 0 ? (config_layers(config) - first - last) / even : 0;
}

struct config_piece config_whole(const struct config *config) {
    return (struct config_piece){.encoder_count = config_encoder_layers(config),
                                 .decoder_count = config_decoder_layers(config),
                                 .begins = true,
                                 .ends = true};
}

// The layers of a piece of a model with one stack.
static int64_t piece_layers(const struct config *config, int64_t piece) {
    int64_t stages = config->pipeline_model_parallel_size, chunks = config_chunks(config);
    return config_stage_places(config, piece % stages) / chunks -
           (piece == 0 && config->account_for_embedding_in_pipeline_split) -
           (piece == stages * chunks - 1 && config->account_for_loss_in_pipeline_split);
}

// Of an encoder and a decoder, the pieces of one come before all of the other's.
static struct config_piece piece_of_two(const struct config *config, int64_t piece) {
    int64_t stages = config->pipeline_model_parallel_size, chunks = config_chunks(config);
    int64_t first_decoder = config_split_stage(config) * chunks;
    bool is_encoder = piece < first_decoder;
    int64_t begin = is_encoder ? 0 : first_decoder, end = is_encoder ? first_decoder : stages * chunks;
    int64_t count = config_stage_layers(config, is_encoder ? 0 : stages - 1) / chunks, first = (piece - begin) * count;
    if (is_encoder)
        return (struct config_piece){
            .encoder_first = first, .encoder_count = count, .begins = piece == begin, .ends = piece == end - 1};
    return (struct config_piece){
        .decoder_first = first, .decoder_count = count, .begins = piece == begin, .ends = piece == end - 1};
}

struct config_piece config_piece(const struct config *config, int64_t piece) {
    int64_t pieces = config->pipeline_model_parallel_size * config_chunks(config), first = 0;
    if (config->pipeline_model_parallel_size == 1)
        return config_whole(config);
    if (config_split_stage(config) > 0)
        return piece_of_two(config, piece);
    for (int64_t p = 0; p < piece; p++)
        first += piece_layers(config, p);
    struct config_piece result = {.begins = piece == 0, .ends = piece == pieces - 1};
    bool is_encoder = config_form(config) == CONFIG_BERT;
    *(is_encoder ? &result.encoder_first : &result.decoder_first) = first;
    *(is_encoder ? &result.encoder_count : &result.decoder_count) = piece_layers(config, piece);
    return result;
}
