// Where a step meets the faults that are injected into it (base/fault.h). Only for the files of this folder.
#ifndef STEP_FAULTS_H
#define STEP_FAULTS_H

#include "parallel/schedule.h"
#include "step/internal.h"

// Before an item of a training step's list.
void step_reach_faults(struct step *step, enum work work);

#endif
