// Builds the document, sample and shuffle index. The order of random draws is part of the format: documents (all epochs
// but the last, then the last if it is separate), then the sample order in the same two parts, from one
// RandomState(seed).
#include "data/sample/gpt.h"

#include "base/error.h"
#include "base/interrupt.h"
#include "base/memory.h"
#include "base/phase.h"
#include "base/rng.h"
#include <inttypes.h>
#include <stdlib.h>

// Tokens of the range in O(1), because pointers are running sums of lengths.
static int count_tokens(struct gpt_range range, int64_t *tokens) {
    const struct index_reader *r = range.reader;
    int64_t bytes = (int64_t)r->files.tokens.size;
    int64_t begin = range.begin < r->sequence_count ? index_pointer(r, range.begin) : bytes;
    int64_t end = range.end < r->sequence_count ? index_pointer(r, range.end) : bytes;
    if (begin < 0 || end < begin || end > bytes)
        return bad_data("%s.idx: sequences %" PRId64 " and %" PRId64 " start at bytes %" PRId64 " and %" PRId64
                        " of .bin, which is impossible; run `dataset verify` on it",
                        r->files.prefix, range.begin, range.end, begin, end);
    *tokens = (end - begin) / (int64_t)r->item_bytes;
    return 0;
}

static int too_large(int64_t seq_length, int64_t requested) {
    return error_set("%" PRId64 " samples of %" PRId64 " tokens are too many; lower --train-iters or --train-samples",
                     requested, seq_length);
}

int gpt_shape_make(struct gpt_shape *shape, struct gpt_range range, int64_t seq_length, int64_t requested) {
    CHECK(seq_length > 0 && requested >= 0);
    CHECK(range.begin >= 0 && range.begin <= range.end && range.end <= range.reader->sequence_count);
    *shape = (struct gpt_shape){.seq_length = seq_length, .documents_per_epoch = range.end - range.begin};
    if (range.end > INT32_MAX)
        return bad_data("%s.idx: %" PRId64 " sequences, but samples can be drawn from %" PRId32
                        " at most; split the dataset",
                        range.reader->files.prefix, range.end, INT32_MAX);
    TRY(count_tokens(range, &shape->tokens_per_epoch));
    int64_t tokens = shape->tokens_per_epoch, needed, all;
    if (tokens == 0)
        return bad_data("%s: sequences %" PRId64 " to %" PRId64 " hold no tokens; use more data or another --split",
                        range.reader->files.prefix, range.begin, range.end);
    if (__builtin_mul_overflow(requested, seq_length, &needed) || __builtin_add_overflow(needed, tokens, &all))
        return too_large(seq_length, requested);
    shape->epochs = all / tokens;  // ceil((needed + 1) / tokens)
    if (__builtin_mul_overflow(shape->epochs, tokens, &all))
        return too_large(seq_length, requested);
    shape->samples = (all - 1) / seq_length;
    if (shape->epochs > 1) {
        shape->samples_before_last = (all - tokens - 1) / seq_length;
        int64_t from_last = requested - shape->samples_before_last;
        int64_t per_epoch = (tokens - 1) / seq_length;
        shape->is_last_separate = from_last < (int64_t)(0.80 * (double)per_epoch);
    }
    int64_t entries;
    if (__builtin_mul_overflow(shape->epochs, shape->documents_per_epoch, &entries) || entries > INT64_MAX / 16 ||
        shape->samples > INT64_MAX / 32)
        return too_large(seq_length, requested);
    shape->wide_samples = entries > INT32_MAX;
    shape->wide_order = shape->samples >= (INT64_C(1) << 32) - 2;
    return 0;
}

int64_t gpt_shape_documents(const struct gpt_shape *shape) {
    return shape->epochs * shape->documents_per_epoch;
}

static void fill_epochs(int32_t *documents, int64_t epochs, struct gpt_range range, struct mt19937 *rng) {
    int64_t at = 0;
    for (int64_t epoch = 0; epoch < epochs; epoch++)
        for (int64_t document = range.begin; document < range.end; document++)
            documents[at++] = (int32_t)document;
    mt19937_shuffle_i32(rng, documents, (size_t)at);
}

static void fill_documents(int32_t *documents, const struct gpt_shape *shape, struct gpt_range range,
                           struct mt19937 *rng) {
    if (!shape->is_last_separate) {
        fill_epochs(documents, shape->epochs, range, rng);
        return;
    }
    fill_epochs(documents, shape->epochs - 1, range, rng);
    fill_epochs(documents + (shape->epochs - 1) * shape->documents_per_epoch, 1, range, rng);
}

// The lengths decide every later read, so they are checked once here: none is negative, and their sum matches the
// pointers.
static int check_lengths(const struct gpt_shape *shape, struct gpt_range range) {
    const struct index_reader *r = range.reader;
    int64_t sum = 0;
    for (int64_t i = range.begin; i < range.end; i++) {
        int64_t length = index_length(r, i);
        if (length < 0)
            return bad_data("%s.idx: byte %" PRId64 ": sequence %" PRId64 " has length %" PRId64
                            "; copy both files again, or make the dataset again",
                            r->files.prefix, index_length_byte(i), i, length);
        sum += length;
    }
    if (sum != shape->tokens_per_epoch)
        return bad_data("%s.idx: the lengths of sequences %" PRId64 " to %" PRId64 " add up to %" PRId64
                        " tokens, the pointers say %" PRId64 "; copy both files again, or make the dataset again",
                        r->files.prefix, range.begin, range.end, sum, shape->tokens_per_epoch);
    return 0;
}

static void store_sample(void *samples, bool wide, int64_t row, int64_t position, int64_t offset) {
    if (wide) {
        ((int64_t *)samples)[2 * row] = position;
        ((int64_t *)samples)[2 * row + 1] = offset;
    } else {
        ((int32_t *)samples)[2 * row] = (int32_t)position;
        ((int32_t *)samples)[2 * row + 1] = (int32_t)offset;
    }
}

// One step per document and per sample. Document lengths are read in shuffled order, hence the prefetch.
static int fill_samples(struct gpt_index *index, const struct gpt_shape *shape, struct gpt_range range,
                        struct phase *phase) {
    enum { AHEAD = 32, STRETCH = 1 << 20 };
    const int32_t *documents = index->documents;
    const unsigned char *lengths = index_lengths(range.reader, 0);
    int64_t last = gpt_shape_documents(shape) - 1, position = 0, offset = 0;
    int64_t length = index_length(range.reader, documents[0]);
    store_sample(index->samples, shape->wide_samples, 0, 0, 0);
    for (int64_t row = 1; row <= shape->samples; row++) {
        int64_t needed = shape->seq_length + 1;
        while (needed > length - offset) {
            needed -= length - offset;
            CHECK(position < last);
            position++;
            offset = 0;
            length = index_length(range.reader, documents[position]);
            if (position + AHEAD <= last)
                __builtin_prefetch(lengths + 4 * (int64_t)documents[position + AHEAD]);
        }
        offset += needed - 1;
        store_sample(index->samples, shape->wide_samples, row, position, offset);
        if (row % STRETCH == 0) {
            phase_advance(phase, STRETCH);
            TRY(interrupt_check());
        }
    }
    phase_advance(phase, shape->samples % STRETCH);
    return interrupt_check();
}

// Numbers first…end-1, shuffled.
static void fill_order(void *order, bool wide, int64_t first, int64_t end, struct mt19937 *rng) {
    if (wide) {
        int64_t *out = (int64_t *)order + first;
        for (int64_t i = first; i < end; i++)
            out[i - first] = i;
        mt19937_shuffle_i64(rng, out, (size_t)(end - first));
    } else {
        uint32_t *out = (uint32_t *)order + first;
        for (int64_t i = first; i < end; i++)
            out[i - first] = (uint32_t)i;
        mt19937_shuffle_i32(rng, (int32_t *)out, (size_t)(end - first));
    }
}

// A large allocation: running out of memory here is an error to report, not a broken invariant.
static void *allocate(int64_t count, size_t item_bytes, const char *what) {
    size_t bytes;
    void *memory = NULL;
    if (size_mul((size_t)count, item_bytes, &bytes))
        memory = malloc(bytes ? bytes : 1);
    if (!memory)
        error_set_code(EXIT_CODE_OUT_OF_MEMORY,
                       "out of memory for the %s of %" PRId64
                       " entries; use fewer epochs or a machine with more memory",
                       what, count);
    return memory;
}

static int fill_index(struct gpt_index *index, const struct gpt_shape *shape, struct gpt_range range, uint32_t seed,
                      struct phase *phase) {
    int64_t middle = shape->is_last_separate ? shape->samples_before_last : shape->samples;
    struct mt19937 rng;
    mt19937_seed(&rng, seed);
    fill_documents(index->documents, shape, range, &rng);
    phase_advance(phase, gpt_shape_documents(shape));
    TRY(interrupt_check());
    TRY(fill_samples(index, shape, range, phase));
    fill_order(index->order, shape->wide_order, 0, middle, &rng);
    phase_advance(phase, middle);
    if (shape->is_last_separate)
        fill_order(index->order, shape->wide_order, middle, shape->samples, &rng);
    return 0;
}

int gpt_index_build(struct gpt_index *index, const struct gpt_shape *shape, struct gpt_range range, uint32_t seed) {
    TRY(check_lengths(shape, range));
    *index = (struct gpt_index){
        .documents = allocate(gpt_shape_documents(shape), 4, "document index"),
        .samples = allocate(2 * (shape->samples + 1), shape->wide_samples ? 8 : 4, "sample index"),
        .order = allocate(shape->samples, shape->wide_order ? 8 : 4, "shuffle index"),
    };
    if (!index->documents || !index->samples || !index->order) {
        gpt_index_free(index);
        return -1;
    }
    struct phase *phase = phase_begin_amount("building the sample index", "entries",
                                             (double)gpt_shape_documents(shape) + 2 * (double)shape->samples);
    int status = fill_index(index, shape, range, seed, phase);
    phase_end(phase);
    if (status < 0)
        gpt_index_free(index);
    return status;
}

void gpt_index_free(struct gpt_index *index) {
    free(index->documents);
    free(index->samples);
    free(index->order);
    *index = (struct gpt_index){0};
}
