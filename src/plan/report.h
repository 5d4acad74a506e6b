// A plan for people and for programs.
#ifndef PLAN_REPORT_H
#define PLAN_REPORT_H

#include "plan/interruptions.h"

// What a whole run takes.
struct plan_budget {
    double tokens;  // 0: no budget
    const struct machine *machine;
    struct interruption_rates rates;
    double file_operations;  // a second, of the file system; 0: those that are usual
};
void plan_describe(const struct plan *plan, const struct plan_budget *budget, struct buffer *out);
void plan_write_json(const struct plan *plan, const struct plan_budget *budget, struct buffer *out);

#endif
