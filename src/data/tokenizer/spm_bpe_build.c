// From the pieces of a model to the tables of spm_bpe.h: symbols, ranks by score, and every pair of symbols whose texts
// together are a piece. Pairs are found by splitting each piece at each of its characters.
#include "data/tokenizer/spm_bpe.h"
#include "base/memory.h"
#include "data/tokenizer/character.h"
#include <stdlib.h>
#include <string.h>

// Characters as their bytes in a 32-bit number.
struct characters {
    uint32_t *packed;
    int64_t count, capacity;
};

static bool takes_part(const struct spm_piece *piece) {
    return piece->text.data &&
           (piece->type == SPM_NORMAL || piece->type == SPM_USER_DEFINED || piece->type == SPM_UNUSED);
}

static void add_character(struct characters *characters, const char *bytes, size_t length) {
    if (characters->count == characters->capacity) {
        characters->capacity = characters->capacity ? 2 * characters->capacity : 256;
        characters->packed =
            memory_realloc(characters->packed, (size_t)characters->capacity * sizeof *characters->packed);
    }
    uint32_t packed = 0;
    memcpy(&packed, bytes, length);
    characters->packed[characters->count++] = packed;
}

static int compare_packed(const void *left, const void *right) {
    uint32_t a = *(const uint32_t *)left, b = *(const uint32_t *)right;
    return (a > b) - (a < b);
}

// The characters that are symbols without being pieces: those inside pieces, and those that are reserved.
static void find_characters(struct characters *characters, const struct trie *pieces,
                            const struct spm_bpe_options *options) {
    for (int64_t i = 0; i < options->piece_count; i++) {
        const struct spm_text text = options->pieces[i].text;
        for (size_t at = 0, bytes; text.data && at < text.length; at += bytes) {
            bytes = character_bytes((unsigned char)text.data[at], text.length - at);
            bool is_wanted = takes_part(&options->pieces[i]) || bytes == text.length;
            if (is_wanted && trie_find(pieces, text.data + at, bytes) < 0)
                add_character(characters, text.data + at, bytes);
        }
    }
    if (characters->count > 0)
        qsort(characters->packed, (size_t)characters->count, sizeof *characters->packed, compare_packed);
    int64_t distinct = 0;
    for (int64_t i = 0; i < characters->count; i++)
        if (distinct == 0 || characters->packed[distinct - 1] != characters->packed[i])
            characters->packed[distinct++] = characters->packed[i];
    characters->count = distinct;
}

// A NUL character packs to no bytes, so its length is defined as one.
static size_t packed_length(const uint32_t *packed) {
    return character_bytes(*(const unsigned char *)packed, sizeof *packed);
}

static void name_symbol(struct spm_bpe *bpe, const struct spm_bpe_options *options, struct trie_key key, int32_t id) {
    int32_t reserved = trie_find(options->reserved, key.text, key.length);
    bpe->symbol_ids[key.value] = reserved >= 0 ? reserved : id;
    bpe->symbol_lengths[key.value] = (int32_t)key.length;
}

// The symbols by their reversed texts, so that one walk finds all that a piece ends with.
struct backward {
    struct trie trie;
    int32_t ends_with[SPM_MAX_PIECE_BYTES];  // for one piece: the symbol of its last i bytes, -1 for none
};

static void build_backward(struct backward *backward, const struct trie_key *keys, int64_t count) {
    size_t bytes = 0;
    for (int64_t i = 0; i < count; i++)
        bytes += keys[i].length;
    char *texts = memory_alloc(bytes + 1), *at = texts;
    struct trie_key *turned = memory_alloc((size_t)count * sizeof *turned);
    for (int64_t i = 0; i < count; i++) {
        turned[i] = (struct trie_key){at, keys[i].length, keys[i].value};
        for (size_t k = keys[i].length; k > 0; k--)
            *at++ = keys[i].text[k - 1];
    }
    trie_build(&backward->trie, turned, count);
    free(turned);
    free(texts);
}

static void build_symbols(struct spm_bpe *bpe, const struct spm_bpe_options *options, struct backward *backward) {
    struct trie_key *keys = memory_alloc((size_t)options->piece_count * sizeof *keys);
    int64_t count = 0;
    for (int64_t i = 0; i < options->piece_count; i++)
        if (takes_part(&options->pieces[i]))
            keys[count++] = (struct trie_key){options->pieces[i].text.data, options->pieces[i].text.length, (int32_t)i};
    trie_build(&bpe->symbols, keys, count);
    struct characters characters = {0};
    find_characters(&characters, &bpe->symbols, options);

    size_t symbol_count = (size_t)(options->piece_count + characters.count);
    bpe->symbol_ids = memory_alloc(symbol_count * sizeof *bpe->symbol_ids);
    bpe->symbol_lengths = memory_alloc(symbol_count * sizeof *bpe->symbol_lengths);
    for (int64_t i = 0; i < count; i++)
        name_symbol(bpe, options, keys[i], keys[i].value);
    if (characters.count > 0) {
        trie_free(&bpe->symbols);
        keys = memory_realloc(keys, symbol_count * sizeof *keys);
        for (int64_t i = 0; i < characters.count; i++) {
            const uint32_t *packed = &characters.packed[i];
            keys[count] =
                (struct trie_key){(const char *)packed, packed_length(packed), (int32_t)(options->piece_count + i)};
            name_symbol(bpe, options, keys[count++], options->unknown_id);
        }
        trie_build(&bpe->symbols, keys, count);
    }
    build_backward(backward, keys, count);
    free(characters.packed);
    free(keys);
}

struct scored {
    float score;
    int32_t piece;
};

static int compare_scores(const void *left, const void *right) {
    float a = ((const struct scored *)left)->score, b = ((const struct scored *)right)->score;
    return (a < b) - (a > b);
}

static void rank_pieces(struct spm_bpe *bpe, const struct spm_bpe_options *options) {
    size_t count = (size_t)options->piece_count;
    struct scored *order = memory_alloc(count * sizeof *order);
    for (size_t i = 0; i < count; i++)
        order[i] = (struct scored){options->pieces[i].score, (int32_t)i};
    qsort(order, count, sizeof *order, compare_scores);
    bpe->ranks = memory_alloc(count * sizeof *bpe->ranks);
    uint32_t rank = 0;
    for (size_t i = 0; i < count; i++) {
        if (i > 0 && order[i].score < order[i - 1].score)
            rank++;
        bpe->ranks[order[i].piece] = rank;
    }
    free(order);
}

static void find_ends(struct backward *backward, struct spm_text text) {
    int32_t node = TRIE_ROOT;
    for (size_t i = 1; i < text.length; i++) {
        if (node >= 0)
            node = trie_step(&backward->trie, node, (unsigned char)text.data[text.length - i]);
        backward->ends_with[i] = node < 0 ? -1 : backward->trie.values[node];
    }
}

// Finds every way to form a piece from two symbols and, with add, puts it into the table. Returns how many there are.
static int64_t split_pieces(struct spm_bpe *bpe, const struct spm_bpe_options *options, struct backward *backward,
                            bool add) {
    int64_t count = 0;
    for (int64_t i = 0; i < options->piece_count; i++) {
        const struct spm_text text = options->pieces[i].text;
        if (!takes_part(&options->pieces[i]))
            continue;
        find_ends(backward, text);
        int32_t node = TRIE_ROOT;
        for (size_t at = 0; at + 1 < text.length;) {
            node = trie_step(&bpe->symbols, node, (unsigned char)text.data[at++]);
            int32_t left = bpe->symbols.values[node], right = backward->ends_with[text.length - at];
            if (left < 0 || right < 0)
                continue;
            count++;
            if (add)
                *spm_bpe_pair(bpe, left, right) = (struct spm_pair){left, right, (int32_t)i, bpe->ranks[i]};
        }
    }
    return count;
}

static void build_pairs(struct spm_bpe *bpe, const struct spm_bpe_options *options, struct backward *backward) {
    int64_t count = split_pieces(bpe, options, backward, false);
    int bits = 4;
    while (((int64_t)1 << bits) < 2 * count)
        bits++;
    bpe->pair_shift = 64 - bits;
    bpe->pairs = memory_alloc(((size_t)1 << bits) * sizeof *bpe->pairs);
    for (size_t i = 0; i < (size_t)1 << bits; i++)
        bpe->pairs[i].piece = -1;
    split_pieces(bpe, options, backward, true);
}

static void build_user_defined(struct spm_bpe *bpe, const struct spm_bpe_options *options) {
    struct trie_key *keys = memory_alloc((size_t)options->piece_count * sizeof *keys);
    int64_t count = 0;
    for (int64_t i = 0; i < options->piece_count; i++)
        if (options->pieces[i].type == SPM_USER_DEFINED && options->pieces[i].text.data)
            keys[count++] =
                (struct trie_key){options->pieces[i].text.data, options->pieces[i].text.length, bpe->symbol_ids[i]};
    trie_build(&bpe->user_defined, keys, count);
    free(keys);
}

static void mark_unused(struct spm_bpe *bpe, const struct spm_bpe_options *options) {
    for (int64_t i = 0; i < options->piece_count; i++) {
        if (options->pieces[i].type != SPM_UNUSED)
            continue;
        if (!bpe->is_unused)
            bpe->is_unused = memory_alloc((size_t)options->piece_count * sizeof *bpe->is_unused);
        bpe->is_unused[i] = bpe->symbol_ids[i] == i;
    }
}

void spm_bpe_create(struct spm_bpe *bpe, const struct spm_bpe_options *options) {
    *bpe = (struct spm_bpe){.piece_count = (int32_t)options->piece_count, .unknown_id = options->unknown_id};
    struct backward *backward = memory_alloc(sizeof *backward);
    build_symbols(bpe, options, backward);
    rank_pieces(bpe, options);
    build_pairs(bpe, options, backward);
    trie_free(&backward->trie);
    free(backward);
    build_user_defined(bpe, options);
    mark_unused(bpe, options);
}

void spm_bpe_free(struct spm_bpe *bpe) {
    trie_free(&bpe->symbols);
    trie_free(&bpe->user_defined);
    free(bpe->symbol_ids);
    free(bpe->symbol_lengths);
    free(bpe->ranks);
    free(bpe->is_unused);
    free(bpe->pairs);
    *bpe = (struct spm_bpe){0};
}
