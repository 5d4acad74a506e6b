// Scores of a model on tasks: multiple choice, last words, perplexity of documents. A task is a record (task_rows.c, or
// a line of the user's own file); prompts, tokens, scores and standard errors are those of lm-evaluation-harness
// 0.4.13, or of nanochat for the tasks of CORE. docs/evaluate.md explains both.
//
//     tasks_open(&tasks, &options);     reads the documents, renders and tokenizes all prompts
//     tasks_run(tasks, &run);           scores them; as often as the weights change
//     tasks_print(tasks, is_json);      or tasks_scores
//     tasks_close(tasks);
#ifndef EVALUATE_TASKS_H
#define EVALUATE_TASKS_H

#include "base/buffer.h"
#include "data/tokenizer/tokenizer.h"
#include "step/step.h"

// The program and the version whose scores these are.
#define TASKS_HARNESS "lm-evaluation-harness 0.4.13"

struct tasks;

struct tasks_options {
    const char *names;   // separated by commas
    const char *folder;  // TASK/SPLIT.jsonl below it
    const char *file;    // the user's own tasks, or NULL
    const struct tokenizer *tokenizer;
    int64_t window;  // tokens that the model sees
    int64_t limit;   // documents per task; 0 for all
    int64_t shots;   // examples in a prompt; -1: those of the task
};

// All files that are missing are named in one error.
int tasks_open(struct tasks **tasks, const struct tasks_options *options);
void tasks_close(struct tasks *tasks);  // NULL is fine

struct tasks_run {
    struct step *step;  // with keeps_scores
    int64_t micro_batch_size;
    bool is_quiet;  // no progress line
    // Asked before every batch, with the same answer on all ranks; NULL: it runs to its end.
    bool (*is_cut)(void *context);
    void *context;
};
// All ranks call, and all have the results; 1, and no scores, if it was cut short. No evaluation of the step may be
// pending.
int tasks_run(struct tasks *tasks, const struct tasks_run *run);

// A score of a task. The names live as long as the tasks.
struct task_score {
    const char *task, *metric;
    int64_t documents, shots;
    double value, error;  // the standard error; NAN if there is none
    bool is_share;        // of documents, not a perplexity
};
// The next score after *at, which begins at 0; false at the end. `has_errors`: also the standard errors that take
// seconds (100,000 resamples of a perplexity).
bool tasks_next_score(const struct tasks *tasks, int64_t *at, bool has_errors, struct task_score *score);
// All scores as a table or as one JSON object.
void tasks_print(const struct tasks *tasks, bool is_json, struct buffer *out);
// A line of JSON per document: task, number, gold answer, log-likelihoods, whether each is what the model would write.
void tasks_print_documents(const struct tasks *tasks, struct buffer *out);

// What users can ask for, one name per line with a description; `file` may be NULL.
int tasks_list(const char *file, struct buffer *out);

#endif
