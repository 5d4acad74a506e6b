// Division of a model's layers into the chunks of a pipeline. The i-th chunk of a stage has number i * stages + stage,
// as in parallel/schedule.h. A stage's layers are divided evenly among its chunks, and chunks are numbered in the order
// of the layers. An embedding or a head that counts as a layer takes the place of one in the first or last chunk, which
// then may have no layers at all. --pipeline-model-parallel-layout replaces all of this.
#include "config/config.h"
#include "config/pipeline_layout.h"

#include <stdlib.h>

char *config_expand_layout(const struct config *config) {
    struct layout_mistake mistake;
    const char *text = config->machine.pipeline_model_parallel_layout;
    return text ? pipeline_layout_expand(text, &mistake) : NULL;
}

// Number of chunks of each stage in a layout; 0 without one.
static int64_t listed_chunks(const struct config *config) {
    char *layout = config_expand_layout(config);
    int64_t chunks = layout ? pipeline_layout_chunks(layout) / config->machine.pipeline_model_parallel_size : 0;
    free(layout);
    return chunks;
}

int64_t config_chunks(const struct config *config) {
    if (config->machine.num_virtual_stages_per_pipeline_rank > 0)
        return config->machine.num_virtual_stages_per_pipeline_rank;
    int64_t together = config->machine.num_layers_per_virtual_pipeline_stage, listed = listed_chunks(config);
    if (listed > 0)
        return listed;
    int64_t chunks = together > 0 ? config_stage_places(config, 0) / together : 1;
    return chunks > 0 ? chunks : 1;
}

int64_t config_layers(const struct config *config) {
    return config_encoder_layers(config) + config_decoder_layers(config);
}

int64_t config_split_stage(const struct config *config) {
    int64_t stages = config->machine.pipeline_model_parallel_size, encoder = config_encoder_layers(config);
    if (config->model.form != CONFIG_T5)
        return 0;
    if (stages == 1 || config->machine.pipeline_model_parallel_split_rank > 0)
        return stages == 1 ? 0 : config->machine.pipeline_model_parallel_split_rank;
    // In proportion to the layers, but at least one stage for each stack.
    int64_t split = (stages * encoder + config_layers(config) / 2) / config_layers(config);
    return split < 1 ? 1 : split > stages - 1 ? stages - 1 : split;
}

bool config_weighs_ends(const struct config *config) {
    return config->machine.account_for_embedding_in_pipeline_split ||
           config->machine.account_for_loss_in_pipeline_split;
}

int64_t config_stage_layers(const struct config *config, int64_t stage) {
    int64_t last = config->machine.pipeline_model_parallel_size - 1;
    return config_stage_places(config, stage) -
           (stage == 0 && last > 0 && config->machine.account_for_embedding_in_pipeline_split) -
           (stage == last && last > 0 && config->machine.account_for_loss_in_pipeline_split);
}

int64_t config_stage_places(const struct config *config, int64_t stage) {
    int64_t stages = config->machine.pipeline_model_parallel_size, split = config_split_stage(config);
    int64_t first = config->machine.decoder_first_pipeline_num_layers,
            last = config->machine.decoder_last_pipeline_num_layers;
    if (split > 0)
        return stage < split ? config_encoder_layers(config) / split : config_decoder_layers(config) / (stages - split);
    if (config_weighs_ends(config))
        return (config_layers(config) + config->machine.account_for_embedding_in_pipeline_split +
                config->machine.account_for_loss_in_pipeline_split) /
               stages;
    if (stage == 0 && first > 0)
        return first;
    if (stage == stages - 1 && last > 0)
        return last;
    int64_t even = stages - (first > 0) - (last > 0);
    return even > 0 ? (config_layers(config) - first - last) / even : 0;
}

struct config_chunk config_whole(const struct config *config) {
    return (struct config_chunk){.encoder_count = config_encoder_layers(config),
                                 .decoder_count = config_decoder_layers(config),
                                 .begins = true,
                                 .ends = true,
                                 .depths = config->model.mtp_num_layers};
}

// The layers of a chunk of a model with one stack.
static int64_t chunk_layers(const struct config *config, int64_t number) {
    int64_t stages = config->machine.pipeline_model_parallel_size, chunks = config_chunks(config);
    return config_stage_places(config, number % stages) / chunks -
           (number == 0 && config->machine.account_for_embedding_in_pipeline_split) -
           (number == stages * chunks - 1 && config->machine.account_for_loss_in_pipeline_split);
}

// All chunks of the encoder come before those of the decoder.
static struct config_chunk chunk_of_two(const struct config *config, int64_t number) {
    int64_t stages = config->machine.pipeline_model_parallel_size, chunks = config_chunks(config);
    int64_t first_decoder = config_split_stage(config) * chunks;
    bool is_encoder = number < first_decoder;
    int64_t begin = is_encoder ? 0 : first_decoder, end = is_encoder ? first_decoder : stages * chunks;
    int64_t count = config_stage_layers(config, is_encoder ? 0 : stages - 1) / chunks, first = (number - begin) * count;
    if (is_encoder)
        return (struct config_chunk){
            .encoder_first = first, .encoder_count = count, .begins = number == begin, .ends = number == end - 1};
    return (struct config_chunk){
        .decoder_first = first, .decoder_count = count, .begins = number == begin, .ends = number == end - 1};
}

struct config_chunk config_chunk(const struct config *config, int64_t number) {
    if (config->machine.pipeline_model_parallel_size == 1)
        return config_whole(config);
    if (config_split_stage(config) > 0)
        return chunk_of_two(config, number);
    char *layout = config_expand_layout(config);
    int64_t all = config->machine.pipeline_model_parallel_size * config_chunks(config), first = 0, count;
    if (layout) {
        first = pipeline_layout_before(layout, number, 't');
        count = pipeline_layout_count(layout, number, 't');
    } else {
        for (int64_t p = 0; p < number; p++)
            first += chunk_layers(config, p);
        count = chunk_layers(config, number);
    }
    free(layout);
    struct config_chunk result = {.begins = number == 0, .ends = number == all - 1};
    bool is_encoder = config_is_encoder(config);
    *(is_encoder ? &result.encoder_first : &result.decoder_first) = first;
    *(is_encoder ? &result.encoder_count : &result.decoder_count) = count;
    result.depths = result.ends ? config->model.mtp_num_layers : 0;
    return result;
}
