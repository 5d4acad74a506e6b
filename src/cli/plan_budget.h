// bevatron plan --budget: the model and the number of tokens that make the best of an amount of compute, and what that
// takes on a machine.
#ifndef CLI_PLAN_BUDGET_H
#define CLI_PLAN_BUDGET_H

#include "cli/plan_search.h"

// Before presets are applied: chooses the model and its batch, as far as no flag does, and sets them in the config as
// if the user had given them. The precision is one that all machines of the search have.
struct plan_budget_choice {
    struct config *config;
    double flops;
    double optimal;       // parameters by the law, which a shape does not have exactly
    bool chooses_length;  // no flag says how long to train
};
int plan_budget_choose(const struct plan_search *search, const char *budget, struct plan_budget_choice *choice);
// Searches a layout, sets the iterations that the budget leaves the model, and prints.
int plan_budget_run(struct plan_search *options, struct plan_budget_choice *choice);

#endif
