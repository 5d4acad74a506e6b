// The rules as masks: 64 bytes are decided at once, by shifts and ands, without a branch per character. A byte is
// compared with the one before it by shifting a mask up by one (the last bit of the previous block moves in), and with
// the one after it by shifting down. For example, GPT-2's rule for "Hi  you 42", first byte on the left:
//
//   text                 H i ␣ ␣ y o u ␣ 4 2
//   letters              1 1 0 0 1 1 1 0 0 0
//   letters, shifted up  0 1 1 0 0 1 1 1 0 0
//   both: inside a word  0 1 0 0 0 1 1 0 0 0
//   spaces, shifted up   0 0 0 1 1 0 0 0 1 0   a piece includes the space before it
//   starts of words      1 0 0 0 0 0 0 0 0 0   not a space, does not continue a word, no space before
//   starts of spaces     0 0 1 1 0 0 0 1 0 0   the first of a run, and the last before another character
//   pieces               "Hi" "␣" "␣you" "␣42"
//
// Contractions are rare, and handled one by one.
#include "data/tokenizer/split_block.h"

// A mask and the same mask of the previous block: bits are shifted up across the border.
static inline uint64_t up(uint64_t mask, uint64_t before, int by) {
    return mask << by | before >> (SPLIT_BLOCK - by);
}

static inline uint64_t down(uint64_t mask, uint64_t after, int by) {
    return mask >> by | after << (SPLIT_BLOCK - by);
}

static inline uint64_t others(const struct split_block *block) {
    return ~(block->letters | block->numbers | block->blanks);
}

// First bytes of spaces that are followed by another character. That is 1 byte on, or as many as the space has (U+3000
// has three): `goes_on` are the bytes whose character is followed by a space.
static inline uint64_t last_blanks(const struct split_block *block, const struct split_block *next) {
    uint64_t blank_after = down(block->blanks, next->blanks, 1);
    if (!(block->tails | (next->tails & 7)))
        return block->blanks & ~blank_after;
    uint64_t tail_1 = down(block->tails, next->tails, 1), tail_2 = down(block->tails, next->tails, 2);
    uint64_t blank_2 = down(block->blanks, next->blanks, 2), blank_3 = down(block->blanks, next->blanks, 3);
    uint64_t goes_on = (~tail_1 & blank_after) | (tail_1 & ~tail_2 & blank_2) | (tail_1 & tail_2 & blank_3);
    return block->blanks & ~block->tails & ~goes_on;
}

// Length of the contraction at byte `at`, an apostrophe; 0 if there is none. If case is ignored, U+017F is an s.
static size_t contraction_at(const struct split_chunk *chunk, size_t at, bool any_case) {
    const unsigned char *text = chunk->text + at;
    size_t length = chunk->length - at;
    if (length < 2)
        return 0;
    unsigned char bit = any_case ? 0x20 : 0;  // makes ASCII letters lower case, and no other byte one of these
    unsigned char second = text[1] | bit, third = length > 2 ? text[2] | bit : 0;
    if (second == 's' || second == 't' || second == 'm' || second == 'd')
        return 2;
    if ((second == 'r' && third == 'e') || (second == 'v' && third == 'e') || (second == 'l' && third == 'l'))
        return 3;
    return any_case && length > 2 && text[1] == 0xC5 && text[2] == 0xBF ? 3 : 0;
}

// ---- an optional space, then a run of one class: GPT-2 ----

static void find_blank_words(const struct split_rules *rules, struct split_chunk *chunk, uint64_t *starts) {
    uint64_t letters_before = 0, numbers_before = 0, others_before = 0, blanks_before = 0, spaces_before = 0;
    uint64_t set_next = 0, clear_next = 0;
    for (int i = 0; i < chunk->hard; i++) {
        const struct split_block *block = &chunk->blocks[i];
        uint64_t other = others(block);
        uint64_t same = (block->letters & up(block->letters, letters_before, 1)) |
                        (block->numbers & up(block->numbers, numbers_before, 1)) |
                        (other & up(other, others_before, 1));
        uint64_t words = ~(block->blanks | same | up(block->spaces, spaces_before, 1));
        uint64_t blanks =
            (block->blanks & ~up(block->blanks, blanks_before, 1)) | last_blanks(block, &chunk->blocks[i + 1]);
        uint64_t found = ((words | blanks) & ~clear_next) | set_next, quotes = block->quotes & words;
        set_next = clear_next = 0;
        if (rules->contractions == SPLIT_CONTRACTIONS_LOWER && quotes) {
            for (; quotes; quotes &= quotes - 1) {
                int bit = __builtin_ctzll(quotes);
                size_t length = contraction_at(chunk, (size_t)i * SPLIT_BLOCK + (size_t)bit, false);
                if (!length)
                    continue;
                uint64_t second = (uint64_t)2 << bit, end = (uint64_t)1 << bit << length;
                found = (found & ~second) | end;
                clear_next |= second == 0;
                set_next |= end == 0 ? (uint64_t)1 << (bit + (int)length - SPLIT_BLOCK) : 0;
            }
        }
        starts[i] = found;
        letters_before = block->letters;
        numbers_before = block->numbers;
        others_before = other;
        blanks_before = block->blanks;
        spaces_before = block->spaces;
    }
}

// ---- an optional character before letters, short numbers, line ends: cl100k and its successors ----

// State carried from block to block.
struct before {
    uint64_t letters, lower, numbers, others, blanks, spaces, lines, tails;
    uint64_t own_blanks;    // spaces that do not belong to the other characters before them
    uint64_t other_starts;  // where a run of others begins that does not include a space
    int digits;             // of the number at the end of the block, since it was last cut
    uint64_t forced;        // starts in the next block
    uint64_t inside;        // no starts there: the rest of a contraction
    size_t contraction;     // where the last one ended
};

// Line ends right after other characters belong to them: a whole run of line ends, if its first directly follows one.
// Adding that first bit to the mask carries through the run and clears it; the cleared bits are the run.
static inline uint64_t lines_after_others(const struct split_block *block, uint64_t other,
                                          const struct before *before) {
    bool goes_on = before->others >> 63 || (before->lines & ~before->own_blanks) >> 63;
    uint64_t first = block->lines & (other << 1 | goes_on);
    return block->lines & ~(block->lines + first);
}

// Cuts numbers after every third digit; all are ASCII. Starts are the first digit of each number; then, if three digits
// reach from a start to the bit three further on, that bit too, and so on through the number. A number that comes from
// the previous block has before->digits of its current three there.
static inline uint64_t cut_numbers(uint64_t numbers, struct before *before) {
    uint64_t found = numbers & ~up(numbers, before->numbers, 1);
    uint64_t three = numbers & numbers << 1 & numbers << 2;
    if (before->numbers >> 63 && (numbers & 1)) {
        int first = 3 - before->digits;  // where its next three begin
        uint64_t reach = ((uint64_t)2 << first) - 1;
        if ((numbers & reach) == reach)
            found |= (uint64_t)1 << first;
    }
    for (uint64_t more = found << 3 & three; more; more = more << 3 & three)
        found |= more;
    if (numbers >> 63) {
        int run = ~numbers ? __builtin_clzll(~numbers) : SPLIT_BLOCK;
        uint64_t inside = found >> (SPLIT_BLOCK - run) << (SPLIT_BLOCK - run);
        before->digits = inside ? __builtin_clzll(inside) + 1 : before->digits + run;
    }
    return found;
}

// Whether the run of spaces without a line end that begins at a bit of block i ends before a line end: 1 if so, 0 if
// not, -1 if it reaches past the chunk.
static int ends_before_line(const struct split_rules *rules, const struct split_chunk *chunk, int i, int bit) {
    uint64_t from = ~(uint64_t)0 << bit;
    for (; i <= chunk->hard; i++, from = ~(uint64_t)0) {
        const struct split_block *block = &chunk->blocks[i];
        uint64_t end = ~(block->blanks & ~block->lines) & from;
        size_t base = (size_t)i * SPLIT_BLOCK;
        size_t at = base + (size_t)(end ? __builtin_ctzll(end) : SPLIT_BLOCK - 1);
        if (at >= chunk->length)
            return rules->blanks_at_end;
        if (end)
            return (int)(block->lines >> (at - base) & 1);
    }
    return -1;
}

static inline uint64_t blank_starts(const struct split_rules *rules, struct split_chunk *chunk, int i,
                                    uint64_t own_blanks, const struct before *before) {
    const struct split_block *block = &chunk->blocks[i];
    uint64_t found = own_blanks & ~up(own_blanks, before->own_blanks, 1);  // the first of a run
    found |= last_blanks(block, &chunk->blocks[i + 1]) & ~block->lines;
    uint64_t after_lines = block->blanks & ~block->lines & up(block->lines, before->lines, 1) & ~found;
    for (; after_lines; after_lines &= after_lines - 1) {
        int bit = __builtin_ctzll(after_lines);
        int ends = ends_before_line(rules, chunk, i, bit);
        if (ends < 0) {
            chunk->hard = i;
            return found;
        }
        if (!ends)
            found |= (uint64_t)1 << bit;
    }
    return found;
}

// Letters begin a piece unless the space or the single other character before them does ("(word" is one piece, "((word"
// two). The first byte of that character is 1 to 4 bytes back: one more than the tails in between.
static inline uint64_t letter_starts(const struct split_rules *rules, const struct split_block *block,
                                     uint64_t other_starts, const struct before *before) {
    uint64_t prefix = up(block->blanks & ~block->lines, before->blanks & ~before->lines, 1) |
                      up(other_starts, before->other_starts, 1);
    if (block->tails | before->tails) {
        uint64_t tail_1 = up(block->tails, before->tails, 1), tail_2 = up(block->tails, before->tails, 2);
        uint64_t tail_3 = up(block->tails, before->tails, 3);
        prefix |= tail_1 & ((up(other_starts, before->other_starts, 2)) |
                            (tail_2 & (up(other_starts, before->other_starts, 3) |
                                       (tail_3 & up(other_starts, before->other_starts, 4)))));
    }
    uint64_t found = block->letters & ~(up(block->letters, before->letters, 1) | prefix);
    if (rules->words == SPLIT_WORDS_CASE)
        found |= block->capitals & up(block->letters & ~block->capitals, before->lower, 1);
    return found;
}

// Contractions, either at the start of a piece or at the end of a word.
static inline uint64_t cut_contractions(const struct split_rules *rules, const struct split_chunk *chunk, int i,
                                        uint64_t found, struct before *before) {
    const struct split_block *block = &chunk->blocks[i];
    bool after = rules->contractions == SPLIT_CONTRACTIONS_AFTER;
    uint64_t quotes = block->quotes & (after ? up(block->letters, before->letters, 1) : found);
    for (; quotes; quotes &= quotes - 1) {
        int bit = __builtin_ctzll(quotes);
        size_t at = (size_t)i * SPLIT_BLOCK + (size_t)bit;
        size_t length = contraction_at(chunk, at, rules->contractions != SPLIT_CONTRACTIONS_LOWER);
        if (!length || (after && at == before->contraction))
            continue;
        before->contraction = at + length;
        uint64_t inside = ((uint64_t)1 << length) - (after ? 1 : 2), end = (uint64_t)1 << bit << length;
        found = (found & ~(inside << bit)) | end;
        before->inside |= inside >> 1 >> (SPLIT_BLOCK - 1 - bit);
        if (!end)
            before->forced |= (uint64_t)1 << (bit + (int)length - SPLIT_BLOCK);
    }
    return found;
}

static void find_prefix_words(const struct split_rules *rules, struct split_chunk *chunk, uint64_t *starts) {
    struct before before = {0};
    for (int i = 0; i < chunk->hard; i++) {
        const struct split_block *block = &chunk->blocks[i];
        if (rules->slashes && (block->slashes & up(block->lines, before.lines, 1))) {
            chunk->hard = i;
            return;
        }
        uint64_t other = others(block);
        uint64_t own_blanks = block->blanks & ~lines_after_others(block, other, &before);
        uint64_t other_starts = other & ~(up(other, before.others, 1) | up(block->spaces, before.spaces, 1));
        uint64_t found = blank_starts(rules, chunk, i, own_blanks, &before) | other_starts;
        found |= letter_starts(rules, block, other_starts, &before);
        found = (found & ~before.inside) | before.forced;
        before.inside = before.forced = 0;
        if (rules->most_digits == 1)
            found |= block->numbers & ~block->tails;
        else
            found |= cut_numbers(block->numbers, &before);
        if (rules->contractions != SPLIT_CONTRACTIONS_NONE && block->quotes)
            found = cut_contractions(rules, chunk, i, found, &before);
        starts[i] = found;
        before.letters = block->letters;
        before.lower = block->letters & ~block->capitals;
        before.numbers = block->numbers;
        before.others = other;
        before.blanks = block->blanks;
        before.spaces = block->spaces;
        before.lines = block->lines;
        before.tails = block->tails;
        before.own_blanks = own_blanks;
        before.other_starts = other_starts;
    }
}

// ---- spaces and what follows ----

static void find_spaces(const struct split_rules *rules, const struct split_chunk *chunk, uint64_t *starts) {
    uint64_t spaces_before = 0, letters_before = 0, lines_before = 0;
    for (int i = 0; i < chunk->hard; i++) {
        const struct split_block *block = &chunk->blocks[i];
        uint64_t letters = block->letters & ~block->high, lines = rules->lines ? block->feeds : 0;
        uint64_t spaces = rules->feeds ? block->spaces | block->feeds : block->spaces;
        starts[i] = (spaces & ~up(spaces, spaces_before, 1)) | lines | up(lines, lines_before, 1);
        const struct split_block *next = &chunk->blocks[i + 1];
        if (rules->between_letters)
            starts[i] = block->spaces & up(letters, letters_before, 1) & down(letters, next->letters & ~next->high, 1);
        else if (rules->after_letters)
            starts[i] |= others(block) & ~block->high & up(letters, letters_before, 1);
        spaces_before = spaces;
        letters_before = letters;
        lines_before = lines;
    }
}

void split_find_starts(const struct split_rules *rules, struct split_chunk *chunk, uint64_t *starts) {
    if (rules->words == SPLIT_WORDS_BLANK)
        find_blank_words(rules, chunk, starts);
    else if (rules->words == SPLIT_WORDS_SPACES)
        find_spaces(rules, chunk, starts);
    else
        find_prefix_words(rules, chunk, starts);
}
