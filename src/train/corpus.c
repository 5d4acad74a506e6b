// Opens the datasets of a split and blends them. See datasets.h.
#include "train/datasets.h"

#include "base/error.h"
#include "base/log.h"
#include "base/memory.h"
#include "data/index/index.h"
#include "data/sample/blend.h"
#include "data/sample/gpt.h"
#include "data/sample/roberta.h"
#include "data/sample/sentence.h"
#include "train/data_paths.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

// One dataset; the kind decides which pointer is set.
struct part {
    struct gpt_dataset *gpt;
    struct sentence_dataset *sentences;
    struct roberta_dataset *roberta;
};

struct corpus {
    struct part *parts;             // (count)
    struct sample_source *sources;  // (count)
    int64_t count;
    struct blend *blend;  // NULL if there is a single part
};

// Builds the index files that are missing: first rank 0, then the first rank of every machine, which finds them on a
// shared file system and builds its own on a local one. All ranks call.
static int build_everywhere(const struct corpus_place *place, int (*build)(const void *options), const void *options) {
    const struct mesh *mesh = place->mesh;
    for (int turn = 0; turn < 2; turn++) {
        bool is_mine = turn == 0 ? mesh->rank == 0 : mesh->rank != 0 && place->local_rank == 0;
        TRY(comm_agree(mesh->all, is_mine ? build(options) : 0, "dataset index built"));
    }
    return 0;
}

static int build_gpt(const void *options) {
    return gpt_dataset_build(options);
}

static int build_sentences(const void *options) {
    return sentence_dataset_build(options);
}

static int build_blend(const void *options) {
    return blend_build(options);
}

// A request for one dataset.
struct request {
    const struct corpus_options *options;
    const char *prefix, *split;
    int64_t sample_count;  // 0: one epoch
};

static int open_gpt(struct part *part, struct sample_source *source, const struct request *request) {
    const struct config *config = request->options->config;
    struct gpt_options options = {.prefix = request->prefix,
                                  .split = request->split,
                                  .which = request->options->which,
                                  .seq_length = config->run.seq_length,
                                  .sample_count = request->sample_count,
                                  .seed = config->run.seed,
                                  .cache_folder = config->data.data_cache_path,
                                  .vocab_size = request->options->vocab_size};
    TRY(build_everywhere(&request->options->place, build_gpt, &options));
    TRY(gpt_dataset_open(&part->gpt, &options));
    *source = gpt_dataset_source(part->gpt);
    return 0;
}

static int open_sentences(struct part *part, struct sample_source *source, const struct request *request) {
    const struct config *config = request->options->config;
    enum corpus_kind kind = corpus_kind_of(config);
    int64_t decoder = config->run.decoder_seq_length > 0 ? config->run.decoder_seq_length : config->run.seq_length;
    struct sentence_options options = {.kind = kind == CORPUS_BERT ? SENTENCE_BERT
                                               : kind == CORPUS_T5 ? SENTENCE_T5
                                                                   : SENTENCE_ICT,
                                       .prefix = request->prefix,
                                       .split = request->split,
                                       .which = request->options->which,
                                       .seq_length = config->run.seq_length,
                                       .decoder_seq_length = decoder,
                                       .sample_count = request->sample_count,
                                       .seed = config->run.seed,
                                       .mask_prob = config->data.mask_prob,
                                       .short_seq_prob = config->data.short_seq_prob,
                                       .has_binary_head = kind == CORPUS_BERT && !config->model.bert_no_binary_head,
                                       .titles = config->data.titles_data_path,
                                       .query_in_block_prob = config->data.query_in_block_prob,
                                       .uses_single_sentences = config->data.use_one_sent_docs,
                                       .cache_folder = config->data.data_cache_path,
                                       .vocabulary = request->options->vocabulary};
    TRY(build_everywhere(&request->options->place, build_sentences, &options));
    TRY(sentence_dataset_open(&part->sentences, &options));
    *source = sentence_dataset_source(part->sentences);
    return 0;
}

static int open_roberta(struct part *part, struct sample_source *source, const struct request *request) {
    const struct config *config = request->options->config;
    struct roberta_options options = {.prefix = request->prefix,
                                      .split = request->split,
                                      .which = request->options->which,
                                      .seq_length = config->run.seq_length,
                                      .sample_count = request->sample_count,
                                      .batch_size = config->run.micro_batch_size,
                                      .seed = config->run.seed,
                                      .mask_prob = config->data.mask_prob,
                                      .leave_unmasked_prob = config->data.leave_unmasked_prob,
                                      .random_token_prob = config->data.random_token_prob,
                                      .masks_whole_words = config->data.mask_whole_words,
                                      .is_shuffled = request->options->which == SPLIT_TRAIN,
                                      .vocabulary = request->options->vocabulary,
                                      .begins_word = request->options->begins_word};
    TRY(text_block_mode_parse(&options.mode, config->data.sample_break_mode));
    TRY(roberta_dataset_open(&part->roberta, &options));
    *source = roberta_dataset_source(part->roberta);
    return 0;
}

static int open_part(struct part *part, struct sample_source *source, const struct request *request) {
    enum corpus_kind kind = corpus_kind_of(request->options->config);
    return kind == CORPUS_GPT       ? open_gpt(part, source, request)
           : kind == CORPUS_ROBERTA ? open_roberta(part, source, request)
                                    : open_sentences(part, source, request);
}

static int open_blend(struct corpus *corpus, const struct corpus_options *options, const double *weights,
                      int64_t size) {
    struct blend_options blend = {.sources = corpus->sources,
                                  .count = corpus->count,
                                  .weights = weights,
                                  .size = size,
                                  .which = options->which,
                                  .seed = options->config->run.seed,
                                  .cache_folder = options->config->data.data_cache_path};
    TRY(build_everywhere(&options->place, build_blend, &blend));
    return blend_open(&corpus->blend, &blend);
}

// The part of dataset i for the split.
static const char *part_of(const struct data_paths *paths, int64_t i) {
    return i < paths->parts.count ? paths->parts.items[i] : paths->split;
}

// Megatron's sizes: with weights, each dataset is asked for a little more than its share, and the blend is as long as
// the rounded shares together; without weights, each gives one epoch. A single prefix is not a blend, unless
// --data-path gives it a weight.
static int open_parts(struct corpus *corpus, const struct corpus_options *options, const struct data_paths *paths,
                      const struct blend_list *list) {
    bool is_plain = list->count == 1 && (!list->weights || !paths->split);
    int64_t size = 0;
    corpus->count = list->count;
    corpus->parts = memory_alloc((size_t)list->count * sizeof *corpus->parts);
    corpus->sources = memory_alloc((size_t)list->count * sizeof *corpus->sources);
    for (int64_t i = 0; i < list->count; i++) {
        struct request request = {.options = options,
                                  .prefix = list->prefixes[i],
                                  .split = part_of(paths, i),
                                  .sample_count = is_plain ? options->sample_count : 0};
        if (!is_plain && list->weights) {
            int64_t target = blend_target(list->weights[i], options->sample_count);
            request.sample_count = blend_surplus(target);
            size += target;
        }
        TRY(open_part(&corpus->parts[i], &corpus->sources[i], &request));
    }
    if (is_plain)
        return 0;
    return open_blend(corpus, options, list->weights, list->weights ? size : options->sample_count);
}

// What a split divides: sequences of running text, or documents of sentences.
static int64_t count_items(const struct corpus_options *options, const struct index_reader *reader,
                           const char **items) {
    bool is_gpt = corpus_kind_of(options->config) == CORPUS_GPT;
    *items = is_gpt ? "sequences" : "documents";
    return is_gpt ? reader->sequence_count : reader->document_count;
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

// The shares of a small dataset may leave nothing for validation or test; a run then does without. For an evaluation,
// which needs the split, it is an error.
static int is_too_small(const struct corpus_options *options, const char *split, const struct blend_list *list,
                        bool *too_small) {
    *too_small = false;
    if (!split || options->which == SPLIT_TRAIN || options->is_epoch)
        return 0;
    struct split_bounds bounds;
    TRY(split_parse(&bounds, split));
    for (int64_t i = 0; i < list->count && !*too_small; i++) {
        struct index_reader *reader;
        const char *items;
        int64_t begin, end;
        TRY(index_open(&reader, list->prefixes[i]));
        int64_t count = count_items(options, reader, &items);
        index_close(reader);
        split_range(&bounds, options->which, count, &begin, &end);
        *too_small = begin == end;
        if (*too_small)
            log_info("note: %s--split %s leaves none of the %" PRId64 " %s of %s for %s, so the run has none; give "
                     "--split other shares",
                     flag_source(&options->config->given, "--split") != FLAG_FROM_DEFAULT ? "" : "the default ", split,
                     count, items, list->prefixes[i], options->which == SPLIT_VALID ? "validation" : "test");
    }
    return 0;
}

// A title belongs to the document of the same number in one dataset.
static int check_titles(const struct corpus_options *options, const struct blend_list *list) {
    const char *titles = options->config->data.titles_data_path;
    if (!titles)
        return 0;
    if (list->count > 1)
        return error_set_code(EXIT_CODE_USAGE,
                              "--titles-data-path has the titles of one dataset, not of a blend of %" PRId64
                              "; merge them with `bevatron dataset merge`, or leave out the titles",
                              list->count);
    return same_data_check(options->place.mesh->all, &titles, 1);
}

static int open_paths(struct corpus **corpus, const struct corpus_options *options, const struct data_paths *paths) {
    bool empty;
    if (paths->items.count == 0)
        return 0;
    TRY(is_empty(paths->split, options->which, &empty));
    if (empty)
        return 0;
    OWNED_BY(blend_list_free) struct blend_list list = {0};
    TRY(blend_list_parse(&list, paths->items.items, paths->items.count, paths->flag));
    int status = same_data_check(options->place.mesh->all, (const char *const *)list.prefixes, list.count);
    if (status == 0 && options->place.mesh->rank == 0)
        status = dataset_tokenizer_check(options->tokenizer, options->config, (const char *const *)list.prefixes,
                                         list.count);
    status = comm_agree(options->place.mesh->all, status, "tokenizer of the data");
    if (status == 0)
        status = check_titles(options, &list);
    if (status == 0)
        status = is_too_small(options, paths->split, &list, &empty);
    if (status == 0 && !empty) {
        *corpus = memory_alloc(sizeof **corpus);
        status = open_parts(*corpus, options, paths, &list);
    }
    return status;
}

// The part of the dataset that the split gets must hold something.
static int check_part(const struct corpus_options *options, const char *split, const char *prefix) {
    struct index_reader *reader;
    int64_t begin, end;
    TRY(index_open(&reader, prefix));
    struct split_choice choice = {.prefix = prefix, .split = split, .which = options->which};
    choice.count = count_items(options, reader, &choice.items);
    int status = split_choose(&choice, &begin, &end);
    if (status == 0 && corpus_kind_of(options->config) == CORPUS_GPT && options->which == SPLIT_TRAIN)
        document_ends_check(reader, prefix, options->config, options->eod);
    index_close(reader);
    return status;
}

// A split without data: fine unless the run cannot do without it.
static int check_nothing(const struct corpus_options *options, const struct data_paths *paths) {
    if (!options->is_needed)
        return 0;
    if (paths->items.count == 0)
        return error_set_code(EXIT_CODE_BAD_DATA, "there are no training samples: no data is given for training; give "
                                                  "--train-data-path, or --data-path with --split");
    return error_set_code(EXIT_CODE_BAD_DATA,
                          "there are no training samples: --split %s leaves none for training; raise its first share",
                          paths->split);
}

// The log says which data the run was trained on, in a form that `sha256sum -c` and `dataset verify` can check.
enum { MOST_NAMED = 16 };
static void name_sums(const char *prefix) {
    char sums[INDEX_SUMS][65];
    int found = index_sums_read(prefix, sums);
    if (found > 0)
        log_info("dataset %s: SHA-256 of its tokens %s (not compared; see dataset verify)", prefix, sums[0]);
    else if (found < 0) {
        log_info("note: %s", error_message());
        error_clear();
    }
}

static int check_paths(const struct corpus_options *options, const struct data_paths *paths) {
    bool is_empty_share;
    TRY(is_empty(paths->split, options->which, &is_empty_share));
    if (paths->items.count == 0 || is_empty_share)
        return check_nothing(options, paths);
    OWNED_BY(blend_list_free) struct blend_list list = {0};
    TRY(blend_list_parse(&list, paths->items.items, paths->items.count, paths->flag));
    // An empty share of a small dataset is a note, which corpus_open writes.
    bool may_be_empty = paths->split && options->which != SPLIT_TRAIN && !options->is_epoch;
    int status = 0;
    for (int64_t i = 0; status == 0 && i < list.count; i++)
        status = check_part(options, may_be_empty ? NULL : part_of(paths, i), list.prefixes[i]);
    for (int64_t i = 0; status == 0 && options->which == SPLIT_TRAIN && i < list.count && i < MOST_NAMED; i++)
        name_sums(list.prefixes[i]);
    return status;
}

// The first rank checks. Opening the data compares it between ranks, with a separate message.
int corpus_check(const struct corpus_options *options) {
    int status = 0;
    if (options->place.mesh->rank == 0 && (options->sample_count > 0 || options->is_epoch)) {
        OWNED_BY(data_paths_free) struct data_paths paths = {0};
        status = data_paths_find_group(&paths, options->config, options->which, options->group);
        text_data_replace(options->texts, &paths.items);
        if (status == 0)
            status = check_paths(options, &paths);
    }
    return comm_agree(options->place.mesh->all, status, "datasets checked");
}

int corpus_open(struct corpus **corpus, const struct corpus_options *options) {
    *corpus = NULL;
    if (options->sample_count == 0 && !options->is_epoch)
        return 0;
    OWNED_BY(data_paths_free) struct data_paths paths = {0};
    int status = data_paths_find_group(&paths, options->config, options->which, options->group);
    text_data_replace(options->texts, &paths.items);
    if (status == 0)
        status = open_paths(corpus, options, &paths);
    if (status < 0) {
        corpus_close(*corpus);
        *corpus = NULL;
    }
    return status;
}

void corpus_close(struct corpus *corpus) {
    if (!corpus)
        return;
    blend_close(corpus->blend);
    for (int64_t i = 0; i < corpus->count; i++) {
        gpt_dataset_close(corpus->parts[i].gpt);
        sentence_dataset_close(corpus->parts[i].sentences);
        roberta_dataset_close(corpus->parts[i].roberta);
    }
    free(corpus->parts);
    free(corpus->sources);
    free(corpus);
}

struct sample_source corpus_source(const struct corpus *corpus) {
    return corpus->blend ? blend_source(corpus->blend) : corpus->sources[0];
}
