// Text as masks, in blocks of 64 bytes: bit i of a mask describes byte i. All bytes of a character have its class;
// `tails` are those after the first. The text is followed by spaces that have no other class, so that spaces at the end
// of a text run into them.
//
// Other characters (not letters, numbers or spaces) are those in none of the three masks.
#ifndef DATA_TOKENIZER_SPLIT_BLOCK_H
#define DATA_TOKENIZER_SPLIT_BLOCK_H

#include "data/tokenizer/splitter.h"
#include "data/tokenizer/unicode_category.h"

// A chunk has SPLIT_BLOCKS blocks, and one more to look ahead.
enum { SPLIT_BLOCK = 64, SPLIT_BLOCKS = 32, SPLIT_CHUNK = SPLIT_BLOCK * SPLIT_BLOCKS };

struct split_block {
    uint64_t letters, numbers, blanks;
    uint64_t spaces;    // U+0020
    uint64_t quotes;    // the ASCII apostrophe
    uint64_t tails;     // bytes of a character after its first
    uint64_t capitals;  // upper-case letters; this and the next three only if requested
    uint64_t lines;     // line feeds and returns
    uint64_t feeds;     // line feeds
    uint64_t slashes;
    uint64_t high;  // bytes that are not ASCII
};

struct split_chunk {
    const unsigned char *text;
    size_t length;  // of the whole remaining text
    int count;      // blocks that the rules may be applied to; blocks[count] is readable
    bool at_end;    // the text ends in or right after blocks[count - 1]
    int hard;       // the first block for which the masks are not sufficient, or count
    struct split_block blocks[SPLIT_BLOCKS + 1];
};

// Requirements on the masks.
struct split_needs {
    const struct unicode_table *table;
    bool wide;            // capitals, lines, feeds and slashes are needed
    bool only_two_cases;  // a letter or mark that is neither upper nor lower case makes a block hard
    bool ascii_numbers;   // so does a number that is not ASCII
};

// Fills a chunk from text[0…length), length > 0.
void split_classify(struct split_chunk *chunk, const struct split_needs *needs, const unsigned char *text,
                    size_t length);

// Its first loop, over whole blocks; the rest handles characters that are not ASCII. Returns one mask of the bytes that
// are not ASCII, over all blocks.
uint64_t split_classify_ascii(const unsigned char *text, int count, bool wide, struct split_block *blocks);

// ---- beginnings of pieces ----

// Where pieces begin, from masks: the rules of splitter.h as shifts and ands of whole blocks:
// starts[i] gets a bit where a piece begins in block i of the chunk, up to chunk->hard, which is lowered to the first
// block that masks cannot decide. A piece begins at the chunk's first byte. Bits beyond the end of the text may be set.
void split_find_starts(const struct split_rules *rules, struct split_chunk *chunk, uint64_t *starts);

#endif
