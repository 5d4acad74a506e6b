// The unigram language model of SentencePiece: of all ways to cut a text into pieces, the one whose scores
// (logarithms of probabilities) sum to the most. A character that begins no piece of its own length can also be
// unknown, at a penalty.
//
// SentencePiece sums in single precision from the beginning of the text, so rounding decides between near equals:
// unigram_best_rounded gives just what it gives. (Since version 0.2.2 it takes the sum off again where that is beyond
// 100,000; before, longer texts had larger sums and worse pieces.) unigram_best sums in double precision, as Hugging
// Face does, and says by how much the best way won, which tells how much rounding the result bears.
#ifndef DATA_TOKENIZER_UNIGRAM_H
#define DATA_TOKENIZER_UNIGRAM_H

#include "data/tokenizer/trie.h"
#include <stddef.h>
#include <stdint.h>

struct unigram {
    struct trie trie;      // pieces that may be used; a value is an id
    double *scores;        // by id
    int32_t unknown_id;    // -1 is fine: it is only handed back
    double unknown_score;  // usually the smallest score less 10
};

enum { UNIGRAM_LARGEST_SUM = 100000 };

struct unigram_piece {
    int32_t id;
    int32_t length;  // bytes
};

// What one thread needs. Zeroed is valid. The result of the last call is pieces[0…count).
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

// Cuts text[0…length), length < 2^31. Returns by how much the way taken beat the next best at the narrowest place
// (infinity where there was no other way, 0 for a tie, in which the piece that begins first has won).
double unigram_best(const struct unigram *unigram, struct unigram_scratch *scratch, const char *text, size_t length);

// The same in single precision, `sum` being that of the text before; returns the sum after.
float unigram_best_rounded(const struct unigram *unigram, struct unigram_scratch *scratch, const char *text,
                           size_t length, float sum);

// The rounded sum after one more piece of this score, which single precision holds.
static inline float unigram_add(float sum, double score) {
    return (float)(score + (double)sum);
}

#endif
