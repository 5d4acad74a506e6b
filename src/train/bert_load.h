// --bert-load: the towers of a new ICT run begin with the encoder of a BERT. Internal to this folder.
#ifndef TRAIN_BERT_LOAD_H
#define TRAIN_BERT_LOAD_H

#include "step/step.h"

// Sets all weights. Projections, which a BERT lacks, are random, the same for both towers. All ranks call.
int bert_load(struct step *step, const struct config *config);

#endif
