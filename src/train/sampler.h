// Texts that a model generates while it is trained (--sample-interval). The weights are those of the training step,
// read where they are; what generation needs beside them is taken when the run starts. Nothing that training computes
// depends on it: draws come from a generator of their own, keyed by seed and position.
#ifndef TRAIN_SAMPLER_H
#define TRAIN_SAMPLER_H

#include "config/config.h"
#include "data/tokenizer/tokenizer.h"
#include "ops/device.h"
#include "parallel/mesh.h"
#include "report/report.h"
#include "step/step.h"

struct sampler_options {
    const struct config *config;  // validated
    struct device *device;
    const struct mesh *mesh;
    const struct tokenizer *tokenizer;
    struct step *step;  // that is trained; it outlives the sampler
};

struct sampler;

// All ranks call. *sampler is NULL if no samples are asked for.
int sampler_open(struct sampler **sampler, const struct sampler_options *options);
// Generates from every prompt and reports it; all ranks call, between two steps. A text that cannot be decoded is
// reported as a warning.
void sampler_run(struct sampler *sampler, int64_t iteration, struct report *report);
void sampler_close(struct sampler *sampler);  // NULL is fine

#endif
