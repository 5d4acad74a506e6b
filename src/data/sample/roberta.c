// A dataset of RoBERTa: blocks are cut once, sorted by length and grouped into batches; an epoch is an order of
// batches; a row is one block, masked with random numbers that depend only on (seed, epoch, block). So any sample can
// be made without those before it. See roberta.h.
#include "data/sample/roberta.h"

#include "base/error.h"
#include "base/log.h"
#include "base/memory.h"
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

// ---- blocks ----

// Cut in one pass over the lengths of sentences, without reading tokens. See roberta.h for the four modes.

enum { SEPARATOR_TOKENS = 1 };

int text_block_mode_parse(enum text_block_mode *mode, const char *name) {
    static const char *const names[] = {"none", "complete", "complete_doc", "eos"};
    for (int i = 0; i < 4; i++)
        if (strcmp(name, names[i]) == 0) {
            *mode = (enum text_block_mode)i;
            return 0;
        }
    return error_set_code(EXIT_CODE_USAGE, "--sample-break-mode %s: use none, complete, complete_doc or eos", name);
}

static void add_block(struct text_block_list *list, struct text_block block) {
    MEMORY_GROW(list->blocks, list->count, list->capacity);
    list->blocks[list->count++] = block;
}

// The lengths decide how many blocks there are, so a small file must not claim more tokens than .bin has.
static int check_lengths(const struct index_reader *reader, const struct text_block_options *options) {
    int64_t left = reader->token_count;
    for (int64_t i = options->begin; i < options->end; i++) {
        int64_t length = index_length(reader, i);
        if (length < 0 || length > left)
            return bad_data("%s.idx: sequence %" PRId64 " has %" PRId64 " tokens, of %" PRId64
                            " that are left for it; check it with `dataset verify`",
                            reader->files.prefix, i, length, left);
        left -= length;
    }
    return 0;
}

static void cut_anywhere(struct text_block_list *list, const struct index_reader *reader,
                         const struct text_block_options *options) {
    struct text_block block = {.sequence = options->begin};
    for (int64_t i = options->begin; i < options->end; i++) {
        int64_t length = index_length(reader, i), used = 0;
        while (used < length) {
            int64_t room = options->size - block.length, taken = length - used < room ? length - used : room;
            if (block.length == 0)
                block = (struct text_block){.sequence = i, .offset = (int32_t)used};
            block.length += (int32_t)taken;
            used += taken;
            if (block.length == options->size) {
                add_block(list, block);
                block.length = 0;
            }
        }
    }
    if (block.length > 0)
        add_block(list, block);
}

// In complete_doc a block of one token is dropped, and so are the separators.
static int cut_whole(struct text_block_list *list, const struct index_reader *reader,
                     const struct text_block_options *options) {
    bool by_document = options->mode == BLOCK_COMPLETE_DOC;
    int64_t shortest = by_document ? 2 : 1, first = options->begin, filled = 0;
    for (int64_t i = options->begin; i < options->end; i++) {
        int64_t length = index_length(reader, i);
        bool is_separator = by_document && length == SEPARATOR_TOKENS;
        bool is_full = is_separator || options->mode == BLOCK_EOS || (filled > 0 && filled + length > options->size);
        if (is_full) {
            if (filled >= shortest)
                add_block(list, (struct text_block){.sequence = first, .length = (int32_t)filled});
            filled = 0;
            first = i + is_separator;
        }
        if (!is_separator)
            filled += length;
        if (filled > INT32_MAX)
            return bad_data("%s: a block of %" PRId64 " tokens from sequence %" PRId64 " on is too long",
                            reader->files.prefix, filled, first);
    }
    if (filled >= shortest)
        add_block(list, (struct text_block){.sequence = first, .length = (int32_t)filled});
    return 0;
}

int text_block_list_make(struct text_block_list *list, const struct index_reader *reader,
                         const struct text_block_options *options) {
    CHECK(options->size > 0 && options->begin >= 0 && options->end <= reader->sequence_count);
    *list = (struct text_block_list){0};
    TRY(check_lengths(reader, options));
    int result = 0;
    if (options->mode == BLOCK_NONE)
        cut_anywhere(list, reader, options);
    else
        result = cut_whole(list, reader, options);
    if (result < 0)
        text_block_list_free(list);
    return result;
}

void text_block_list_free(struct text_block_list *list) {
    free(list->blocks);
    *list = (struct text_block_list){0};
}

// ---- masks ----

// Dynamic masking as in fairseq's MaskTokensDataset. Every token may be chosen, even <s> and </s>. The order of random
// numbers: one chooses between two neighbouring counts; a permutation chooses the units; one per unit says whether a
// chosen unit is spared from <mask>, another whether it is then kept or replaced; one per replaced token draws the id.

struct roberta_mask {
    const struct roberta_options *options;
    double *cumulative;    // (vocabulary) probability of a replacement up to this id
    int64_t *order;        // (seq_length)
    int32_t *words;        // (seq_length + 1) where each unit begins: a token or a word
    unsigned char *fates;  // (seq_length) of each unit
};

enum { FATE_NONE, FATE_MASK, FATE_RANDOM, FATE_KEPT };

// Ids below this are fairseq's special symbols (<s>, <pad>, </s>, <unk>), which are never used as replacements.
static int64_t first_replacement(const struct sample_vocabulary *vocabulary) {
    enum { FAIRSEQ_OWN = 4 };
    return vocabulary->cls == 0 && vocabulary->size > FAIRSEQ_OWN ? FAIRSEQ_OWN : 0;
}

static void mask_create(struct roberta_mask *mask, const struct roberta_options *options) {
    const struct sample_vocabulary *vocabulary = options->vocabulary;
    size_t most = (size_t)options->seq_length;
    *mask = (struct roberta_mask){
        .options = options,
        .cumulative = memory_alloc((size_t)vocabulary->size * sizeof *mask->cumulative),
        .order = memory_alloc(most * sizeof *mask->order),
        .words = memory_alloc((most + 1) * sizeof *mask->words),
        .fates = memory_alloc(most),
    };
    int64_t first = first_replacement(vocabulary);
    double each = 1.0 / (double)(vocabulary->size - first), sum = 0;
    for (int64_t id = 0; id < vocabulary->size; id++) {
        sum += id < first ? 0 : each;
        mask->cumulative[id] = sum;
    }
    for (int64_t id = 0; id < vocabulary->size; id++)
        mask->cumulative[id] /= sum;
}

static void mask_free(struct roberta_mask *mask) {
    free(mask->cumulative);
    free(mask->order);
    free(mask->words);
    free(mask->fates);
    *mask = (struct roberta_mask){0};
}

// Groups the tokens into units that are masked together; returns how many.
static int64_t find_units(struct roberta_mask *mask, const int32_t *tokens, int64_t length) {
    int64_t count = 0;
    for (int64_t t = 0; t < length; t++)
        if (t == 0 || !mask->options->masks_whole_words || mask->options->begins_word[tokens[t]])
            mask->words[count++] = (int32_t)t;
    mask->words[count] = (int32_t)length;
    return count;
}

static void draw_fates(struct roberta_mask *mask, int64_t units, struct mt19937 *random) {
    const struct roberta_options *options = mask->options;
    double spared = options->random_token_prob + options->leave_unmasked_prob;
    int64_t chosen = (int64_t)(options->mask_prob * (double)units + mt19937_random(random));
    mt19937_permutation(random, mask->order, (size_t)units);
    memset(mask->fates, FATE_NONE, (size_t)units);
    for (int64_t i = 0; i < chosen && i < units; i++)
        mask->fates[mask->order[i]] = FATE_MASK;
    if (!(spared > 0))
        return;
    unsigned char fate = options->random_token_prob > 0 ? FATE_RANDOM : FATE_KEPT;
    for (int64_t i = 0; i < units; i++)
        if (mt19937_random(random) < spared && mask->fates[i] == FATE_MASK)
            mask->fates[i] = fate;
    if (!(options->random_token_prob > 0 && options->leave_unmasked_prob > 0))
        return;
    double kept = options->leave_unmasked_prob / spared;
    for (int64_t i = 0; i < units; i++)
        if (mt19937_random(random) < kept && mask->fates[i] == FATE_RANDOM)
            mask->fates[i] = FATE_KEPT;
}

// The first id whose cumulative probability exceeds the number.
static int32_t draw_id(const struct roberta_mask *mask, struct mt19937 *random) {
    double number = mt19937_random(random);
    int64_t low = 0, high = mask->options->vocabulary->size - 1;
    while (low < high) {
        int64_t middle = low + (high - low) / 2;
        if (mask->cumulative[middle] > number)
            high = middle;
        else
            low = middle + 1;
    }
    return (int32_t)low;
}

// Masks row->tokens[0…length); fills labels and loss mask there.
static void mask_row(struct roberta_mask *mask, const struct batch *row, int64_t length, struct mt19937 *random) {
    int64_t units = find_units(mask, row->tokens, length);
    draw_fates(mask, units, random);
    for (int64_t i = 0; i < units; i++)
        for (int64_t t = mask->words[i]; t < mask->words[i + 1]; t++) {
            unsigned char fate = mask->fates[i];
            row->labels[t] = fate == FATE_NONE ? 0 : row->tokens[t];
            row->loss_mask[t] = fate != FATE_NONE;
            if (fate == FATE_MASK)
                row->tokens[t] = mask->options->vocabulary->mask;
            else if (fate == FATE_RANDOM)
                row->tokens[t] = draw_id(mask, random);
        }
}

// ---- the dataset ----

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
    mask_create(&dataset->mask, &dataset->options);
    *out = dataset;
    return 0;
}

void roberta_dataset_close(struct roberta_dataset *dataset) {
    if (!dataset)
        return;
    index_close(dataset->reader);
    text_block_list_free(&dataset->blocks);
    mask_free(&dataset->mask);
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
    mask_row(&dataset->mask, row, length, &random);
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
