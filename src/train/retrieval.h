// The retrieval check of ICT: embeds all blocks of a dataset and a query of each, finds the best blocks of every query
// by exact search over inner products, and counts how often the query's own block is among them.
#ifndef TRAIN_RETRIEVAL_H
#define TRAIN_RETRIEVAL_H

#include "data/sample/source.h"
#include "step/step.h"

struct retrieval {
    struct step *step;            // STEP_EVALUATE, of ICT
    struct sample_source source;  // each sample is a query and its block
    int64_t micro_batch_size;
    int64_t max_queries;  // 0: one for each block
    int64_t tops[OPS_MOST_TOPS];
    int top_count;
};

struct retrieval_result {
    int64_t blocks, queries;
    double accuracies[OPS_MOST_TOPS];  // fractions of the queries whose block is among the k best
};

// All ranks call and get the result. Of equal scores, that of the block with the lower number is better.
int retrieval_run(const struct retrieval *retrieval, struct retrieval_result *result);

// The `most` best blocks of some queries, in descending order. Blocks are added in the order of their numbers.
struct retrieval_best {
    int64_t queries, most;
    float *scores;    // (queries, most)
    int64_t *blocks;  // (queries, most); -1 after the last
};
void retrieval_best_open(struct retrieval_best *best, int64_t queries, int64_t most);
void retrieval_best_close(struct retrieval_best *best);
// Takes the scores (count) of a query with the blocks first, first + 1, ….
void retrieval_best_add(struct retrieval_best *best, int64_t query, const float *scores, int64_t first, int64_t count);

#endif
