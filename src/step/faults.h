// Injects faults into a step (base/fault.h). Only for the files of this folder.
#ifndef STEP_FAULTS_H
#define STEP_FAULTS_H

#include "parallel/schedule.h"
#include "step/internal.h"

// Called before each item of a training step's list.
void step_reach_faults(struct step *step, enum work work);

#endif
