// SentencePiece's byte-pair encoding: the symbols of a model, their ranks by score, every pair of symbols whose texts
// together are a piece (found by splitting each piece at each of its characters), and encoding with them.
//
// After all merging, SentencePiece splits a piece of type "unused" again, into the two parts of the pair that was last
// found to form it anywhere in the text. So for models with such pieces every pair is recorded when it is found.
#include "data/tokenizer/spm_model.h"
#include "base/error.h"
#include "base/memory.h"
#include <stdlib.h>
#include <string.h>

// ---- building ----

// Characters as their bytes in a 32-bit number.
struct characters {
    uint32_t *packed;
    int64_t count, capacity;
};

static void add_character(struct characters *characters, const char *bytes, size_t length) {
    MEMORY_GROW(characters->packed, characters->count, characters->capacity);
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
            bool is_wanted = spm_is(&options->pieces[i], SPM_MERGED) || bytes == text.length;
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
    bpe->written[key.value] = (struct spm_symbol){reserved >= 0 ? reserved : id, (int32_t)key.length};
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
    int64_t count;
    struct trie_key *keys = spm_choose_keys(options->pieces, options->piece_count, SPM_MERGED, &count);
    trie_build(&bpe->symbols, keys, count);
    struct characters characters = {0};
    find_characters(&characters, &bpe->symbols, options);

    size_t symbol_count = (size_t)(options->piece_count + characters.count);
    bpe->strange = (int32_t)symbol_count;
    bpe->written = memory_alloc((2 * symbol_count + 1) * sizeof *bpe->written);
    bpe->written[bpe->strange] = (struct spm_symbol){options->unknown_id, 0};
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

// Ranks of the pieces: 0 for the highest score, equal for equal scores.
static int32_t *rank_pieces(const struct spm_bpe_options *options) {
    size_t count = (size_t)options->piece_count;
    struct scored *order = memory_alloc(count * sizeof *order);
    for (size_t i = 0; i < count; i++)
        order[i] = (struct scored){options->pieces[i].score, (int32_t)i};
    qsort(order, count, sizeof *order, compare_scores);
    int32_t *ranks = memory_alloc(count * sizeof *ranks), rank = 0;
    for (size_t i = 0; i < count; i++) {
        rank += i > 0 && order[i].score < order[i - 1].score;
        ranks[order[i].piece] = rank;
    }
    free(order);
    return ranks;
}

static void find_ends(struct backward *backward, struct spm_text text) {
    int32_t node = TRIE_ROOT;
    for (size_t i = 1; i < text.length; i++) {
        if (node >= 0)
            node = trie_step(&backward->trie, node, (unsigned char)text.data[text.length - i]);
        backward->ends_with[i] = node < 0 ? -1 : backward->trie.values[node];
    }
}

// Finds every way to form a piece from two symbols and, unless ranks is NULL, puts it into the table. Returns how many
// there are.
static int64_t split_pieces(struct spm_bpe *bpe, const struct spm_bpe_options *options, struct backward *backward,
                            const int32_t *ranks) {
    int64_t count = 0;
    for (int64_t i = 0; i < options->piece_count; i++) {
        const struct spm_text text = options->pieces[i].text;
        if (!text.data || !spm_is(&options->pieces[i], SPM_MERGED))
            continue;
        find_ends(backward, text);
        int32_t node = TRIE_ROOT;
        for (size_t at = 0; at + 1 < text.length;) {
            node = trie_step(&bpe->symbols, node, (unsigned char)text.data[at++]);
            int32_t left = bpe->symbols.values[node], right = backward->ends_with[text.length - at];
            if (left < 0 || right < 0)
                continue;
            count++;
            if (ranks)
                bpe_pairs_add(&bpe->merges, (struct bpe_pair){left, right, ranks[i], (int32_t)i});
        }
    }
    return count;
}

static void build_user_defined(struct spm_bpe *bpe, const struct spm_bpe_options *options) {
    int64_t count;
    struct trie_key *keys = spm_choose_keys(options->pieces, options->piece_count, 1 << SPM_USER_DEFINED, &count);
    for (int64_t i = 0; i < count; i++) {
        int32_t frozen = bpe->strange + 1 + (int32_t)i;
        bpe->written[frozen] = bpe->written[keys[i].value];
        keys[i].value = frozen;
    }
    trie_build(&bpe->user_defined, keys, count);
    free(keys);
}

static void mark_unused(struct spm_bpe *bpe, const struct spm_bpe_options *options) {
    for (int64_t i = 0; i < options->piece_count; i++) {
        if (options->pieces[i].type != SPM_UNUSED)
            continue;
        if (!bpe->is_unused)
            bpe->is_unused = memory_alloc((size_t)options->piece_count * sizeof *bpe->is_unused);
        bpe->is_unused[i] = bpe->written[i].id == i;
    }
}

void spm_bpe_create(struct spm_bpe *bpe, const struct spm_bpe_options *options) {
    *bpe = (struct spm_bpe){.piece_count = (int32_t)options->piece_count};
    struct backward *backward = memory_alloc(sizeof *backward);
    build_symbols(bpe, options, backward);
    int32_t *ranks = rank_pieces(options);
    bpe_pairs_create(&bpe->merges, split_pieces(bpe, options, backward, NULL));
    split_pieces(bpe, options, backward, ranks);
    free(ranks);
    trie_free(&backward->trie);
    free(backward);
    build_user_defined(bpe, options);
    mark_unused(bpe, options);
}

void spm_bpe_free(struct spm_bpe *bpe) {
    trie_free(&bpe->symbols);
    trie_free(&bpe->user_defined);
    free(bpe->written);
    free(bpe->is_unused);
    free(bpe->merges.pairs);
    *bpe = (struct spm_bpe){0};
}

// ---- encoding ----

void spm_bpe_scratch_free(struct spm_bpe_scratch *scratch) {
    free(scratch->symbols);
    token_list_free(&scratch->ids);
    token_list_free(&scratch->stack);
    merge_scratch_free(&scratch->merge);
    *scratch = (struct spm_bpe_scratch){0};
}

// The first symbol of the text, and its bytes.
static int32_t first_symbol(const struct spm_bpe *bpe, const char *text, size_t length, size_t *bytes) {
    if (trie_step(&bpe->user_defined, TRIE_ROOT, (unsigned char)text[0]) >= 0) {
        struct trie_match match = spm_match_user_defined(&bpe->user_defined, text, length);
        if (match.length > 0) {
            *bytes = match.length;
            return match.value;
        }
    }
    *bytes = character_bytes((unsigned char)text[0], length);
    int32_t symbol = trie_find(&bpe->symbols, text, *bytes);
    return symbol >= 0 ? symbol : bpe->strange;
}

// Puts the parts of an unused piece on the stack in its place, as long as the first of them is one.
static int32_t first_part(const struct spm_bpe *bpe, struct spm_bpe_scratch *scratch, int32_t symbol) {
    const struct merge_parts *parts = scratch->merge.parts;
    while (symbol < bpe->piece_count && bpe->is_unused[symbol] && parts[symbol].left >= 0) {
        token_list_append(&scratch->stack, parts[symbol].right);
        symbol = parts[symbol].left;
    }
    return symbol;
}

void spm_bpe_encode(const struct spm_bpe *bpe, struct spm_bpe_scratch *scratch, const char *text, size_t length) {
    CHECK(length < INT32_MAX);
    struct token_list *ids = &scratch->ids, *stack = &scratch->stack;
    if (bpe->is_unused && !scratch->merge.parts) {
        size_t bytes = (size_t)bpe->piece_count * sizeof *scratch->merge.parts;
        scratch->merge.parts = memory_alloc(bytes);
        memset(scratch->merge.parts, 0xFF, bytes);
    }
    ids->count = stack->count = scratch->count = 0;
    token_list_reserve(ids, (int64_t)length);
    for (size_t at = 0, step; at < length; at += step)
        ids->ids[ids->count++] = first_symbol(bpe, text + at, length - at, &step);
    if (length > 0)
        ids->count = merge_ids(&bpe->merges, &scratch->merge, ids->ids, ids->count);
    for (int64_t i = 0; i < ids->count;) {
        int32_t symbol = stack->count > 0 ? stack->ids[--stack->count] : ids->ids[i];
        if (bpe->is_unused)
            symbol = first_part(bpe, scratch, symbol);
        struct spm_symbol written = bpe->written[symbol];
        if (symbol == bpe->strange)
            written.length = (int32_t)character_bytes((unsigned char)*text, length);
        text += written.length;
        length -= (size_t)written.length;
        MEMORY_GROW(scratch->symbols, scratch->count, scratch->capacity);
        scratch->symbols[scratch->count++] = written;
        i += stack->count == 0;
    }
}
