// Opens the data of a run. See datasets.h.
#include "train/datasets.h"
#include "base/error.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/rng.h"
#include "data/sample/roberta.h"
#include "data/tokenizer/tokenizer.h"
#include "train/data_paths.h"

#include <inttypes.h>
#include <stdlib.h>
#include <stdio.h>
#include <string.h>

enum { PREFETCH_DEPTH = 4 };

// If the files are named by a checkpoint, the user may never have heard of them.
static int explain_tokenizer(const struct config *config) {
    bool is_given = flag_is_given(&config->given, "--vocab-file") || flag_is_given(&config->given, "--merge-file") ||
                    flag_is_given(&config->given, "--tokenizer-model");
    if (config->run.load && !is_given)
        error_context("the checkpoint in %s names the tokenizer's files; if they have moved, give --vocab-file and "
                      "--merge-file (or --tokenizer-model)",
                      config->run.load);
    return -1;
}

// NullTokenizer and TikTokenizer are told their size by the flag; of the others it is known, and the flag is not read.
static void warn_of_size(const struct config *config, int64_t size) {
    const char *type = config->data.tokenizer_type ? config->data.tokenizer_type : "";
    bool is_read = strcmp(type, "NullTokenizer") == 0 || strcmp(type, "TikTokenizer") == 0;
    if (is_read || !flag_is_given(&config->given, "--vocab-size") || config->data.vocab_size == size)
        return;
    log_warn_once("--vocab-size %" PRId64 " has no effect: the tokenizer has %" PRId64 " tokens%s",
                  config->data.vocab_size, size,
                  config->data.vocab_size > size ? "; --padded-vocab-size sets the rows of the embedding" : "");
}

// The embedding of a fork has no rows for added tokens but those that its padding, or --extra-vocab-size, leaves.
static void size_as_forks(struct config *config, const struct tokenizer *tokenizer) {
    int64_t size = config->data.sizing == SIZING_OWN       ? tokenizer_own_size(tokenizer)
                   : config->data.sizing == SIZING_BUT_TWO ? tokenizer_vocab_size(tokenizer) - 2
                                                           : tokenizer_vocab_size(tokenizer);
    int64_t multiple = config->data.extra_vocab_size < 0 ? config->model.make_vocab_size_divisible_by : 1;
    int64_t rows = size + (config->data.extra_vocab_size < 0 ? 0 : config->data.extra_vocab_size);
    if (config->model.padded_vocab_size == 0)
        config->model.padded_vocab_size = (rows + multiple - 1) / multiple * multiple;
}

int datasets_open_tokenizer(struct tokenizer **tokenizer, struct config *config) {
    *tokenizer = NULL;
    // One that is still to be trained: its size is known.
    bool has_files = !config_trains_tokenizer(config) &&
                     (config->data.vocab_file || config->data.merge_file || config->data.tokenizer_type);
    if (!has_files) {
        if (config->data.vocab_size <= 0)
            return error_set_code(
                EXIT_CODE_USAGE,
                "the size of the vocabulary is unknown; give --vocab-file and --merge-file, or --vocab-size");
        return config_pad_vocab(config, config->data.vocab_size);
    }
    struct tokenizer_options options = tokenizer_options_of(config);
    if (tokenizer_open(tokenizer, &options) < 0)
        return explain_tokenizer(config);
    // For a trained tokenizer the flag is the upper limit of its size.
    if (flag_source(&config->given, "--tokenizer-type") == FLAG_FROM_PRESET &&
        strcmp(config->data.tokenizer_type, "GPT2BPETokenizer") == 0)
        config->data.vocab_size = tokenizer_vocab_size(*tokenizer);
    warn_of_size(config, tokenizer_vocab_size(*tokenizer));
    size_as_forks(config, *tokenizer);
    if (config_pad_vocab(config, tokenizer_vocab_size(*tokenizer)) < 0) {
        tokenizer_free(*tokenizer);
        *tokenizer = NULL;
        return -1;
    }
    return 0;
}

// --mock-data: each sample counts upward from a number of its own, so that a model can learn it and a slow disk cannot
// disturb measurements.
static int64_t mock_start(const struct mock_data *mock, int64_t sample) {
    struct philox random = philox4x32(0, (uint32_t)sample, (uint32_t)(sample >> 32), 0, 0);
    return (int64_t)(random.word[0] % (uint64_t)mock->vocab_size);
}

static int read_mock(void *context, int64_t sample, int32_t *tokens) {
    const struct datasets *datasets = context;
    int64_t V = datasets->mock.vocab_size, T = datasets->sources[SPLIT_TRAIN].seq_length;
    int64_t first = mock_start(&datasets->mock, sample);
    for (int64_t t = 0; t <= T; t++)
        tokens[t] = (int32_t)((first + t) % V);
    return 0;
}

// ICT: the context continues to count where the query ends.
static int fill_mock_texts(void *context, int64_t sample, const struct batch *row) {
    const struct mock_data *mock = &((const struct datasets *)context)->mock;
    int64_t V = mock->vocab_size, T = mock->form.T, first = mock_start(mock, sample);
    for (int64_t t = 0; t < T; t++) {
        row->tokens[t] = (int32_t)((first + t) % V);
        row->context_tokens[t] = (int32_t)((first + T + t) % V);
        row->positions[t] = (int32_t)t;
    }
    *row->labels = 0;
    *row->loss_mask = 1;
    *row->lengths = *row->context_lengths = (int32_t)T;
    return 0;
}

// For BERT, every seventh token is replaced by token 0; T5's decoder continues to count where the encoder ends.
static int fill_mock(void *context, int64_t sample, const struct batch *row) {
    enum { PERIOD = 7 };
    const struct mock_data *mock = &((const struct datasets *)context)->mock;
    const struct batch_form *form = &mock->form;
    int64_t V = mock->vocab_size, T = form->T, S = form->S, first = mock_start(mock, sample);
    for (int64_t t = 0; t < T; t++) {
        bool is_hidden = S == 0 && t % PERIOD == sample % PERIOD;
        row->tokens[t] = is_hidden ? 0 : (int32_t)((first + t) % V);
        row->positions[t] = (int32_t)t;
        if (row->token_types)
            row->token_types[t] = t >= T / 2;
        if (S > 0)
            continue;
        row->labels[t] = (int32_t)((first + t) % V);
        row->loss_mask[t] = is_hidden;
    }
    for (int64_t s = 0; s < S; s++) {
        row->decoder_tokens[s] = (int32_t)((first + T + s) % V);
        row->decoder_positions[s] = (int32_t)s;
        row->labels[s] = (int32_t)((first + T + s + 1) % V);
        row->loss_mask[s] = 1;
    }
    *row->lengths = (int32_t)T;
    if (row->pair_labels)
        *row->pair_labels = (int32_t)(first % 2);
    return 0;
}

static void open_mock(struct datasets *datasets, const struct config *config, const int64_t counts[SPLIT_COUNT],
                      int64_t vocab_size) {
    enum corpus_kind kind = corpus_kind_of(config);
    int64_t decoder = config->run.decoder_seq_length > 0 ? config->run.decoder_seq_length : config->run.seq_length;
    datasets->mock = (struct mock_data){
        .vocab_size = vocab_size, .form = {.T = config->run.seq_length, .fields = BATCH_TEXT | BATCH_BIT(LENGTHS)}};
    struct batch_form *form = &datasets->mock.form;
    if (kind == CORPUS_T5) {
        form->S = decoder;
        form->fields |= BATCH_DECODER;
    } else if (kind == CORPUS_ICT) {
        form->fields |= BATCH_CONTEXT;
    } else if (kind == CORPUS_BERT) {
        form->fields |= BATCH_BIT(TOKEN_TYPES) | (config->model.bert_no_binary_head ? 0 : BATCH_BIT(PAIR_LABELS));
    }
    for (int split = 0; split < SPLIT_COUNT; split++)
        datasets->sources[split] = (struct sample_source){.context = datasets,
                                                          .name = "mock data",
                                                          .count = counts[split],
                                                          .seq_length = config->run.seq_length,
                                                          .read = kind == CORPUS_GPT ? read_mock : NULL,
                                                          .form = datasets->mock.form,
                                                          .fill = kind == CORPUS_GPT   ? NULL
                                                                  : kind == CORPUS_ICT ? fill_mock_texts
                                                                                       : fill_mock};
}

// Number of samples of each split that the run needs. A run resumed with other flags (rarer evaluation, a smaller
// batch) may have consumed more than the flags alone imply.
static int count_samples(const struct datasets_options *from, int64_t counts[SPLIT_COUNT]) {
    const struct config *config = from->config;
    struct split_demand demand = {.train_iters = config->run.train_iters,
                                  .train_samples = config->run.train_samples,
                                  .global_batch_size = config->run.global_batch_size,
                                  .eval_interval = config->run.eval_interval,
                                  .eval_iters = config->run.eval_iters,
                                  .eval_global_batch_size = config_eval_batch_size(config)};
    TRY(split_sample_counts(&demand, counts));
    int64_t train = config->run.train_samples > 0
                        ? config->run.train_samples - from->consumed_train_samples
                        : (config->run.train_iters - from->iteration) * config->run.global_batch_size;
    int64_t evaluations = 1;
    if (config->run.eval_interval > 0)
        evaluations +=
            config->run.train_iters / config->run.eval_interval - from->iteration / config->run.eval_interval;
    const int64_t needed[SPLIT_COUNT] = {
        from->consumed_train_samples + (train > 0 ? train : 0),
        from->consumed_valid_samples + evaluations * config->run.eval_iters * config_eval_batch_size(config), 0};
    for (int split = 0; split < SPLIT_COUNT; split++)
        if (counts[split] > 0 && counts[split] < needed[split])
            counts[split] = needed[split];
    return 0;
}

static struct data_set make_set(enum split split, int64_t group, const char *name) {
    static const char *const texts[SPLIT_COUNT] = {"training", "validation", "test"};
    struct data_set set = {.split = split, .group = group};
    (void)snprintf(set.text, sizeof set.text, "%s%s%s", texts[split], name ? " " : "", name ? name : "");
    return set;
}

// The first groups of the splits have the splits' indices.
static void list_first_sets(struct datasets *datasets) {
    datasets->count = SPLIT_COUNT;
    for (int which = 0; which < SPLIT_COUNT; which++)
        datasets->sets[which] = make_set((enum split)which, 0, NULL);
}

// Curves and log lines have these names.
static int check_name(const struct datasets *datasets, const struct data_set *set) {
    for (int i = 0; i < datasets->count; i++)
        if (strcmp(datasets->sets[i].text, set->text) == 0)
            return error_set_code(EXIT_CODE_USAGE, "two groups of datasets for %s have the same name; rename one",
                                  set->text);
    return 0;
}

static int list_sets(struct datasets *datasets, const struct config *config) {
    list_first_sets(datasets);
    for (int which = 0; which < SPLIT_COUNT; which++) {
        int64_t groups;
        TRY(data_paths_count_groups(&groups, config, (enum split)which));
        for (int64_t group = 0; group < groups && groups > 1; group++) {
            OWNED_BY(data_paths_free) struct data_paths paths = {0};
            int status = data_paths_find_group(&paths, config, (enum split)which, group);
            struct data_set set = make_set((enum split)which, group, paths.name);
            if (status == 0)
                status = check_name(datasets, &set);
            if (status == 0)
                datasets->sets[group == 0 ? which : datasets->count++] = set;
            TRY(status);
        }
    }
    return 0;
}

// Checks and sets the properties of the vocabulary that a model's samples need.
static int check_tokenizer(struct datasets *datasets, const struct config *config, const struct tokenizer *tokenizer) {
    bool uses_eod = config->data.eod_mask_loss || config->data.reset_position_ids || config->data.reset_attention_mask;
    if (uses_eod && datasets->eod < 0)
        return error_set_code(EXIT_CODE_USAGE,
                              "--eod-mask-loss, --reset-position-ids and --reset-attention-mask need a tokenizer that "
                              "has an end-of-document token; name one with --eod-token TEXT");
    enum corpus_kind kind = corpus_kind_of(config);
    if (kind == CORPUS_GPT)
        return 0;
    if (!tokenizer)
        return error_set_code(
            EXIT_CODE_USAGE,
            "--model %s needs the tokenizer for the mask and other special tokens; give --tokenizer-type and its files",
            CONFIG_NAME(model.form, config->model.form));
    sample_vocabulary_make(&datasets->vocabulary, tokenizer);
    if (config->data.decoder_start_token >= datasets->vocabulary.size)
        return error_set_code(EXIT_CODE_USAGE,
                              "--decoder-start-token %" PRId64 " is not a token: the tokenizer has %" PRId64,
                              config->data.decoder_start_token, datasets->vocabulary.size);
    if (config->data.decoder_start_token >= 0)
        datasets->vocabulary.bos = (int32_t)config->data.decoder_start_token;
    if (kind == CORPUS_ROBERTA && config->data.mask_whole_words)
        datasets->begins_word = roberta_word_beginnings(tokenizer);
    return 0;
}

static struct corpus_options corpus_options(struct datasets *datasets, const struct datasets_options *from, int set,
                                            int64_t sample_count) {
    const struct config *config = from->config;
    int64_t vocab_size = from->tokenizer               ? tokenizer_vocab_size(from->tokenizer)
                         : config->data.vocab_size > 0 ? config->data.vocab_size
                                                       : config->model.padded_vocab_size;
    return (struct corpus_options){.config = config,
                                   .place = {from->mesh, from->local_rank},
                                   .texts = from->texts,
                                   .tokenizer = from->tokenizer,
                                   .vocab_size = vocab_size,
                                   .eod = datasets->eod,
                                   .vocabulary = &datasets->vocabulary,
                                   .begins_word = datasets->begins_word,
                                   .which = datasets->sets[set].split,
                                   .group = datasets->sets[set].group,
                                   .sample_count = sample_count < 0 ? 0 : sample_count,
                                   .is_epoch = sample_count < 0};
}

// --fim-data: the samples of a split, with texts permuted.
static int open_fim(struct datasets *datasets, const struct datasets_options *from, int set) {
    const struct config *config = from->config;
    if (!from->tokenizer)
        return error_set_code(EXIT_CODE_USAGE,
                              "--fim-data encodes texts again; give --tokenizer-type and the tokenizer's files");
    TRY(fim_open(&datasets->fims[set], &(struct fim_options){.source = datasets->sources[set],
                                                             .tokenizer = from->tokenizer,
                                                             .seed = (uint64_t)config->run.seed,
                                                             .split = datasets->sets[set].split,
                                                             .rate = config->data.fim_rate,
                                                             .spm_rate = config->data.fim_spm_rate,
                                                             .split_token = config->data.fim_split_sample,
                                                             .fragment_rate = config->data.fim_fragment_rate,
                                                             .no_prefix = config->data.fim_no_prefix,
                                                             .prefix_token = config->data.fim_prefix_token,
                                                             .middle_token = config->data.fim_middle_token,
                                                             .suffix_token = config->data.fim_suffix_token,
                                                             .pad_token = config->data.fim_pad_token,
                                                             .eod_token = config->data.fim_eod_token}));
    datasets->sources[set] = fim_source(datasets->fims[set]);
    return 0;
}

static int open_corpus(struct datasets *datasets, const struct datasets_options *from, int set, int64_t sample_count) {
    const struct corpus_options options = corpus_options(datasets, from, set, sample_count);
    TRY(corpus_open(&datasets->corpora[set], &options));
    if (!datasets->corpora[set])
        return 0;
    datasets->sources[set] = corpus_source(datasets->corpora[set]);
    return from->config->data.fim_data ? open_fim(datasets, from, set) : 0;
}

static int open_corpora(struct datasets *datasets, const struct datasets_options *from,
                        const int64_t counts[SPLIT_COUNT]) {
    for (int set = 0; set < datasets->count; set++) {
        struct corpus_options options = corpus_options(datasets, from, set, counts[datasets->sets[set].split]);
        options.is_needed =
            set == SPLIT_TRAIN && !from->config->run.skip_train && from->iteration < from->config->run.train_iters;
        TRY(corpus_check(&options));
    }
    for (int set = 0; set < datasets->count; set++)
        TRY(open_corpus(datasets, from, set, counts[datasets->sets[set].split]));
    return 0;
}

int datasets_open_epoch(struct datasets *datasets, const struct datasets_options *from) {
    *datasets = (struct datasets){.eod = from->tokenizer ? tokenizer_eod(from->tokenizer) : -1};
    list_first_sets(datasets);
    comm_patience_begin(from->mesh->all, "opening the data");
    if (check_tokenizer(datasets, from->config, from->tokenizer) == 0 &&
        open_corpus(datasets, from, SPLIT_VALID, -1) == 0) {
        comm_patience_end(from->mesh->all);
        return 0;
    }
    datasets_close(datasets);
    return -1;
}

// Only a blend without weights has fewer samples than it was asked for.
static void warn_short(const struct datasets *datasets, const struct datasets_options *from, int64_t needed) {
    const struct sample_source *source = &datasets->sources[SPLIT_TRAIN];
    if (from->mesh->rank == 0 && source->count > 0 && source->count < needed)
        log_warn("the run needs %" PRId64 " samples, but the %s has %" PRId64
                 ": it will stop with an error there; give the datasets of --data-path weights, so that they repeat",
                 needed, source->name, source->count);
}

int datasets_open(struct datasets *datasets, const struct datasets_options *from) {
    const struct config *config = from->config;
    const struct tokenizer *tokenizer = from->tokenizer;
    *datasets = (struct datasets){.eod = tokenizer ? tokenizer_eod(tokenizer) : -1};
    list_first_sets(datasets);
    int64_t counts[SPLIT_COUNT];
    TRY(count_samples(from, counts));
    log_info(" > datasets target sizes (minimum size):");
    log_info("    train:      %lld", (long long)counts[SPLIT_TRAIN]);
    log_info("    validation: %lld", (long long)counts[SPLIT_VALID]);
    log_info("    test:       %lld", (long long)counts[SPLIT_TEST]);
    if (config->data.mock_data) {
        open_mock(datasets, config, counts, tokenizer ? tokenizer_vocab_size(tokenizer) : config->data.vocab_size);
        return 0;
    }
    if (check_tokenizer(datasets, config, tokenizer) < 0 || list_sets(datasets, config) < 0 ||
        open_corpora(datasets, from, counts) < 0) {
        datasets_close(datasets);
        return -1;
    }
    warn_short(datasets, from, counts[SPLIT_TRAIN]);
    return 0;
}

void datasets_close(struct datasets *datasets) {
    for (int set = 0; set < datasets->count; set++) {
        fim_close(datasets->fims[set]);
        corpus_close(datasets->corpora[set]);
    }
    sample_vocabulary_free(&datasets->vocabulary);
    free(datasets->begins_word);
    *datasets = (struct datasets){0};
}

int datasets_loader(struct loader **loader, const struct datasets *datasets, int set, const struct config *config,
                    const struct mesh *mesh, int64_t consumed_samples) {
    return loader_open(loader, &(struct loader_options){.source = datasets->sources[set],
                                                        .consumed_samples = consumed_samples,
                                                        .micro_batch_size = config->run.micro_batch_size,
                                                        .dp_rank = mesh_index(mesh, mesh->place, MESH_SAMPLES),
                                                        .dp_size = mesh_count(mesh, MESH_SAMPLES),
                                                        .depth = PREFETCH_DEPTH,
                                                        .eod = datasets->eod,
                                                        .eod_mask_loss = config->data.eod_mask_loss,
                                                        .reset_position_ids = config->data.reset_position_ids,
                                                        .reset_attention_mask = config->data.reset_attention_mask});
}

static int next_batch(void *context, struct batch *batch) {
    const struct batch *loaded;
    TRY(loader_next(context, &loaded));
    *batch = *loaded;
    return 0;
}

struct step_source datasets_source(struct loader *loader, int64_t count) {
    return (struct step_source){.next = next_batch, .context = loader, .count = count};
}
