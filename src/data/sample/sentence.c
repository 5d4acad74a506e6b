// Opens a dataset of sentences: its split, its sample map and the map's cache. See sentence.h.
#include "data/sample/sentence.h"

#include "base/error.h"
#include "base/log.h"
#include "base/memory.h"
#include "data/sample/index_cache.h"
#include <inttypes.h>
#include <stdlib.h>

// Number of tokens that are put around those of a sample.
enum { BERT_AROUND = 3, T5_AROUND = 2, BERT_NGRAM = 3, T5_NGRAM = 10 };

static const char *class_name(enum sentence_kind kind) {
    static const char *const names[] = {[SENTENCE_BERT] = "BERTMaskedWordPieceDataset",
                                        [SENTENCE_T5] = "T5MaskedWordPieceDataset",
                                        [SENTENCE_ICT] = "ICTDataset"};
    return names[kind];
}

static int64_t longest_text(const struct sentence_options *options) {
    return options->seq_length - (options->kind == SENTENCE_T5 ? T5_AROUND : BERT_AROUND);
}

static int64_t least_sentences(const struct sentence_options *options) {
    if (options->kind == SENTENCE_ICT)
        return options->uses_single_sentences ? 1 : 2;
    return options->kind == SENTENCE_BERT && options->has_binary_head ? 2 : 1;
}

static int check_vocabulary(const struct sentence_options *options) {
    const struct sample_vocabulary *vocabulary = options->vocabulary;
    if (options->kind == SENTENCE_BERT && (vocabulary->cls < 0 || vocabulary->sep < 0 || vocabulary->mask < 0))
        return error_set_code(EXIT_CODE_USAGE, "the tokenizer lacks [CLS], [SEP] or [MASK], which BERT's samples need; "
                                               "use BertWordPieceLowerCase or BertWordPieceCase");
    if (options->kind == SENTENCE_ICT && (vocabulary->cls < 0 || vocabulary->sep < 0))
        return error_set_code(EXIT_CODE_USAGE, "the tokenizer lacks [CLS] or [SEP], which ICT's samples need; use "
                                               "BertWordPieceLowerCase or BertWordPieceCase");
    if (options->kind == SENTENCE_T5 && (vocabulary->bos < 0 || vocabulary->eos < 0 || vocabulary->sentinel_count == 0))
        return error_set_code(EXIT_CODE_USAGE,
                              "the tokenizer lacks a beginning, an end or <extra_id_0>, which T5's samples need; give "
                              "--vocab-extra-ids 100, or a tokenizer that has them");
    return 0;
}

static int check_options(const struct sentence_options *options) {
    TRY(check_vocabulary(options));
    if (longest_text(options) < 2)
        return error_set_code(EXIT_CODE_USAGE, "--seq-length %" PRId64 " leaves no room for words; give 5 or more",
                              options->seq_length);
    if (options->kind == SENTENCE_T5 && options->decoder_seq_length < 1)
        return error_set_code(EXIT_CODE_USAGE, "T5 needs --decoder-seq-length; 128 fits --seq-length 512");
    if (options->kind != SENTENCE_ICT && !(options->mask_prob > 0 && options->mask_prob < 1))
        return error_set_code(EXIT_CODE_USAGE, "--mask-prob %g must be between 0 and 1", options->mask_prob);
    if (options->seed < 0 || options->seed > UINT32_MAX)
        return error_set("--seed %" PRId64 ": the seed of a dataset must be between 0 and 4294967295", options->seed);
    return 0;
}

static int find_range(struct sentence_dataset *dataset) {
    const struct sentence_options *options = &dataset->options;
    return split_choose(&(struct split_choice){.prefix = options->prefix,
                                               .split = options->split,
                                               .which = options->which,
                                               .items = "documents",
                                               .count = dataset->reader->document_count},
                        &dataset->first_document, &dataset->end_document);
}

// There must be a title for every document, in the same order.
static int open_titles(struct sentence_dataset *dataset) {
    const struct sentence_options *options = &dataset->options;
    if (!options->titles || options->kind != SENTENCE_ICT)
        return 0;
    TRY(index_open(&dataset->titles, options->titles));
    if (dataset->titles->document_count == dataset->reader->document_count)
        return 0;
    return bad_data("--titles-data-path %s has %" PRId64 " documents, but %s has %" PRId64
                    "; write both with one `preprocess --json-keys text title`",
                    options->titles, dataset->titles->document_count, options->prefix, dataset->reader->document_count);
}

// Everything except the sample map.
static int open_reader(struct sentence_dataset *dataset, const struct sentence_options *options) {
    TRY(check_options(options));
    dataset->options = *options;
    dataset->name = memory_printf("%s split of %s", split_name(options->which), options->prefix);
    TRY(index_open(&dataset->reader, options->prefix));
    TRY(open_titles(dataset));
    return find_range(dataset);
}

// ---- the sample map and its cache ----

static void name_cache(struct index_cache *cache, const struct sentence_dataset *dataset) {
    const struct sentence_options *options = &dataset->options;
    const char *class = class_name(options->kind);
    struct buffer text = {0};
    struct json_writer w = {.out = &text, .indent = 4};
    json_begin_object(&w);
    index_cache_describe_samples(&w, &(struct index_cache_samples){.class = class,
                                                                   .prefix = options->prefix,
                                                                   .split = options->split,
                                                                   .which = options->which,
                                                                   .sample_count = options->sample_count,
                                                                   .seq_length = options->seq_length,
                                                                   .seed = options->seed});
    if (options->kind != SENTENCE_ICT) {
        json_put_double(&w, "short_sequence_probability", options->short_seq_prob);
    }
    json_put_int(&w, "min_sentences", least_sentences(options));
    index_cache_describe_dataset(&w, dataset->reader);
    if (dataset->titles) {
        json_key(&w, "titles");
        json_begin_object(&w);
        index_cache_describe_dataset(&w, dataset->titles);
        json_end_object(&w);
    }
    json_end_object(&w);
    char *folder = options->cache_folder ? memory_string(options->cache_folder)
                                         : memory_printf("%s/cache/%s_indices", options->prefix, class);
    index_cache_name(cache, folder, class, &text);
    free(folder);
}

static struct index_cache_array map_array(const struct sentence_dataset *dataset, const struct sentence_map *map) {
    int columns = dataset->options.kind == SENTENCE_ICT ? SENTENCE_MAP_BLOCK_COLUMNS : SENTENCE_MAP_COLUMNS;
    return (struct index_cache_array){.name = "sample_index.npy",
                                      .shape = {NPY_U32, 2, map ? map->count : -1, columns},
                                      .data = map ? map->rows : NULL};
}

// The third number of a row: the target length, or for ICT the document of a block.
static bool target_in_range(const struct sentence_dataset *dataset, int64_t target) {
    if (dataset->options.kind == SENTENCE_ICT)
        return target >= dataset->first_document && target < dataset->end_document;
    return target >= 2 && target <= longest_text(&dataset->options);
}

static bool rows_in_range(const struct sentence_dataset *dataset) {
    int64_t first = index_document_begin(dataset->reader, dataset->first_document);
    int64_t last = index_document_begin(dataset->reader, dataset->end_document);
    bool ok = dataset->rows.shape.rows > 0;
    for (int64_t i = 0; i < dataset->rows.shape.rows; i++) {
        struct sentence_run run = sentence_dataset_run(dataset, i);
        ok &= run.begin >= first && run.begin < run.end && run.end <= last && target_in_range(dataset, run.target) &&
              run.end - run.begin >= least_sentences(&dataset->options);
    }
    return ok && first >= 0 && last <= dataset->reader->sequence_count;
}

static int open_cache(const struct index_cache *cache, void *context) {
    struct sentence_dataset *dataset = context;
    struct index_cache_array array = map_array(dataset, NULL);
    TRY(index_cache_open(cache, &array, 1, &dataset->rows));
    if (rows_in_range(dataset))
        return 0;
    npy_close(&dataset->rows);
    return bad_data("%s-sample_index.npy: an entry is out of range", cache->stem);
}

static int build_map(const struct index_cache *cache, void *context) {
    const struct sentence_dataset *dataset = context;
    const struct sentence_options *options = &dataset->options;
    struct sentence_map map;
    struct sentence_map_options how = {.first_document = dataset->first_document,
                                       .end_document = dataset->end_document,
                                       .max_length = longest_text(options),
                                       .min_sentences = least_sentences(options),
                                       .short_probability = options->short_seq_prob,
                                       .sample_count = options->sample_count,
                                       .seed = (uint32_t)options->seed};
    TRY(options->kind == SENTENCE_ICT ? sentence_map_build_blocks(&map, dataset->reader, dataset->titles, &how)
                                      : sentence_map_build(&map, dataset->reader, &how));
    log_info("built the sample index of the %s: %" PRId64 " documents, %" PRId64 " samples", dataset->name,
             dataset->end_document - dataset->first_document, map.count);
    struct index_cache_array array = map_array(dataset, &map);
    int result = index_cache_write(cache, &array, 1);
    sentence_map_free(&map);
    return result;
}

// Opens the sample map, or makes sure that it is there.
static int use_cache(struct sentence_dataset *dataset, const struct sentence_options *options, bool builds) {
    struct index_cache cache;
    TRY(open_reader(dataset, options));
    struct index_cache_array array = map_array(dataset, NULL);
    name_cache(&cache, dataset);
    int result =
        builds ? index_cache_ensure(&cache, &array, 1, open_cache, build_map, dataset) : open_cache(&cache, dataset);
    if (result < 0 && !builds)
        error_context("cannot use the sample index in %s (remove it to have it rebuilt)", cache.folder);
    index_cache_free(&cache);
    return result;
}

int sentence_dataset_build(const struct sentence_options *options) {
    struct sentence_dataset *dataset = memory_alloc(sizeof *dataset);
    int result = use_cache(dataset, options, true);
    sentence_dataset_close(dataset);
    return result;
}

// ---- the dataset ----

static void create_buffers(struct sentence_dataset *dataset) {
    const struct sentence_options *options = &dataset->options;
    bool is_bert = options->kind == SENTENCE_BERT;
    dataset->text.capacity = options->seq_length;
    dataset->text.tokens = memory_alloc((size_t)options->seq_length * sizeof *dataset->text.tokens);
    if (options->kind == SENTENCE_ICT)
        return;
    word_mask_create(&dataset->mask, &(struct word_mask_options){.vocabulary = options->vocabulary,
                                                                 .probability = options->mask_prob,
                                                                 .max_ngram = is_bert ? BERT_NGRAM : T5_NGRAM,
                                                                 .is_geometric = !is_bert,
                                                                 .replaces_all = !is_bert,
                                                                 .most_tokens = options->seq_length});
    dataset->original = memory_alloc((size_t)options->seq_length * sizeof *dataset->original);
}

int sentence_dataset_open(struct sentence_dataset **dataset, const struct sentence_options *options) {
    *dataset = memory_alloc(sizeof **dataset);
    if (use_cache(*dataset, options, false) < 0) {
        sentence_dataset_close(*dataset);
        *dataset = NULL;
        return -1;
    }
    create_buffers(*dataset);
    return 0;
}

void sentence_dataset_close(struct sentence_dataset *dataset) {
    if (!dataset)
        return;
    npy_close(&dataset->rows);
    index_close(dataset->reader);
    index_close(dataset->titles);
    word_mask_free(&dataset->mask);
    free(dataset->text.tokens);
    free(dataset->original);
    free(dataset->name);
    free(dataset);
}

static int read_from(struct sentence_dataset *dataset, const struct index_reader *reader, int64_t sentence,
                     int64_t most) {
    struct sentence_text *text = &dataset->text;
    int64_t length = index_length(reader, sentence);
    int64_t count = length < most ? length : most;
    if (count <= 0)
        return 0;
    // Check before allocating: an index may claim that two bytes are billions of tokens.
    TRY(index_read(reader, sentence, 0, 0, NULL));
    if (text->count + count > text->capacity) {
        text->capacity = 2 * (text->count + count);
        text->tokens = memory_realloc(text->tokens, (size_t)text->capacity * sizeof *text->tokens);
    }
    int32_t *tokens = text->tokens + text->count;
    struct index_piece piece = {.sequence = sentence, .count = count};
    TRY(index_read_ids(reader, piece, dataset->options.vocabulary->size, tokens));
    text->count += count;
    return 0;
}

int sentence_dataset_read(struct sentence_dataset *dataset, int64_t sentence, int64_t most) {
    return read_from(dataset, dataset->reader, sentence, most);
}

int sentence_dataset_read_title(struct sentence_dataset *dataset, int64_t document, int64_t most) {
    int64_t begin, end, before = dataset->text.count;
    TRY(sentence_map_document(dataset->titles, document, &begin, &end));
    for (int64_t i = begin; i < end && dataset->text.count - before < most; i++)
        TRY(read_from(dataset, dataset->titles, i, most - (dataset->text.count - before)));
    return 0;
}

static int fill(void *context, int64_t sample, const struct batch *row) {
    struct sentence_dataset *dataset = context;
    CHECK(sample >= 0 && sample < dataset->rows.shape.rows);
    return dataset->options.kind == SENTENCE_BERT ? sentence_fill_bert(dataset, sample, row)
           : dataset->options.kind == SENTENCE_T5 ? sentence_fill_t5(dataset, sample, row)
                                                  : sentence_fill_ict(dataset, sample, row);
}

struct sample_source sentence_dataset_source(struct sentence_dataset *dataset) {
    const struct sentence_options *options = &dataset->options;
    const uint32_t more[] = {[SENTENCE_BERT] =
                                 BATCH_BIT(TOKEN_TYPES) | (options->has_binary_head ? BATCH_BIT(PAIR_LABELS) : 0),
                             [SENTENCE_T5] = BATCH_DECODER,
                             [SENTENCE_ICT] = BATCH_CONTEXT};
    return (struct sample_source){.context = dataset,
                                  .name = dataset->name,
                                  .count = dataset->rows.shape.rows,
                                  .seq_length = options->seq_length,
                                  .form = {.T = options->seq_length,
                                           .S = options->kind == SENTENCE_T5 ? options->decoder_seq_length : 0,
                                           .fields = BATCH_TEXT | BATCH_BIT(LENGTHS) | more[options->kind]},
                                  .fill = fill};
}
