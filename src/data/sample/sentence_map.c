// Cuts documents into runs of sentences for BERT and T5. Which random number is drawn when is part of the result: one
// for each target, from one generator through all epochs, and then a shuffle by another. See sentence_map.h.
#include "data/sample/sentence_map.h"

#include "base/error.h"
#include "base/interrupt.h"
#include "base/memory.h"
#include "base/rng.h"
#include "data/bad_data.h"
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

struct builder {
    const struct index_reader *reader;
    const struct sentence_map_options *options;
    struct mt19937 random;
    uint32_t short_ratio;  // one target in so many is short; 0: none
    struct sentence_map *map;
    int64_t capacity;
};

static int64_t draw_target(struct builder *b) {
    uint32_t longest = (uint32_t)b->options->max_length;
    if (b->short_ratio == 0)
        return longest;
    uint32_t number = mt19937_next(&b->random);
    return number % b->short_ratio == 0 ? 2 + number % (longest - 1) : longest;
}

static void emit(struct builder *b, int64_t begin, int64_t end, int64_t target) {
    struct sentence_map *map = b->map;
    if (map->count == b->capacity) {
        b->capacity = b->capacity ? 2 * b->capacity : 1024;
        map->rows = memory_realloc(map->rows, (size_t)b->capacity * SENTENCE_MAP_COLUMNS * sizeof *map->rows);
    }
    uint32_t *row = map->rows + SENTENCE_MAP_COLUMNS * map->count++;
    row[0] = (uint32_t)begin;
    row[1] = (uint32_t)end;
    row[2] = (uint32_t)target;
}

// A document of several sentences with one that is too long is left out; one sentence alone may be as long as it likes.
static bool is_used(const struct builder *b, int64_t begin, int64_t end) {
    if (end - begin < b->options->min_sentences || end == begin)
        return false;
    for (int64_t i = begin; i < end && end - begin > 1; i++)
        if (index_length(b->reader, i) > SENTENCE_MAP_LONGEST)
            return false;
    return true;
}

static int add_document(struct builder *b, int64_t document) {
    int64_t begin = index_document_begin(b->reader, document), end = index_document_begin(b->reader, document + 1);
    if (begin < 0 || end < begin || end > b->reader->sequence_count)
        return bad_data("%s.idx: document %" PRId64 " has the sentences %" PRId64 " to %" PRId64
                        "; check the dataset with `dataset verify`",
                        b->reader->files.prefix, document, begin, end);
    if (!is_used(b, begin, end))
        return 0;
    int64_t target = draw_target(b), first = begin, length = 0;
    for (int64_t i = begin; i < end; i++) {
        int64_t taken = i + 1 - first, remaining = end - i - 1;
        length += index_length(b->reader, i);
        bool is_full = length >= target && remaining > 1 && taken >= b->options->min_sentences;
        if (!is_full && remaining > 0)
            continue;
        emit(b, first, i + 1, target);
        first = i + 1;
        length = 0;
        target = draw_target(b);
    }
    return 0;
}

static int add_epochs(struct builder *b) {
    const struct sentence_map_options *options = b->options;
    do {
        int64_t before = b->map->count;
        for (int64_t document = options->first_document; document < options->end_document; document++) {
            TRY(interrupt_check());
            TRY(add_document(b, document));
        }
        if (b->map->count == before)
            return bad_data("%s: none of its documents %" PRId64 " to %" PRId64 " has %" PRId64
                            " sentence%s of at most %d tokens; write it with `preprocess --split-sentences`",
                            b->reader->files.prefix, options->first_document, options->end_document - 1,
                            options->min_sentences, options->min_sentences == 1 ? "" : "s", SENTENCE_MAP_LONGEST);
    } while (b->map->count < options->sample_count);
    return 0;
}

static void shuffle(struct sentence_map *map, uint64_t seed) {
    struct mt19937_64 random;
    mt19937_64_seed(&random, seed);
    for (int64_t i = map->count - 1; i > 0; i--) {
        uint64_t j = mt19937_64_next(&random) % (uint64_t)(i + 1);
        uint32_t *a = map->rows + SENTENCE_MAP_COLUMNS * i, *b = map->rows + SENTENCE_MAP_COLUMNS * j;
        for (int column = 0; column < SENTENCE_MAP_COLUMNS; column++) {
            uint32_t moved = a[column];
            a[column] = b[column];
            b[column] = moved;
        }
    }
}

int sentence_map_build(struct sentence_map *map, const struct index_reader *reader,
                       const struct sentence_map_options *options) {
    CHECK(options->max_length >= 2 && options->min_sentences >= 1);
    *map = (struct sentence_map){0};
    if (reader->sequence_count > UINT32_MAX)
        return bad_data("%s: %" PRId64 " sentences are more than a sample map counts; divide the dataset",
                        reader->files.prefix, reader->sequence_count);
    double p = options->short_probability;
    struct builder builder = {
        .reader = reader, .options = options, .short_ratio = p > 0 ? (uint32_t)round(1.0 / p) : 0, .map = map};
    mt19937_seed(&builder.random, options->seed);
    if (add_epochs(&builder) < 0) {
        sentence_map_free(map);
        return -1;
    }
    shuffle(map, (uint64_t)options->seed + 1);
    return 0;
}

void sentence_map_free(struct sentence_map *map) {
    free(map->rows);
    *map = (struct sentence_map){0};
}
