// bevatron plan --calibrate.
#ifndef CLI_PLAN_CALIBRATE_H
#define CLI_PLAN_CALIBRATE_H

#include "plan/hardware_file.h"

// Sets the speeds of the machine from files with the JSON of bench matmul, bench collectives and bench step; logs the
// speeds to stderr.
int plan_calibrate(struct hardware_file *file, const struct string_list *names);

#endif
