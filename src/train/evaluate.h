// Loss and perplexity of a model on data that it does not learn from.
#ifndef TRAIN_EVALUATE_H
#define TRAIN_EVALUATE_H

#include "data/sample/source.h"
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

#endif
