// Loss and perplexity of a model on data that it does not learn from.
#ifndef TRAIN_EVALUATE_H
#define TRAIN_EVALUATE_H

#include "data/sample/source.h"
#include "data/tokenizer/tokenizer.h"
#include "evaluate/tasks.h"
#include "step/step.h"
#include "train/meter.h"
#include "train/run_end.h"

struct evaluation {
    struct step_result mean;  // over the counted tokens: loss, tokens, accuracies of ICT, losses of depths
    int64_t samples;
};

struct evaluate {
    struct step *step;
    struct sample_source source;
    int64_t micro_batch_size;
    int64_t max_samples;  // 0: all of them
};

// A query of ICT is compared with the contexts of its batch, so of its samples only those that fill batches count.
int evaluate_run(const struct evaluate *evaluate, struct evaluation *result);

// In a run that trains: sets losses and times to those of --eval-iters global batches, with --eval-with-ema of the
// moving average of the weights. *is_cut if a signal has come meanwhile. All ranks call, and no step is pending.
struct evaluate_batches {
    struct step *step;
    struct loader *loader;
    const struct config *config;
    struct ending *ending;
};
int evaluate_batches(const struct evaluate_batches *batches, const struct meter *meter, struct metrics_eval *eval,
                     bool *is_cut);

// In a run that trains: the tasks of --eval-tasks, if there are any; and their scores if they are due at this
// iteration, each task reported as a set of its own, unless a signal comes meanwhile. All ranks call, and no step is
// pending.
struct evaluate_tasks {
    struct tasks *tasks;
    struct step *step;
    const struct config *config;
    int64_t interval;       // 0 without tasks
    struct report *report;  // set later, as `ending`
    struct ending *ending;
};
int evaluate_tasks_open(struct evaluate_tasks *scoring, const struct config *config, const struct tokenizer *tokenizer,
                        struct step *step);
int evaluate_tasks(const struct evaluate_tasks *scoring, int64_t iteration, int64_t consumed_samples);

// Cuts a text of token ids into samples: each begins `stride` tokens after the previous one, and the last is padded.
// Every token but the first is counted once, in the first sample that contains it. With a stride below seq_length, each
// is predicted from more of the text.
struct token_text {
    const int32_t *ids;
    int64_t count;
    int64_t seq_length;
    int64_t stride;  // 1…seq_length
};
struct sample_source token_text_source(struct token_text *text);

// ---- cloze accuracy ----

// Cloze accuracy, as LAMBADA is scored: after the rest of a text, the model must find every token of its last word the
// most likely one.

struct cloze {
    struct step *step;  // STEP_GENERATE
    const struct tokenizer *tokenizer;
    const char *path;  // JSON Lines
    const char *key;   // their member that holds the text
    // Strict: the last word of the text, with the space before it, is encoded on its own. Otherwise the model is asked
    // for the text's last token, which may be only part of a word.
    bool is_strict;
    int64_t max_samples;  // 0: all
};

struct cloze_result {
    int64_t texts, right;
    int64_t cut;  // texts whose beginning was cut, because the model has too few positions
    double accuracy;
};

int cloze_run(const struct cloze *cloze, struct cloze_result *result);

// ---- the retrieval check ----

// The retrieval check of ICT: embeds all blocks of a dataset and a query of each, finds the best blocks of every query
// by exact search over inner products, and counts how often the query's own block is among them.

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
