// The unigram language model of SentencePiece: of all segmentations of a text into pieces, the one with the highest sum
// of scores (log probabilities). A character that does not begin a piece of its own length can also be unknown, at a
// penalty.
//
// SentencePiece sums in single precision from the beginning of the text, so rounding decides between near equals:
// unigram_best_rounded gives the same result. (Since version 0.2.2 it subtracts the sum again if it exceeds 100,000;
// before, longer texts had larger sums and worse pieces.) unigram_best sums in double precision, like Hugging Face, and
// returns the margin of the best segmentation, which tells how much rounding cannot change the result.
#ifndef DATA_TOKENIZER_UNIGRAM_H
#define DATA_TOKENIZER_UNIGRAM_H

#include "data/tokenizer/trie.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// Bytes of the UTF-8 character that begins with `first`, as in SentencePiece, even if the rest is not UTF-8; `left` (at
// least 1) bytes are available.
static inline size_t character_bytes(unsigned char first, size_t left) {
    size_t bytes = first < 0xC0 ? 1 : first < 0xE0 ? 2 : first < 0xF0 ? 3 : 4;
    return bytes < left ? bytes : left;
}

struct unigram {
    struct trie trie;      // pieces that may be used; a value is an id
    double *scores;        // by id
    int32_t unknown_id;    // -1 is fine: it is only returned
    double unknown_score;  // usually the smallest score minus 10
};

enum { UNIGRAM_LARGEST_SUM = 100000 };

struct unigram_piece {
    int32_t id;
    int32_t length;  // bytes
};

// Memory of one thread. Zeroed is valid. The result of the last call is pieces[0…count).
struct unigram_scratch {
    struct unigram_node *nodes;
    size_t node_capacity;
    struct unigram_piece *pieces;
    int64_t count;
    int64_t piece_capacity;
};

// Frees the trie and the scores.
void unigram_free(struct unigram *unigram);
void unigram_scratch_free(struct unigram_scratch *scratch);

// Segments text[0…length), length < 2^31. Returns the smallest margin by which the chosen path beat the next best
// (infinity if there was no other path, 0 for a tie, in which the piece that begins first has won).
double unigram_best(const struct unigram *unigram, struct unigram_scratch *scratch, const char *text, size_t length);

// unigram_best in single precision, starting at the `sum` of the text before; returns the sum after it.
float unigram_best_rounded(const struct unigram *unigram, struct unigram_scratch *scratch, const char *text,
                           size_t length, float sum);

// The rounded sum after one more piece with this score, which fits in single precision.
static inline float unigram_add(float sum, double score) {
    return (float)(score + (double)sum);
}

#endif
