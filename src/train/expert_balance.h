// Measures how evenly experts are used, from their numbers of tokens. With T_e tokens for expert e, the balance of a
// layer is the largest T_e divided by their mean: 1 if all experts get equally many, E / K if all tokens choose the
// same K of E experts. Experts without tokens are idle.
#ifndef TRAIN_EXPERT_BALANCE_H
#define TRAIN_EXPERT_BALANCE_H

#include "config/config.h"
#include "report/metrics.h"

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

#endif
