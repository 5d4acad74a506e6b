// SentencePiece's byte-pair encoding: two neighbours may merge if their joint text is a piece; the piece with the
// highest score goes first, the leftmost of equals. Texts are in folded form (spm_normalise.h).
//
// A symbol is a piece, or a character that occurs in one but is not a piece itself. Every pair of symbols that forms a
// piece is in one hash table, so merging compares numbers, not strings.
#ifndef DATA_TOKENIZER_SPM_BPE_H
#define DATA_TOKENIZER_SPM_BPE_H

#include "data/tokenizer/spm_file.h"
#include "data/tokenizer/trie.h"

struct spm_pair {
    int32_t left, right;  // symbols
    int32_t piece;        // the piece they form; -1: a free slot
    uint32_t rank;        // of the piece
};

struct spm_bpe {
    struct trie symbols;       // texts to symbols: ids of pieces, then numbers from piece_count on
    int32_t *symbol_ids;       // (symbol count): the id each is written as; unknown_id if it has none
    int32_t *symbol_lengths;   // (symbol count): bytes
    uint32_t *ranks;           // (piece_count): 0 for the highest score, equal for equal scores
    bool *is_unused;           // (piece_count), NULL if no piece is of that type
    struct spm_pair *pairs;    // hash table
    int pair_shift;            // 64 less the bits of an index
    struct trie user_defined;  // texts that are one symbol and never merge; values are ids
    int32_t piece_count;
    int32_t unknown_id;
};

enum { SPM_MAX_PIECE_BYTES = 4096 };

// A model's pieces, in folded form, of at most SPM_MAX_PIECE_BYTES. A piece that cannot occur in text has text.data
// NULL.
struct spm_bpe_options {
    const struct spm_piece *pieces;  // (piece_count)
    int64_t piece_count;
    int32_t unknown_id;
    const struct trie *reserved;  // texts of control, unknown and byte pieces: looked up first
};

void spm_bpe_create(struct spm_bpe *bpe, const struct spm_bpe_options *options);
void spm_bpe_free(struct spm_bpe *bpe);

struct spm_symbol {
    int32_t id;      // as written
    int32_t length;  // bytes
};

// Memory of one thread. Zeroed is valid. The result of the last call is symbols[0…count).
struct spm_bpe_scratch {
    struct spm_symbol *symbols;
    int64_t count, symbol_capacity;
    struct spm_bpe_node *nodes;
    size_t node_capacity;
    uint64_t *heap;
    int64_t heap_count, heap_capacity;
    struct spm_bpe_history *history;  // (piece_count) how unused pieces were formed
    int32_t *stack;
    int64_t stack_capacity;
};

// The slot of a pair in the table: its own, or the free one where it belongs.
static inline struct spm_pair *spm_bpe_pair(const struct spm_bpe *bpe, int32_t left, int32_t right) {
    uint64_t key = (uint64_t)(uint32_t)left << 32 | (uint32_t)right;
    size_t mask = ((size_t)1 << (64 - bpe->pair_shift)) - 1;
    size_t at = (size_t)((key * 0x9E3779B97F4A7C15u ^ key >> 29) * 0xD6E8FEB86659FD93u >> bpe->pair_shift);
    while (bpe->pairs[at].piece >= 0 && (bpe->pairs[at].left != left || bpe->pairs[at].right != right))
        at = (at + 1) & mask;
    return &bpe->pairs[at];
}

void spm_bpe_scratch_free(struct spm_bpe_scratch *scratch);

// Encodes text[0…length), well-formed UTF-8 in folded form, length < 2^31.
void spm_bpe_encode(const struct spm_bpe *bpe, struct spm_bpe_scratch *scratch, const char *text, size_t length);

#endif
