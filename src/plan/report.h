// A plan for people and for programs.
#ifndef PLAN_REPORT_H
#define PLAN_REPORT_H

#include "plan/interruptions.h"

// The budget of a whole run.
struct plan_budget {
    double tokens;  // 0: no budget
    const struct machine *machine;
    struct interruption_rates rates;
    double file_operations;  // per second, of the file system; 0: the usual number
};
void plan_describe(const struct plan *plan, const struct plan_budget *budget, struct buffer *out);
void plan_write_json(const struct plan *plan, const struct plan_budget *budget, struct buffer *out);

#endif
