// One decoder for each encoding.
#include "data/table/parquet.h"
#include <string.h>

// `width` bits from bit `bit` of `from`, the lowest first. The bits must lie before `end`.
static uint64_t read_bits(const unsigned char *from, const unsigned char *end, uint64_t bit, int width) {
    const unsigned char *at = from + bit / 8;
    unsigned shift = (unsigned)(bit % 8);
    uint64_t word = 0;
    if (width == 0)
        return 0;
    if (end - at >= (ptrdiff_t)sizeof word)
        memcpy(&word, at, sizeof word);
    else
        memcpy(&word, at, (size_t)(end - at));
    word >>= shift;
    if (shift + (unsigned)width > 64)
        word |= (uint64_t)at[8] << (64 - shift);
    return width == 64 ? word : word & (((uint64_t)1 << width) - 1);
}

static bool has_bits(const unsigned char *from, const unsigned char *end, uint64_t bit, int width) {
    return bit + (uint64_t)width <= (uint64_t)(end - from) * 8;
}

// ---- runs ----

// The lowest bit of a run's header tells its kind.
static bool begin_run(struct parquet_runs *runs) {
    uint64_t header;
    size_t bytes = (size_t)(runs->width + 7) / 8;
    if (!thrift_varint(&runs->at, runs->end, &header) || header < 2)
        return false;
    if (header & 1) {
        uint64_t groups = header >> 1, left = (uint64_t)(runs->end - runs->at);
        if (runs->width > 0 && groups > left)
            return false;
        uint64_t whole = groups * (uint64_t)runs->width;
        runs->packed = groups * 8;
        runs->bits = runs->at;
        runs->bit = 0;
        // The last group may be cut where its values end.
        runs->at += whole < left ? whole : left;
        return true;
    }
    if ((size_t)(runs->end - runs->at) < bytes)
        return false;
    runs->same = header >> 1;
    runs->value = 0;
    for (size_t i = 0; i < bytes; i++)
        runs->value |= (uint32_t)runs->at[i] << (8 * i);
    runs->at += bytes;
    return true;
}

static bool next_old(struct parquet_runs *runs, uint32_t *value) {
    *value = 0;
    if (!has_bits(runs->at, runs->end, runs->bit, runs->width))
        return false;
    for (int i = 0; i < runs->width; i++, runs->bit++)
        *value = *value << 1 | ((uint32_t)runs->at[runs->bit / 8] >> (7 - runs->bit % 8) & 1u);
    return true;
}

bool parquet_runs_next(struct parquet_runs *runs, uint32_t *value) {
    if (runs->is_old)
        return next_old(runs, value);
    if (runs->same == 0 && runs->packed == 0 && !begin_run(runs))
        return false;
    if (runs->same > 0) {
        runs->same--;
        *value = runs->value;
        return true;
    }
    if (!has_bits(runs->bits, runs->at, runs->bit, runs->width))
        return false;
    *value = (uint32_t)read_bits(runs->bits, runs->at, runs->bit, runs->width);
    runs->bit += (uint64_t)runs->width;
    runs->packed--;
    return true;
}

// ---- deltas ----

bool parquet_deltas_open(struct parquet_deltas *deltas, const unsigned char *at, const unsigned char *end,
                         uint64_t most) {
    uint64_t first;
    *deltas = (struct parquet_deltas){.at = at, .end = end};
    if (!thrift_varint(&deltas->at, end, &deltas->block_values) || !thrift_varint(&deltas->at, end, &deltas->parts) ||
        !thrift_varint(&deltas->at, end, &deltas->left) || !thrift_varint(&deltas->at, end, &first))
        return false;
    deltas->last = (uint64_t)thrift_signed(first);
    return deltas->left <= most && deltas->block_values <= INT32_MAX && deltas->parts > 0 &&
           deltas->parts <= deltas->block_values && deltas->block_values % (8 * deltas->parts) == 0;
}

// A block begins with its least delta and the widths of its miniblocks.
static bool begin_part(struct parquet_deltas *deltas) {
    if (deltas->widths_left == 0) {
        uint64_t least;
        if (!thrift_varint(&deltas->at, deltas->end, &least) || deltas->parts > (uint64_t)(deltas->end - deltas->at))
            return false;
        deltas->least = (uint64_t)thrift_signed(least);
        deltas->widths = deltas->at;
        deltas->widths_left = deltas->parts;
        deltas->at += deltas->parts;
    }
    uint64_t values = deltas->block_values / deltas->parts, left = (uint64_t)(deltas->end - deltas->at);
    deltas->width = *deltas->widths++;
    deltas->widths_left--;
    if (deltas->width > 64)
        return false;
    uint64_t bytes = values / 8 * (uint64_t)deltas->width;
    deltas->part_left = values;
    deltas->bits = deltas->at;
    deltas->bit = 0;
    deltas->at += bytes < left ? bytes : left;
    return true;
}

bool parquet_deltas_next(struct parquet_deltas *deltas, int64_t *value) {
    if (deltas->left == 0)
        return false;
    *value = (int64_t)deltas->last;
    deltas->left--;
    if (deltas->left == 0)
        return true;
    if (deltas->part_left == 0 && !begin_part(deltas))
        return false;
    if (!has_bits(deltas->bits, deltas->at, deltas->bit, deltas->width))
        return false;
    deltas->last += deltas->least + read_bits(deltas->bits, deltas->at, deltas->bit, deltas->width);
    deltas->bit += (uint64_t)deltas->width;
    deltas->part_left--;
    return true;
}

const unsigned char *parquet_deltas_end(const struct parquet_deltas *deltas) {
    struct parquet_deltas rest = *deltas;
    // The first value stands in the header.
    for (uint64_t left = rest.left > 0 ? rest.left - 1 : 0; left > 0;) {
        if (!begin_part(&rest))
            return NULL;
        left -= left < rest.part_left ? left : rest.part_left;
    }
    return rest.at;
}

// ---- text ----

struct parquet_text_encoding {
    int64_t id;
    bool (*open)(struct parquet_texts *texts, uint64_t count);
    bool (*next)(struct parquet_texts *texts, struct thrift_text *text);
};

static bool take_bytes(struct parquet_texts *texts, uint64_t length, struct thrift_text *text) {
    if (length > (uint64_t)(texts->end - texts->at))
        return false;
    *text = (struct thrift_text){(const char *)texts->at, (size_t)length};
    texts->at += length;
    return true;
}

static bool next_plain(struct parquet_texts *texts, struct thrift_text *text) {
    uint32_t length;
    if (texts->end - texts->at < (ptrdiff_t)sizeof length)
        return false;
    memcpy(&length, texts->at, sizeof length);
    texts->at += sizeof length;
    return take_bytes(texts, length, text);
}

static bool open_indices(struct parquet_texts *texts, uint64_t count) {
    bool has_width = texts->at < texts->end;
    texts->indices =
        (struct parquet_runs){.at = texts->at + has_width, .end = texts->end, .width = has_width ? *texts->at : 0};
    return texts->indices.width <= 32 && (has_width || count == 0);
}

static bool next_index(struct parquet_texts *texts, struct thrift_text *text) {
    uint32_t index;
    if (!parquet_runs_next(&texts->indices, &index) || index >= texts->dictionary_count)
        return false;
    *text = texts->dictionary[index];
    return true;
}

// The lengths of all texts, and then the texts.
static bool open_lengths(struct parquet_texts *texts, uint64_t count) {
    if (count == 0)
        return true;
    if (!parquet_deltas_open(&texts->lengths, texts->at, texts->end, count))
        return false;
    texts->at = parquet_deltas_end(&texts->lengths);
    return texts->at != NULL;
}

static bool next_of_length(struct parquet_texts *texts, struct thrift_text *text) {
    int64_t length;
    return parquet_deltas_next(&texts->lengths, &length) && length >= 0 && take_bytes(texts, (uint64_t)length, text);
}

// How many bytes each text shares with the one before, and then the rests of the texts.
static bool open_prefixes(struct parquet_texts *texts, uint64_t count) {
    buffer_clear(&texts->text);
    if (count == 0)
        return true;
    if (!parquet_deltas_open(&texts->prefixes, texts->at, texts->end, count))
        return false;
    texts->at = parquet_deltas_end(&texts->prefixes);
    return texts->at && open_lengths(texts, count);
}

static bool next_after_prefix(struct parquet_texts *texts, struct thrift_text *text) {
    int64_t prefix;
    struct thrift_text rest;
    if (!parquet_deltas_next(&texts->prefixes, &prefix) || prefix < 0 || (uint64_t)prefix > texts->text.length ||
        !next_of_length(texts, &rest))
        return false;
    texts->text.length = (size_t)prefix;
    buffer_append(&texts->text, rest.bytes, rest.length);
    *text = (struct thrift_text){texts->text.data, texts->text.length};
    return true;
}

static const struct parquet_text_encoding encodings[] = {
    {PARQUET_PLAIN, NULL, next_plain},
    {PARQUET_PLAIN_DICTIONARY, open_indices, next_index},
    {PARQUET_RLE_DICTIONARY, open_indices, next_index},
    {PARQUET_DELTA_LENGTH, open_lengths, next_of_length},
    {PARQUET_DELTA_TEXT, open_prefixes, next_after_prefix},
};

bool parquet_texts_open(struct parquet_texts *texts, int64_t encoding, const unsigned char *at,
                        const unsigned char *end, uint64_t count, const char **problem) {
    texts->at = at;
    texts->end = end;
    texts->encoding = NULL;
    for (size_t i = 0; i < sizeof encodings / sizeof encodings[0]; i++)
        if (encodings[i].id == encoding)
            texts->encoding = &encodings[i];
    *problem = texts->encoding ? "the lengths or indices of a page are damaged" : "text has an unknown encoding";
    return texts->encoding && (!texts->encoding->open || texts->encoding->open(texts, count));
}

bool parquet_texts_next(struct parquet_texts *texts, struct thrift_text *text) {
    return texts->encoding->next(texts, text);
}
