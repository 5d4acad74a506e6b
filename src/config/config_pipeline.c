// Division of a model's layers into the chunks of a pipeline. The i-th chunk of a stage has number i * stages + stage,
// as in parallel/schedule.h. A stage's layers are divided evenly among its chunks, and chunks are numbered in the order
// of the layers. An embedding or a head that counts as a layer takes the place of one in the first or last chunk, which
// then may have no layers at all. --pipeline-model-parallel-layout (pipeline_layout.h) replaces all of this.
//
// Also the context-parallel ranks that exchange heads.
#include "base/buffer.h"
#include "config/config.h"
#include "config/pipeline_layout.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

static char *config_expand_layout(const struct config *config) {
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

int64_t config_layers(const struct config_model *model) {
    return config_encoder_layers(model) + config_decoder_layers(model);
}

int64_t config_split_stage(const struct config *config) {
    int64_t stages = config->machine.pipeline_model_parallel_size, encoder = config_encoder_layers(&config->model);
    if (config->model.form != CONFIG_T5)
        return 0;
    if (stages == 1 || config->machine.pipeline_model_parallel_split_rank > 0)
        return stages == 1 ? 0 : config->machine.pipeline_model_parallel_split_rank;
    // In proportion to the layers, but at least one stage for each stack.
    int64_t split = (stages * encoder + config_layers(&config->model) / 2) / config_layers(&config->model);
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
        return stage < split ? config_encoder_layers(&config->model) / split
                             : config_decoder_layers(&config->model) / (stages - split);
    if (config_weighs_ends(config))
        return (config_layers(&config->model) + config->machine.account_for_embedding_in_pipeline_split +
                config->machine.account_for_loss_in_pipeline_split) /
               stages;
    if (stage == 0 && first > 0)
        return first;
    if (stage == stages - 1 && last > 0)
        return last;
    int64_t even = stages - (first > 0) - (last > 0);
    return even > 0 ? (config_layers(&config->model) - first - last) / even : 0;
}

struct config_chunk config_whole(const struct config_model *model) {
    return (struct config_chunk){.encoder_count = config_encoder_layers(model),
                                 .decoder_count = config_decoder_layers(model),
                                 .begins = true,
                                 .ends = true,
                                 .depths = model->mtp_num_layers};
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
        return config_whole(&config->model);
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
    bool is_encoder = config_is_encoder(&config->model);
    *(is_encoder ? &result.encoder_first : &result.decoder_first) = first;
    *(is_encoder ? &result.encoder_count : &result.decoder_count) = count;
    result.depths = result.ends ? config->model.mtp_num_layers : 0;
    return result;
}

struct expansion {
    const char *text, *at;
    struct buffer out;
    struct layout_mistake mistake;
};

static int fail(struct expansion *expansion, const char *what) {
    expansion->mistake = (struct layout_mistake){what, (size_t)(expansion->at - expansion->text)};
    return -1;
}

static void skip_commas(struct expansion *expansion) {
    expansion->at += strspn(expansion->at, ",");
}

// Repeats the text from `first` on by a following *N, which must be there if `is_needed`.
static int take_times(struct expansion *expansion, size_t first, bool is_needed) {
    skip_commas(expansion);
    if (*expansion->at != '*')
        return is_needed ? fail(expansion, "a * and a number must follow a parenthesis") : 0;
    expansion->at++;
    skip_commas(expansion);
    size_t digits = strspn(expansion->at, "0123456789"), length = expansion->out.length - first;
    if (digits == 0 || digits > 6)
        return fail(expansion, "a number of at most six digits must follow *");
    size_t times = (size_t)strtoll(expansion->at, NULL, 10);
    if (length > 0 && times > LAYOUT_MOST_SYMBOLS / length)
        return fail(expansion, "it stands for too many layers");
    expansion->at += digits;
    if (times == 0)
        expansion->out.length = first;
    else
        buffer_reserve(&expansion->out, (times - 1) * length);
    for (size_t i = 1; i < times && length > 0; i++)
        buffer_append(&expansion->out, expansion->out.data + first, length);
    return expansion->out.length > LAYOUT_MOST_SYMBOLS ? fail(expansion, "it stands for too many layers") : 0;
}

static int take_symbol(struct expansion *expansion) {
    size_t first = expansion->out.length;
    char symbol = *expansion->at;
    if (symbol == 0 || !strchr("EtmL|", symbol))
        return fail(expansion, symbol == '('
                                   ? "parentheses do not nest"
                                   : "a layout has E (embedding), t (layer), m (multi-token prediction), L (loss), | "
                                     "between chunks, and numbers behind *");
    buffer_append(&expansion->out, &symbol, 1);
    expansion->at++;
    return take_times(expansion, first, false);
}

static int take_group(struct expansion *expansion) {
    size_t first = expansion->out.length;
    expansion->at++;
    skip_commas(expansion);
    if (*expansion->at == ')')
        return fail(expansion, "there is nothing in the parentheses");
    for (; *expansion->at != ')'; skip_commas(expansion)) {
        if (*expansion->at == 0)
            return fail(expansion, "a parenthesis is not closed");
        if (take_symbol(expansion) < 0)
            return -1;
    }
    expansion->at++;
    return take_times(expansion, first, true);
}

char *pipeline_layout_expand(const char *text, struct layout_mistake *mistake) {
    struct expansion expansion = {.text = text, .at = text};
    int status = 0;
    for (skip_commas(&expansion); *expansion.at && status == 0; skip_commas(&expansion))
        status = *expansion.at == '(' ? take_group(&expansion) : take_symbol(&expansion);
    *mistake = expansion.mistake;
    if (status < 0) {
        buffer_free(&expansion.out);
        return NULL;
    }
    buffer_append(&expansion.out, "", 1);
    return (char *)expansion.out.data;
}

int64_t pipeline_layout_chunks(const char *expanded) {
    int64_t count = 1;
    for (; *expanded; expanded++)
        count += *expanded == '|';
    return count;
}

// Counts symbols of the chunks from `first` up to `end`.
static int64_t count_symbols(const char *expanded, int64_t first, int64_t end, char symbol) {
    int64_t chunk = 0, count = 0;
    for (; *expanded && chunk < end; expanded++) {
        count += chunk >= first && *expanded == symbol;
        chunk += *expanded == '|';
    }
    return count;
}

int64_t pipeline_layout_count(const char *expanded, int64_t chunk, char symbol) {
    return count_symbols(expanded, chunk, chunk + 1, symbol);
}

int64_t pipeline_layout_before(const char *expanded, int64_t chunk, char symbol) {
    return count_symbols(expanded, 0, chunk, symbol);
}

int config_hierarchy_size(const char *text, int64_t *size) {
    char *end = NULL;
    long long value = strtoll(text, &end, 10);
    if (end == text || *end != 0 || value < 1 || value > INT32_MAX)
        return -1;
    *size = value;
    return 0;
}

int config_hierarchy(const struct config *config, int64_t sizes[2]) {
    const struct string_list *given = &config->machine.hierarchical_context_parallel_sizes;
    if (given->count != 2)
        return -1;
    for (int i = 0; i < 2; i++)
        if (config_hierarchy_size(given->items[i], &sizes[i]) < 0)
            return -1;
    return 0;
}

bool config_has_cp_comm_type(const struct config *config, const char *type) {
    bool has_it = false;
    for (int64_t i = 0; i < config->machine.cp_comm_type.count; i++)
        has_it |= strcmp(config->machine.cp_comm_type.items[i], type) == 0;
    return has_it;
}

int64_t config_layer_head_ranks(const struct config *config, int64_t layer) {
    const struct string_list *types = &config->machine.cp_comm_type;
    int64_t sizes[2];
    if (types->count == 0 || config->machine.context_parallel_size <= 1)
        return 1;
    const char *type = types->items[layer < types->count ? layer : types->count - 1];
    if (strcmp(type, "a2a") == 0)
        return config->machine.context_parallel_size;
    return strcmp(type, "a2a+p2p") == 0 && config_hierarchy(config, sizes) == 0 ? sizes[0] : 1;
}

int64_t config_head_ranks(const struct config *config) {
    int64_t most = 1;
    for (int64_t i = 0; i < config->machine.cp_comm_type.count; i++) {
        int64_t ranks = config_layer_head_ranks(config, i);
        most = ranks > most ? ranks : most;
    }
    return most;
}

int64_t config_near_ranks(const struct config *config) {
    int64_t sizes[2];
    if (config->machine.context_parallel_size <= 1 || !config_has_cp_comm_type(config, "a2a+p2p") ||
        config_hierarchy(config, sizes) < 0)
        return 1;
    return sizes[0] < config->machine.context_parallel_size ? sizes[0] : 1;
}
