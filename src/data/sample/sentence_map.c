// Cuts documents into runs of sentences for BERT, T5 and ICT. The order of random draws is part of the result: for BERT
// and T5 one for each target, from one generator through all epochs; then a shuffle with another generator. See
// sentence.h.
#include "data/sample/sentence.h"

#include "base/error.h"
#include "base/interrupt.h"
#include "base/memory.h"
#include "base/phase.h"
#include "base/rng.h"
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

enum { STRETCH = 1 << 16 };  // samples between two reports of progress

struct map_builder {
    const struct index_reader *reader, *titles;  // titles: for ICT, or NULL
    const struct sentence_map_options *options;
    struct mt19937 random;
    uint32_t short_ratio;  // one target in this many is short; 0: none
    struct sentence_map *map;
    uint32_t blocks;  // ICT: of the epoch so far
};

static int64_t draw_target(struct map_builder *b) {
    uint32_t longest = (uint32_t)b->options->max_length;
    if (b->short_ratio == 0)
        return longest;
    uint32_t number = mt19937_next(&b->random);
    return number % b->short_ratio == 0 ? 2 + number % (longest - 1) : longest;
}

static uint32_t *add_row(struct sentence_map *map, int64_t begin, int64_t end) {
    if (map->count == map->capacity) {
        map->capacity = map->capacity ? 2 * map->capacity : 1024;
        map->rows = memory_realloc(map->rows, (size_t)(map->capacity * map->columns) * sizeof *map->rows);
    }
    uint32_t *row = map->rows + map->columns * map->count++;
    row[0] = (uint32_t)begin;
    row[1] = (uint32_t)end;
    return row;
}

// A document of several sentences is skipped if one is too long; a single sentence may have any length.
static bool is_used(const struct map_builder *b, int64_t begin, int64_t end) {
    if (end - begin < b->options->min_sentences || end == begin)
        return false;
    for (int64_t i = begin; i < end && end - begin > 1; i++)
        if (index_length(b->reader, i) > SENTENCE_MAP_LONGEST)
            return false;
    return true;
}

int sentence_map_document(const struct index_reader *reader, int64_t document, int64_t *begin, int64_t *end) {
    *begin = index_document_begin(reader, document);
    *end = index_document_begin(reader, document + 1);
    if (*begin < 0 || *end < *begin || *end > reader->sequence_count)
        return bad_data("%s.idx: document %" PRId64 " has the sentences %" PRId64 " to %" PRId64
                        "; check the dataset with `dataset verify`",
                        reader->files.prefix, document, *begin, *end);
    return 0;
}

static int add_runs(struct map_builder *b, int64_t document) {
    int64_t begin, end;
    TRY(sentence_map_document(b->reader, document, &begin, &end));
    if (!is_used(b, begin, end))
        return 0;
    int64_t target = draw_target(b), first = begin, length = 0;
    for (int64_t i = begin; i < end; i++) {
        int64_t taken = i + 1 - first, remaining = end - i - 1;
        length += index_length(b->reader, i);
        bool is_full = length >= target && remaining > 1 && taken >= b->options->min_sentences;
        if (!is_full && remaining > 0)
            continue;
        add_row(b->map, first, i + 1)[2] = (uint32_t)target;
        first = i + 1;
        length = 0;
        target = draw_target(b);
    }
    return 0;
}

static int title_length(const struct map_builder *b, int64_t document, int64_t *length) {
    int64_t begin, end;
    *length = 0;
    if (!b->titles)
        return 0;
    TRY(sentence_map_document(b->titles, document, &begin, &end));
    for (int64_t i = begin; i < end && *length < b->options->max_length; i++)
        *length += index_length(b->titles, i);
    return 0;
}

// A block ends when its length is reached, if enough sentences remain for another one, and at the end of its document.
// Unlike in a run, a single sentence that is too long is skipped too.
static int add_blocks(struct map_builder *b, int64_t document) {
    int64_t begin, end, title, least = b->options->min_sentences, length = 0;
    TRY(sentence_map_document(b->reader, document, &begin, &end));
    TRY(title_length(b, document, &title));
    if (!is_used(b, begin, end) || index_length(b->reader, begin) > SENTENCE_MAP_LONGEST)
        return 0;
    for (int64_t i = begin, first = begin; i < end; i++) {
        int64_t taken = i + 1 - first, remaining = end - i - 1;
        length += index_length(b->reader, i);
        if (!(length >= b->options->max_length - title && remaining >= least && taken >= least) && remaining > 0)
            continue;
        uint32_t *row = add_row(b->map, first, i + 1);
        row[2] = (uint32_t)document;
        row[3] = b->blocks++;
        first = i + 1;
        length = 0;
    }
    return 0;
}

static int add_document(struct map_builder *b, int64_t document) {
    return b->map->columns == SENTENCE_MAP_BLOCK_COLUMNS ? add_blocks(b, document) : add_runs(b, document);
}

static int add_epochs(struct map_builder *b, struct phase *phase) {
    const struct sentence_map_options *options = b->options;
    do {
        int64_t before = b->map->count, told = before;
        b->blocks = 0;
        for (int64_t document = options->first_document; document < options->end_document; document++) {
            TRY(interrupt_check());
            TRY(add_document(b, document));
            if (b->map->count - told >= STRETCH) {
                phase_advance(phase, b->map->count - told);
                told = b->map->count;
            }
        }
        phase_advance(phase, b->map->count - told);
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
        uint32_t *a = map->rows + map->columns * i, *b = map->rows + (uint64_t)map->columns * j;
        for (int column = 0; column < map->columns; column++) {
            uint32_t moved = a[column];
            a[column] = b[column];
            b[column] = moved;
        }
    }
}

static int build(struct map_builder *builder, int columns) {
    const struct sentence_map_options *options = builder->options;
    const struct index_reader *reader = builder->reader;
    CHECK(options->max_length >= 2 && options->min_sentences >= 1);
    *builder->map = (struct sentence_map){.columns = columns};
    if (reader->sequence_count > UINT32_MAX)
        return bad_data("%s: %" PRId64 " sentences are more than a sample map can count; split the dataset",
                        reader->files.prefix, reader->sequence_count);
    mt19937_seed(&builder->random, options->seed);
    struct phase *phase = phase_begin_amount("building the sample map", "samples", (double)options->sample_count);
    int status = add_epochs(builder, phase);
    if (status == 0)
        shuffle(builder->map, (uint64_t)options->seed + 1);
    else
        sentence_map_free(builder->map);
    phase_end(phase);
    return status;
}

int sentence_map_build(struct sentence_map *map, const struct index_reader *reader,
                       const struct sentence_map_options *options) {
    double p = options->short_probability;
    struct map_builder builder = {
        .reader = reader, .options = options, .short_ratio = p > 0 ? (uint32_t)round(1.0 / p) : 0, .map = map};
    return build(&builder, SENTENCE_MAP_COLUMNS);
}

int sentence_map_build_blocks(struct sentence_map *map, const struct index_reader *reader,
                              const struct index_reader *titles, const struct sentence_map_options *options) {
    struct map_builder builder = {.reader = reader, .titles = titles, .options = options, .map = map};
    return build(&builder, SENTENCE_MAP_BLOCK_COLUMNS);
}

void sentence_map_free(struct sentence_map *map) {
    free(map->rows);
    *map = (struct sentence_map){0};
}
