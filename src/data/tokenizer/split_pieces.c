// Splits text with masks, a chunk at a time. Nothing is carried from chunk to chunk: a chunk begins where a piece does,
// and pieces do not depend on the text before them. Blocks that masks cannot decide (see split_block.h), and pieces
// longer than a chunk, are left to split_text.
#include "data/tokenizer/split_block.h"
#include "data/tokenizer/split_starts.h"
#include "data/tokenizer/splitter.h"

_Static_assert(SPLIT_MOST >= SPLIT_CHUNK + SPLIT_BLOCK, "as many pieces as bytes, and eight are written at a time");

// Positions of the bits of a mask. Always writes eight, since a branch on their number would be mispredicted.
static inline int write_bits(uint64_t mask, uint32_t base, uint32_t *out) {
    int count = __builtin_popcountll(mask);
    for (int done = 0; done < count; done += 8) {
        for (int i = 0; i < 8; i++) {
            out[done + i] = base + (uint32_t)__builtin_ctzll(mask | (uint64_t)1 << 63);  // never of 0
            mask &= mask - 1;
        }
    }
    return count;
}

// Pieces that end at or before `until`, and the one that crosses it.
static int split_plainly(const struct split_rules *rules, const struct unicode_table *table, const unsigned char *text,
                         size_t length, size_t until, uint32_t *ends) {
    int count = 0;
    for (size_t at = 0; at < length && (count == 0 || at < until) && count < SPLIT_CHUNK;) {
        at += split_text(rules, table, text + at, length - at);
        ends[count++] = at < UINT32_MAX ? (uint32_t)at : UINT32_MAX;
    }
    return count;
}

int split_pieces(const struct split_rules *rules, const struct unicode_table *table, const unsigned char *text,
                 size_t length, uint32_t *ends) {
    struct split_chunk chunk;
    uint64_t starts[SPLIT_BLOCKS];
    bool is_wide = rules->words != SPLIT_WORDS_BLANK;
    struct split_needs needs = {.table = table,
                                .wide = is_wide,
                                .only_two_cases = rules->words == SPLIT_WORDS_CASE,
                                .ascii_numbers = rules->most_digits == 3};
    split_classify(&chunk, &needs, text, length);
    split_find_starts(rules, &chunk, starts);
    bool is_whole = chunk.at_end && chunk.hard == chunk.count;
    if (is_whole && length % SPLIT_BLOCK)
        starts[chunk.count - 1] &= ~(~(uint64_t)0 << length % SPLIT_BLOCK);
    int count = 0;
    for (int i = 0; i < chunk.hard; i++) {
        uint64_t beginning = i == 0;  // the chunk's beginning is not an end
        count += write_bits(starts[i] & ~beginning, (uint32_t)i * SPLIT_BLOCK, ends + count);
    }
    if (is_whole)
        ends[count++] = (uint32_t)length;
    if (count > 0)
        return count;
    return split_plainly(rules, table, text, length, (size_t)(chunk.hard + 1) * SPLIT_BLOCK, ends);
}
