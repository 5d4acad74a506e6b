// A dataset of RoBERTa: blocks are cut once, sorted by length and grouped into batches; an epoch is an order of
// batches; a row is one block, masked with random numbers that depend only on (seed, epoch, block). So any sample can
// be made without those before it. See roberta.h.
#include "data/sample/roberta.h"

#include "base/error.h"
#include "base/log.h"
#include "base/memory.h"
#include "data/bad_data.h"
#include "data/sample/roberta_mask.h"
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

struct roberta_dataset {
    struct roberta_options options;  // strings not valid after opening
    struct index_reader *reader;
    char *name;
    struct text_block_list blocks;
    int64_t *sorted;   // (used) the blocks that fit, by length, equal lengths in random order
    int64_t used;      // blocks per epoch
    int64_t *batches;  // (batch_count) their order in the current epoch
    int64_t batch_count, epoch;
    int64_t smaller;  // position of the last batch, which may be smaller than the others
    struct roberta_mask mask;
};

// ---- fairseq's random seeds ----

// Python's hash of a tuple of small integers: rounds and primes of xxHash, with a different final step.
static uint64_t tuple_hash(const uint64_t *items, uint64_t count) {
    const uint64_t p1 = 11400714785074694791u, p2 = 14029467366897019727u, p5 = 2870177450012600261u;
    uint64_t sum = p5;
    for (uint64_t i = 0; i < count; i++) {
        sum += items[i] * p2;
        sum = (sum << 31 | sum >> 33) * p1;
    }
    sum += count ^ (p5 ^ 3527539u);
    return sum == UINT64_MAX ? 1546275796u : sum;
}

// hash % 1e6 as in Python: the hash becomes a double first, and the remainder has the sign of the divisor.
uint32_t roberta_seed(int64_t seed, int64_t epoch, int64_t index) {
    const uint64_t items[] = {(uint64_t)seed, (uint64_t)epoch, (uint64_t)index};
    double rest = fmod((double)(int64_t)tuple_hash(items, 3), 1e6);
    return (uint32_t)(rest < 0 ? rest + 1e6 : rest);
}

// ---- the order of blocks ----

struct sort_key {
    int32_t length;
    int64_t draw, block;
};

static int compare_keys(const void *a, const void *b) {
    const struct sort_key *x = a, *y = b;
    if (x->length != y->length)
        return x->length < y->length ? -1 : 1;
    return (x->draw > y->draw) - (x->draw < y->draw);
}

static void sort_blocks(struct roberta_dataset *dataset) {
    int64_t count = dataset->blocks.count, longest = dataset->options.seq_length - 1;
    int64_t *draws = memory_alloc((size_t)count * sizeof *draws);
    struct sort_key *keys = memory_alloc((size_t)count * sizeof *keys);
    struct mt19937 random;
    mt19937_seed(&random, (uint32_t)dataset->options.seed);
    mt19937_permutation(&random, draws, (size_t)count);
    for (int64_t i = 0; i < count; i++)
        if (dataset->blocks.blocks[i].length <= longest)
            keys[dataset->used++] = (struct sort_key){dataset->blocks.blocks[i].length, draws[i], i};
    qsort(keys, (size_t)dataset->used, sizeof *keys, compare_keys);
    dataset->sorted = memory_alloc((size_t)dataset->used * sizeof *dataset->sorted + 1);
    for (int64_t i = 0; i < dataset->used; i++)
        dataset->sorted[i] = keys[i].block;
    free(draws);
    free(keys);
}

static void begin_epoch(struct roberta_dataset *dataset, int64_t epoch) {
    if (dataset->epoch == epoch)
        return;
    dataset->epoch = epoch;
    for (int64_t i = 0; i < dataset->batch_count; i++)
        dataset->batches[i] = i;
    if (dataset->options.is_shuffled) {
        struct mt19937 random;
        mt19937_seed(&random, (uint32_t)(dataset->options.seed + epoch));
        mt19937_shuffle_i64(&random, dataset->batches, (size_t)dataset->batch_count);
    }
    dataset->smaller = 0;
    while (dataset->batches[dataset->smaller] != dataset->batch_count - 1)
        dataset->smaller++;
}

// The position of sample `within` of an epoch in the sorted blocks. Only the highest-numbered batch may be smaller than
// the others; wherever it comes in the epoch, later positions shift.
static int64_t place_in_epoch(const struct roberta_dataset *dataset, int64_t within) {
    int64_t size = dataset->options.batch_size, last = dataset->batch_count - 1, rest = dataset->used - last * size;
    int64_t position = within / size, row = within % size;
    if (rest == size)
        return dataset->batches[position] * size + row;
    int64_t small = dataset->smaller;
    if (within >= small * size + rest) {
        int64_t after = within - small * size - rest;
        position = small + 1 + after / size;
        row = after % size;
    } else if (within >= small * size) {
        position = small;
        row = within - small * size;
    }
    return dataset->batches[position] * size + row;
}

int64_t roberta_dataset_block(struct roberta_dataset *dataset, int64_t sample, int64_t *epoch) {
    *epoch = sample / dataset->used + 1;
    begin_epoch(dataset, *epoch);
    return dataset->sorted[place_in_epoch(dataset, sample % dataset->used)];
}

// ---- opening ----

static int check_options(const struct roberta_options *options) {
    const struct sample_vocabulary *vocabulary = options->vocabulary;
    if (vocabulary->cls < 0 || vocabulary->mask < 0)
        return error_set_code(EXIT_CODE_USAGE, "the tokenizer lacks <s> or <mask>, which RoBERTa's samples need; use "
                                               "FairseqTokenizer, or RoBERTa's tokenizer.json");
    if (options->seq_length < 2 || options->seq_length > INT32_MAX)
        return error_set_code(EXIT_CODE_USAGE, "--seq-length %" PRId64 ": a sample has <s> and at least one token",
                              options->seq_length);
    if (!(options->mask_prob > 0 && options->mask_prob < 1) || !(options->random_token_prob >= 0) ||
        !(options->leave_unmasked_prob >= 0) || options->random_token_prob + options->leave_unmasked_prob > 1)
        return error_set_code(EXIT_CODE_USAGE,
                              "--mask-prob %g must be between 0 and 1, and --random-token-prob %g plus "
                              "--leave-unmasked-prob %g at most 1",
                              options->mask_prob, options->random_token_prob, options->leave_unmasked_prob);
    return 0;
}

static int find_range(const struct roberta_options *options, const struct index_reader *reader,
                      struct text_block_options *range) {
    int64_t first, end;
    TRY(split_choose(&(struct split_choice){.prefix = options->prefix,
                                            .split = options->split,
                                            .which = options->which,
                                            .items = "documents",
                                            .count = reader->document_count},
                     &first, &end));
    range->begin = index_document_begin(reader, first);
    range->end = index_document_begin(reader, end);
    if (range->begin < 0 || range->end > reader->sequence_count)
        return bad_data("%s.idx: documents lie outside the sequences; check it with `dataset verify`",
                        reader->files.prefix);
    return 0;
}

static int make_blocks(struct roberta_dataset *dataset) {
    const struct roberta_options *options = &dataset->options;
    struct text_block_options range = {.mode = options->mode, .size = options->seq_length - 1};
    TRY(find_range(options, dataset->reader, &range));
    TRY(text_block_list_make(&dataset->blocks, dataset->reader, &range));
    sort_blocks(dataset);
    if (dataset->used == 0)
        return bad_data("the %s has no blocks of at most %" PRId64 " tokens; use more data, or longer samples",
                        dataset->name, range.size);
    if (dataset->used < dataset->blocks.count)
        log_warn("%" PRId64 " of %" PRId64 " blocks of the %s have more than %" PRId64 " tokens and are left out",
                 dataset->blocks.count - dataset->used, dataset->blocks.count, dataset->name, range.size);
    int64_t size = options->batch_size < dataset->used ? options->batch_size : dataset->used;
    dataset->options.batch_size = size > 0 ? size : 1;
    dataset->batch_count = (dataset->used - 1) / dataset->options.batch_size + 1;
    dataset->batches = memory_alloc((size_t)dataset->batch_count * sizeof *dataset->batches);
    return 0;
}

int roberta_dataset_open(struct roberta_dataset **out, const struct roberta_options *options) {
    *out = NULL;
    TRY(check_options(options));
    struct roberta_dataset *dataset = memory_alloc(sizeof *dataset);
    dataset->options = *options;
    dataset->name = memory_printf("%s split of %s", split_name(options->which), options->prefix);
    int result = index_open(&dataset->reader, options->prefix);
    if (result == 0)
        result = make_blocks(dataset);
    if (result < 0) {
        roberta_dataset_close(dataset);
        return -1;
    }
    roberta_mask_create(&dataset->mask, &dataset->options);
    *out = dataset;
    return 0;
}

void roberta_dataset_close(struct roberta_dataset *dataset) {
    if (!dataset)
        return;
    index_close(dataset->reader);
    text_block_list_free(&dataset->blocks);
    roberta_mask_free(&dataset->mask);
    free(dataset->sorted);
    free(dataset->batches);
    free(dataset->name);
    free(dataset);
}

// ---- rows ----

static int read_block(const struct roberta_dataset *dataset, const struct text_block *block, int32_t *tokens) {
    int64_t filled = 0, offset = block->offset, vocab_size = dataset->options.vocabulary->size;
    for (int64_t i = block->sequence; filled < block->length; i++, offset = 0) {
        CHECK(i < dataset->reader->sequence_count);
        int64_t left = index_length(dataset->reader, i) - offset, wanted = block->length - filled;
        int64_t count = left < wanted ? left : wanted;
        TRY(index_read_ids(dataset->reader, (struct index_piece){i, offset, count}, vocab_size, tokens + filled));
        filled += count;
    }
    return 0;
}

static int fill(void *context, int64_t sample, const struct batch *row) {
    struct roberta_dataset *dataset = context;
    const struct roberta_options *options = &dataset->options;
    int64_t epoch, number = roberta_dataset_block(dataset, sample, &epoch);
    const struct text_block *block = &dataset->blocks.blocks[number];
    int32_t padding = options->vocabulary->pad < 0 ? 0 : options->vocabulary->pad;
    int64_t length = block->length + 1;
    row->tokens[0] = options->vocabulary->cls;
    TRY(read_block(dataset, block, row->tokens + 1));
    for (int64_t t = 0; t < options->seq_length; t++) {
        row->positions[t] = (int32_t)t;
        row->labels[t] = 0;
        row->loss_mask[t] = 0;
        if (t >= length)
            row->tokens[t] = padding;
    }
    *row->lengths = (int32_t)length;
    struct mt19937 random;
    mt19937_seed(&random, roberta_seed(options->seed, epoch, number));
    roberta_mask_run(&dataset->mask, row, length, &random);
    return 0;
}

struct sample_source roberta_dataset_source(struct roberta_dataset *dataset) {
    const struct roberta_options *options = &dataset->options;
    return (struct sample_source){.context = dataset,
                                  .name = dataset->name,
                                  .count = options->sample_count > 0 ? options->sample_count : dataset->used,
                                  .seq_length = options->seq_length,
                                  .form = {.T = options->seq_length, .fields = BATCH_TEXT | BATCH_BIT(LENGTHS)},
                                  .fill = fill};
}

// Special symbols and made-up words begin words, as in fairseq. Other tokens do if their text begins with a space,
// which tokenizer.json files write as Ġ.
unsigned char *roberta_word_beginnings(const struct tokenizer *tokenizer) {
    int64_t size = tokenizer_vocab_size(tokenizer);
    unsigned char *begins = memory_alloc((size_t)size);
    for (int64_t id = 0; id < size; id++) {
        size_t length;
        const char *text = tokenizer_token(tokenizer, (int32_t)id, &length);
        bool has_blank = text && ((length >= 1 && text[0] == ' ') || (length >= 2 && memcmp(text, "\xC4\xA0", 2) == 0));
        bool is_special = !text || (length >= 2 && text[0] == '<' && text[length - 1] == '>' && length > 3) ||
                          (length >= 10 && memcmp(text, "madeupword", 10) == 0) ||
                          (length == 3 && memcmp(text, "<s>", 3) == 0);
        begins[id] = has_blank || is_special;
    }
    return begins;
}
