// bevatron plan --budget: the compute-optimal model and number of tokens for a budget, and their plan on a machine.
#ifndef CLI_PLAN_BUDGET_H
#define CLI_PLAN_BUDGET_H

#include "cli/plan_search.h"

// Called before presets are applied: chooses the model and its batch, where flags do not, and sets them in the config
// as if they were given. The precision is one that all machines of the search have.
struct plan_budget_choice {
    struct config *config;
    double flops;
    double optimal;       // optimal parameters by the law; a shape comes close
    bool chooses_length;  // the length of training is not given
};
int plan_budget_choose(const struct plan_search *search, const char *budget, struct plan_budget_choice *choice);
// Searches a layout, sets the number of iterations from the remaining budget, and prints.
int plan_budget_run(struct plan_search *options, struct plan_budget_choice *choice);

#endif
