// Viterbi's algorithm over byte positions: at every character, each piece that matches there makes an offer to the
// position where it ends. Only the best offer is kept.
#include "data/tokenizer/unigram.h"
#include "base/error.h"
#include "base/memory.h"
#include <math.h>
#include <stdlib.h>

struct unigram_node {
    double score;   // of the best path to here
    double gap;     // to the second best last step
    int32_t begin;  // of the last piece; -1 if no path leads here
    int32_t id;
};

void unigram_free(struct unigram *unigram) {
    trie_free(&unigram->trie);
    free(unigram->scores);
    unigram->scores = NULL;
}

void unigram_scratch_free(struct unigram_scratch *scratch) {
    free(scratch->nodes);
    free(scratch->pieces);
    *scratch = (struct unigram_scratch){0};
}

static struct unigram_node *prepare(struct unigram_scratch *scratch, size_t length, double sum) {
    CHECK(length < INT32_MAX);
    if (scratch->node_capacity < length + 1) {
        scratch->node_capacity = 2 * (length + 1);
        free(scratch->nodes);
        scratch->nodes = memory_realloc(NULL, scratch->node_capacity * sizeof *scratch->nodes);
    }
    for (size_t i = 1; i <= length; i++)
        scratch->nodes[i].begin = -1;
    scratch->nodes[0] = (struct unigram_node){.score = sum, .gap = INFINITY, .begin = 0};
    return scratch->nodes;
}

// Walks back from the end; returns the smallest gap on the way.
static double collect(struct unigram_scratch *scratch, size_t length) {
    double narrowest = INFINITY;
    int64_t count = 0;
    for (size_t at = length; at > 0; at = (size_t)scratch->nodes[at].begin)
        count++;
    if (scratch->piece_capacity < count) {
        scratch->piece_capacity = 2 * count;
        free(scratch->pieces);
        scratch->pieces = memory_realloc(NULL, (size_t)scratch->piece_capacity * sizeof *scratch->pieces);
    }
    scratch->count = count;
    for (size_t at = length; at > 0;) {
        const struct unigram_node *node = &scratch->nodes[at];
        if (node->gap < narrowest)
            narrowest = node->gap;
        scratch->pieces[--count] = (struct unigram_piece){node->id, (int32_t)at - node->begin};
        at = (size_t)node->begin;
    }
    return narrowest;
}

static inline void offer(struct unigram_node *node, double score, size_t begin, int32_t id, bool rounded) {
    bool is_first = node->begin < 0;
    if (is_first || score > node->score)
        *node = (struct unigram_node){score, rounded || is_first ? INFINITY : score - node->score, (int32_t)begin, id};
    else if (!rounded && node->score - score < node->gap)
        node->gap = node->score - score;
}

// Subtracts the sum at `begin` from every sum from there to `furthest`, the last position that has one.
static void rebase(struct unigram_node *nodes, size_t begin, size_t furthest) {
    float sum = (float)nodes[begin].score;
    nodes[begin].score = 0;
    for (size_t i = begin + 1; i <= furthest; i++)
        if (nodes[i].begin >= 0)
            nodes[i].score = (double)((float)nodes[i].score - sum);
}

// A rounded sum fits in single precision, and so does the result.
static inline double add(double sum, double score, bool rounded) {
    return rounded ? (double)(float)(score + sum) : score + sum;
}

// Finds the best segmentation of a text whose nodes are prepared. `rounded` is a constant, so this is two functions.
static inline void find_best(const struct unigram *unigram, struct unigram_node *nodes, const char *text, size_t length,
                             bool rounded) {
    size_t furthest = 0;
    for (size_t begin = 0; begin < length;) {
        if (rounded && fabs(nodes[begin].score) > UNIGRAM_LARGEST_SUM)
            rebase(nodes, begin, furthest);
        size_t character = character_bytes((unsigned char)text[begin], length - begin);
        double sum = nodes[begin].score;
        bool is_known = false;
        int32_t node = TRIE_ROOT;
        for (size_t at = begin; at < length;) {
            node = trie_step(&unigram->trie, node, (unsigned char)text[at++]);
            if (node < 0)
                break;
            int32_t id = unigram->trie.values[node];
            if (id < 0)
                continue;
            offer(&nodes[at], add(sum, unigram->scores[id], rounded), begin, id, rounded);
            is_known |= at - begin == character;
            furthest = at > furthest ? at : furthest;
        }
        size_t end = begin + character;
        if (!is_known)
            offer(&nodes[end], add(sum, unigram->unknown_score, rounded), begin, unigram->unknown_id, rounded);
        furthest = end > furthest ? end : furthest;
        begin = end;
    }
}

double unigram_best(const struct unigram *unigram, struct unigram_scratch *scratch, const char *text, size_t length) {
    find_best(unigram, prepare(scratch, length, 0), text, length, false);
    return collect(scratch, length);
}

float unigram_best_rounded(const struct unigram *unigram, struct unigram_scratch *scratch, const char *text,
                           size_t length, float sum) {
    struct unigram_node *nodes = prepare(scratch, length, (double)sum);
    find_best(unigram, nodes, text, length, true);
    collect(scratch, length);
    return (float)nodes[length].score;
}
