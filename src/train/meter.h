// Turns the results of iterations into metrics and reports them: every iteration to the live view and TensorBoard, and
// the means over an interval of iterations to the console and metrics.jsonl.
#ifndef TRAIN_METER_H
#define TRAIN_METER_H

#include "config/config.h"
#include "model/census.h"
#include "report/metrics.h"
#include "report/report.h"
#include "step/step.h"
#include "train/plan_comparison.h"
#include "train/state.h"

// ---- experts ----

// Measures how evenly experts are used, from their numbers of tokens. With T_e tokens for expert e, the balance of a
// layer is the largest T_e divided by their mean: 1 if all experts get equally many, E / K if all tokens choose the
// same K of E experts. Experts without tokens are idle.

struct expert_balance {
    int64_t layers, experts;  // layers with experts; 0: there are none
    double *sums;             // (layers, experts): tokens since the last log line
    struct metrics_expert_layer *each;
};

void expert_balance_open(struct expert_balance *balance, const struct config *config);
void expert_balance_close(struct expert_balance *balance);
// Adds an iteration's tokens, (layers, experts); and forgets all of them.
void expert_balance_add(struct expert_balance *balance, const float *counts);
void expert_balance_clear(struct expert_balance *balance);
// Describes these tokens, or those added since the last line if NULL. The metrics borrow the list of layers until the
// next call.
void expert_balance_tell(struct expert_balance *balance, const float *counts, struct metrics *metrics);

// ---- iterations ----

// Sums since the last log line.
struct meter_interval {
    double seconds, tokens;
    double losses[METRICS_MAX_LOSSES];  // sums over the good iterations: those whose loss and gradient are finite
    int64_t iterations, good, skipped, nan;
    struct meter_usage {
        double at, ran, waited_for_data;  // seconds: of the clock, of all threads, of this rank's loader
    } began;
};

struct meter {
    const struct config *config;
    struct census census;
    const struct mesh *mesh;
    struct step *step;
    struct report *report;          // NULL except on the reporting rank
    const struct planned *planned;  // may be empty
    int64_t first_iteration;        // of this start; it always gets a log line
    struct meter_interval interval;
    struct expert_balance experts;
    struct metrics rest;  // of the last iteration; with has_rest, that is if it got no log line
    bool has_rest;
    char top_names[CONFIG_MOST_TOPS][24];  // of ICT's top-k accuracies, set by meter_open
};

// An iteration that has completed.
struct meter_reading {
    struct step_result result;
    struct progress_state at;  // after the iteration
    int64_t batch_size;
    double seconds;
};

// Makes it ready for the first iteration; its other members are set.
void meter_open(struct meter *meter);
void meter_close(struct meter *meter);
// Forgets the iterations since the last log line.
void meter_forget(struct meter *meter);
// Lists a result's losses under their names in the log; returns the number. The names belong to the meter.
int meter_list_losses(const struct meter *meter, const struct step_result *result,
                      struct metrics_loss losses[METRICS_MAX_LOSSES]);
// Tokens of a sample: the model's inputs, including T5's decoder and both towers of ICT.
int64_t meter_tokens_per_sample(const struct config *config);
// Whether this iteration reports something that has to be computed from the weights or gradients after it. No later
// iteration may have been queued by then.
bool meter_needs_weights(const struct meter *meter, int64_t iteration);
// Adds an iteration and reports what is due. All ranks call.
void meter_add(struct meter *meter, const struct meter_reading *reading);
// After the last iteration: reports the iterations after the last log line.
void meter_finish(struct meter *meter);

#endif
