// Opening the data of a run. See datasets.h.
#include "train/datasets.h"
#include "base/error.h"
#include "base/log.h"
#include "base/rng.h"

#include <string.h>

enum { PREFETCH_DEPTH = 4 };

// Where the files are those that a checkpoint names, the user may never have heard of them.
static int explain_tokenizer(const struct config *config) {
    bool is_given = flag_is_given(&config->given, "--vocab-file") || flag_is_given(&config->given, "--merge-file") ||
                    flag_is_given(&config->given, "--tokenizer-model");
    if (config->load && !is_given)
        error_context("the tokenizer's files are those that the checkpoint in %s names; where they have moved, give "
                      "--vocab-file and --merge-file (or --tokenizer-model)",
                      config->load);
    return -1;
}

int datasets_open_tokenizer(struct tokenizer **tokenizer, struct config *config) {
    *tokenizer = NULL;
    bool has_files = config->vocab_file || config->merge_file || config->tokenizer_type;
    if (!has_files) {
        if (config->vocab_size <= 0)
            return error_set_code(EXIT_CODE_USAGE, "the size of the vocabulary is not known; give --vocab-file and "
                                                   "--merge-file, or --vocab-size");
        return config_pad_vocab(config, config->vocab_size);
    }
    struct tokenizer_options options = {.type = config->tokenizer_type,
                                        .vocab_file = config->vocab_file,
                                        .merge_file = config->merge_file,
                                        .model_file = config->tokenizer_model,
                                        .vocab_size = config->vocab_size,
                                        .extra_ids = config->vocab_extra_ids,
                                        .as_today = config->no_legacy_tokenizer,
                                        .hf_without_specials = config->tokenizer_hf_no_include_special_tokens,
                                        .tiktoken_pattern = config->tiktoken_pattern,
                                        .tiktoken_specials = config->tiktoken_num_special_tokens,
                                        .null_eod_given = config->null_tokenizer_eod_id >= 0,
                                        .null_eod_id = config->null_tokenizer_eod_id};
    if (tokenizer_open(tokenizer, &options) < 0)
        return explain_tokenizer(config);
    if (config_pad_vocab(config, tokenizer_vocab_size(*tokenizer)) < 0) {
        tokenizer_free(*tokenizer);
        *tokenizer = NULL;
        return -1;
    }
    return 0;
}

// --mock-data: each sample counts upward from a number of its own, so that a model can learn it and a slow disk
// cannot disturb.
static int read_mock(void *context, int64_t sample, int32_t *tokens) {
    const struct datasets *datasets = context;
    int64_t V = datasets->mock.vocab_size, T = datasets->sources[SPLIT_TRAIN].seq_length;
    struct philox random = philox4x32(0, (uint32_t)sample, (uint32_t)(sample >> 32), 0, 0);
    int64_t first = (int64_t)(random.word[0] % (uint64_t)V);
    for (int64_t t = 0; t <= T; t++)
        tokens[t] = (int32_t)((first + t) % V);
    return 0;
}

static int open_mock(struct datasets *datasets, const struct config *config, const int64_t counts[SPLIT_COUNT],
                     int64_t vocab_size) {
    datasets->mock.vocab_size = vocab_size;
    for (int split = 0; split < SPLIT_COUNT; split++)
        datasets->sources[split] = (struct sample_source){.context = datasets,
                                                          .name = "mock data",
                                                          .count = counts[split],
                                                          .seq_length = config->seq_length,
                                                          .read = read_mock};
    return 0;
}

// The prefix and split string for one of the three parts; NULL where the flags name no data for it.
static const char *prefix_of(const struct config *config, enum split which, const char **split) {
    const struct string_list *own[SPLIT_COUNT] = {&config->train_data_path, &config->valid_data_path,
                                                  &config->test_data_path};
    if (config->data_path.count > 0) {
        *split = config->split;
        return config->data_path.items[0];
    }
    *split = NULL;
    return own[which]->count > 0 ? own[which]->items[0] : NULL;
}

static int is_empty(const char *split, enum split which, bool *empty) {
    struct split_bounds bounds;
    *empty = false;
    if (split) {
        TRY(split_parse(&bounds, split));
        *empty = split_is_empty(&bounds, which);
    }
    return 0;
}

int datasets_build_index(const struct gpt_options *options, const struct mesh *mesh, int local_rank) {
    for (int turn = 0; turn < 2; turn++) {
        bool is_mine = turn == 0 ? mesh->rank == 0 : mesh->rank != 0 && local_rank == 0;
        int status = is_mine ? gpt_dataset_build(options) : 0;
        int64_t failed = status < 0;
        if (turn == 0)
            comm_await_i64(mesh->all, &failed, 1, 0, "dataset index built");
        else
            comm_max_i64(mesh->all, &failed, 1, "dataset index built everywhere");
        if (failed)
            return status < 0 ? -1
                              : error_set_code(EXIT_CODE_BAD_DATA, "another rank could not build the dataset's index");
    }
    return 0;
}

static int open_split(struct datasets *datasets, const struct datasets_options *from, struct gpt_options *options) {
    bool empty;
    options->prefix = prefix_of(from->config, options->which, &options->split);
    if (!options->prefix || options->sample_count == 0)
        return 0;
    TRY(is_empty(options->split, options->which, &empty));
    if (empty)
        return 0;
    TRY(datasets_build_index(options, from->mesh, from->local_rank));
    TRY(gpt_dataset_open(&datasets->gpt[options->which], options));
    datasets->sources[options->which] = gpt_dataset_source(datasets->gpt[options->which]);
    return 0;
}

// How many samples of each split the run needs. A run that goes on with other flags than it began with (rarer
// evaluation, a smaller batch) may have consumed more than the flags alone would ask for.
static int count_samples(const struct datasets_options *from, int64_t counts[SPLIT_COUNT]) {
    const struct config *config = from->config;
    struct split_demand demand = {.train_iters = config->train_iters,
                                  .train_samples = config->train_samples,
                                  .global_batch_size = config->global_batch_size,
                                  .eval_interval = config->eval_interval,
                                  .eval_iters = config->eval_iters};
    TRY(split_sample_counts(&demand, counts));
    int64_t train = config->train_samples > 0 ? config->train_samples - from->consumed_train_samples
                                              : (config->train_iters - from->iteration) * config->global_batch_size;
    int64_t evaluations = 1;
    if (config->eval_interval > 0)
        evaluations += config->train_iters / config->eval_interval - from->iteration / config->eval_interval;
    const int64_t needed[SPLIT_COUNT] = {
        from->consumed_train_samples + (train > 0 ? train : 0),
        from->consumed_valid_samples + evaluations * config->eval_iters * config->global_batch_size, 0};
    for (int split = 0; split < SPLIT_COUNT; split++)
        if (counts[split] > 0 && counts[split] < needed[split])
            counts[split] = needed[split];
    return 0;
}

int datasets_open(struct datasets *datasets, const struct datasets_options *from) {
    const struct config *config = from->config;
    const struct tokenizer *tokenizer = from->tokenizer;
    *datasets = (struct datasets){.eod = tokenizer ? tokenizer_eod(tokenizer) : -1};
    if (config_form(config) != CONFIG_GPT)
        return error_set("--model %s has no samples to train on in this version; give --model gpt", config->model);
    int64_t counts[SPLIT_COUNT];
    TRY(count_samples(from, counts));
    log_info(" > datasets target sizes (minimum size):");
    log_info("    train:      %lld", (long long)counts[SPLIT_TRAIN]);
    log_info("    validation: %lld", (long long)counts[SPLIT_VALID]);
    log_info("    test:       %lld", (long long)counts[SPLIT_TEST]);
    int64_t vocab_size = tokenizer ? tokenizer_vocab_size(tokenizer) : config->vocab_size;
    if (config->mock_data)
        return open_mock(datasets, config, counts, vocab_size);
    if ((config->eod_mask_loss || config->reset_position_ids) && datasets->eod < 0)
        return error_set_code(
            EXIT_CODE_USAGE, "--eod-mask-loss and --reset-position-ids need a tokenizer that knows the end-of-document "
                             "id; give --vocab-file and --merge-file");
    for (int which = 0; which < SPLIT_COUNT; which++) {
        struct gpt_options options = {.which = (enum split)which,
                                      .seq_length = config->seq_length,
                                      .sample_count = counts[which],
                                      .seed = config->seed,
                                      .cache_folder = config->data_cache_path,
                                      .vocab_size = vocab_size};
        if (open_split(datasets, from, &options) < 0) {
            datasets_close(datasets);
            return -1;
        }
    }
    return 0;
}

void datasets_close(struct datasets *datasets) {
    for (int which = 0; which < SPLIT_COUNT; which++)
        gpt_dataset_close(datasets->gpt[which]);
    *datasets = (struct datasets){0};
}

int datasets_loader(struct loader **loader, const struct datasets *datasets, enum split split,
                    const struct config *config, const struct mesh *mesh, int64_t consumed_samples) {
    return loader_open(loader, &(struct loader_options){.source = datasets->sources[split],
                                                        .consumed_samples = consumed_samples,
                                                        .micro_batch_size = config->micro_batch_size,
                                                        .dp_rank = mesh->place[AXIS_DATA],
                                                        .dp_size = mesh->length[AXIS_DATA],
                                                        .depth = PREFETCH_DEPTH,
                                                        .eod = datasets->eod,
                                                        .eod_mask_loss = config->eod_mask_loss,
                                                        .reset_position_ids = config->reset_position_ids,
                                                        .reset_attention_mask = config->reset_attention_mask});
}

static int next_input(void *context, struct step_input *input) {
    const struct batch *batch;
    TRY(loader_next(context, &batch));
    *input = (struct step_input){.B = batch->rows,
                                 .T = batch->columns,
                                 .S = batch->decoder_tokens ? batch->label_columns : 0,
                                 .tokens = batch->tokens,
                                 .positions = batch->position_ids,
                                 .labels = batch->labels,
                                 .mask = batch->loss_mask,
                                 .types = batch->token_types,
                                 .lengths = batch->lengths,
                                 .first_keys = batch->document_starts,
                                 .decoder_tokens = batch->decoder_tokens,
                                 .decoder_positions = batch->decoder_position_ids,
                                 .pair_labels = batch->sentence_labels,
                                 .samples = batch->samples};
    return 0;
}

struct step_source datasets_source(struct loader *loader, int64_t count) {
    return (struct step_source){.next = next_input, .context = loader, .count = count};
}
