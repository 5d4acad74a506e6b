// Finds the merges. All words are in one array of symbols, one place per byte and one place between words. A token of n
// bytes at position p has its id at p and, if n > 1, -n at p + n - 1, so that both neighbours are found in constant
// time; places inside a token are negative. So the cost of a merge depends only on the places it touches, not on the
// length of words. Every pair has a list of the places where it occurs; they are checked when the pair is merged.
#include "data/tokenizer/bpe_train.h"
#include "data/tokenizer/byte_map.h"
#include "data/tokenizer/pair_queue.h"
#include "base/error.h"
#include "base/memory.h"
#include "base/progress.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { BETWEEN_WORDS = INT32_MIN, INSIDE = INT32_MIN + 1, BYTE_TOKENS = 256, SPECIAL_TOKENS = 1 };

struct training {
    const struct word_table *words;
    unsigned char *bytes;  // the byte at each position
    int32_t *symbols;      // (size)
    size_t size;
    struct pair_queue pairs;
    struct word_table tokens;  // bytes of each token; value is its id + 1
    int32_t *lengths;          // (token count, capacity as below) bytes of each token
    int64_t length_capacity;
    struct bpe_merges *merges;
};

static void set_length(struct training *training, int64_t id, int32_t length) {
    if (id >= training->length_capacity) {
        training->length_capacity = training->length_capacity ? 2 * training->length_capacity : 1024;
        training->lengths =
            memory_realloc(training->lengths, (size_t)training->length_capacity * sizeof *training->lengths);
    }
    training->lengths[id] = length;
}

// ---- the array of symbols ----

static int lay_out_words(struct training *training) {
    const struct word_table *words = training->words;
    struct byte_map map;
    byte_map_init(&map);
    int32_t id_of_byte[256];
    for (int id = 0; id < BYTE_TOKENS; id++) {
        id_of_byte[map.in_order[id]] = id;
        set_length(training, id, 1);
        word_table_get(&training->tokens, &map.in_order[id], 1)->value = id + 1;
    }
    training->size = words->bytes_used + (size_t)words->count + 1;
    if (training->size > UINT32_MAX || words->count > UINT32_MAX)
        return error_set("the corpus has %zu bytes of distinct words, more than training can index; train on a sample",
                         words->bytes_used);
    training->symbols = memory_alloc(training->size * sizeof *training->symbols);
    training->bytes = memory_alloc(training->size);
    size_t at = 0;
    training->symbols[at++] = BETWEEN_WORDS;
    for (int64_t w = 0; w < words->count; w++) {
        const struct word *word = &words->words[w];
        memcpy(training->bytes + at, words->bytes + word->begin, word->length);
        for (size_t i = 0; i < word->length; i++, at++)
            training->symbols[at] = id_of_byte[training->bytes[at]];
        training->symbols[at++] = BETWEEN_WORDS;
    }
    return 0;
}

static void add_pairs(struct training *training) {
    const int32_t *symbols = training->symbols;
    uint32_t at = 1;
    for (int64_t w = 0; w < training->words->count; w++, at++) {
        for (; symbols[at] != BETWEEN_WORDS; at++)
            if (symbols[at + 1] != BETWEEN_WORDS)
                pair_queue_add(&training->pairs, symbols[at], symbols[at + 1], training->words->words[w].value,
                               (struct pair_place){at, (uint32_t)w});
    }
    pair_queue_refresh(&training->pairs);
}

// Position of the token that ends just before `at`, or of the gap between words.
static uint32_t previous(const struct training *training, uint32_t at) {
    int32_t symbol = training->symbols[at - 1];
    return symbol >= 0 || symbol == BETWEEN_WORDS ? at - 1 : at - (uint32_t)-symbol;
}

// ---- merging ----

// Merges one occurrence, if it still exists, and corrects the counts of the pairs on both sides.
static void merge_at(struct training *training, struct bpe_merge merge, struct pair_place place) {
    int32_t *symbols = training->symbols;
    uint32_t at = place.position;
    if (symbols[at] != merge.left)
        return;
    uint32_t right = at + (uint32_t)training->lengths[merge.left];
    if (symbols[right] != merge.right)
        return;
    uint32_t end = right + (uint32_t)training->lengths[merge.right];
    int64_t weight = training->words->words[place.word].value;
    uint32_t before = previous(training, at);
    int32_t left_neighbour = symbols[before], right_neighbour = symbols[end];
    if (left_neighbour >= 0)
        pair_queue_remove(&training->pairs, left_neighbour, merge.left, weight);
    if (right_neighbour >= 0)
        pair_queue_remove(&training->pairs, merge.right, right_neighbour, weight);
    symbols[right] = INSIDE;
    symbols[at] = merge.id;
    symbols[end - 1] = -(int32_t)(end - at);
    if (left_neighbour >= 0)
        pair_queue_add(&training->pairs, left_neighbour, merge.id, weight, (struct pair_place){before, place.word});
    if (right_neighbour >= 0)
        pair_queue_add(&training->pairs, merge.id, right_neighbour, weight, place);
}

// The id of a pair's result: a new one, unless other merges have already produced the same bytes.
static int32_t merged_id(struct training *training, const struct pair *pair) {
    uint32_t at = 0;
    for (int64_t i = 0; i < pair->place_count; i++) {
        at = pair->places[i].position;
        if (training->symbols[at] == pair->left &&
            training->symbols[at + (uint32_t)training->lengths[pair->left]] == pair->right)
            break;
    }
    int32_t length = training->lengths[pair->left] + training->lengths[pair->right];
    struct word *token = word_table_get(&training->tokens, training->bytes + at, (size_t)length);
    if (token->value == 0) {
        set_length(training, training->merges->token_count, length);
        token->value = ++training->merges->token_count;
    }
    return (int32_t)(token->value - 1);
}

static void record(struct bpe_merges *merges, struct bpe_merge merge) {
    if (merges->count == merges->capacity) {
        merges->capacity = merges->capacity ? 2 * merges->capacity : 1024;
        merges->items = memory_realloc(merges->items, (size_t)merges->capacity * sizeof *merges->items);
    }
    merges->items[merges->count++] = merge;
}

static void merge_pair(struct training *training, const struct pair *pair) {
    struct bpe_merge merge = {pair->left, pair->right, merged_id(training, pair)};
    record(training->merges, merge);
    for (int64_t i = 0; i < pair->place_count; i++)
        merge_at(training, merge, pair->places[i]);
    pair_queue_settle(&training->pairs, merge.left, merge.right);
    pair_queue_refresh(&training->pairs);
}

static void find_merges(struct training *training, const struct bpe_train_options *options) {
    struct progress progress;
    int64_t wanted = options->vocab_size - SPECIAL_TOKENS;
    if (options->show_progress)
        progress_begin(&progress, "merging", "tokens", (double)wanted);
    struct pair pair;
    while (training->merges->token_count < wanted && pair_queue_pop(&training->pairs, &pair)) {
        bool enough = pair.count >= options->min_frequency;
        if (enough)
            merge_pair(training, &pair);
        free(pair.places);
        if (!enough)
            break;
        if (options->show_progress)
            progress_update(&progress, (double)training->merges->token_count, NULL);
    }
    if (options->show_progress)
        progress_end(&progress, NULL);
}

int bpe_train(struct bpe_merges *merges, const struct word_table *words, const struct bpe_train_options *options) {
    *merges = (struct bpe_merges){.token_count = BYTE_TOKENS};
    if (options->vocab_size < BYTE_TOKENS + SPECIAL_TOKENS || options->vocab_size > INT32_MAX)
        return error_set_code(EXIT_CODE_USAGE,
                              "--vocab-size %" PRId64 " is too small: 256 bytes and <|endoftext|> make 257 the minimum",
                              options->vocab_size);
    struct training training = {.words = words, .merges = merges};
    int status = lay_out_words(&training);
    if (status == 0) {
        add_pairs(&training);
        find_merges(&training, options);
    }
    pair_queue_free(&training.pairs);
    word_table_free(&training.tokens);
    free(training.lengths);
    free(training.symbols);
    free(training.bytes);
    return status;
}

void bpe_merges_free(struct bpe_merges *merges) {
    free(merges->items);
    *merges = (struct bpe_merges){0};
}
