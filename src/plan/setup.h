// Makes a step from flags: its options as values, the checks that need the device, and what the user is told about its
// memory.
#ifndef PLAN_SETUP_H
#define PLAN_SETUP_H

#include "base/buffer.h"
#include "config/config.h"
#include "step/step.h"

struct setup {
    const struct config *config;  // validated, with padded_vocab_size set; it must live as long as the step
    struct device *device;
    const struct mesh *mesh;
    enum step_mode mode;
};

struct step_options setup_options(const struct setup *setup);
// Opens the step. All ranks call. Warns if its memory is scarce; if there is no room, the error of all ranks says which
// flags would help. *step is NULL on failure.
int setup_step(struct step **step, const struct setup *setup);
// setup_step with options that setup_options has made and the caller has changed.
int setup_open(struct step **step, const struct setup *setup, const struct step_options *options);
// One line with the number of ranks along each axis.
void setup_log_ranks(const struct config *config, const struct mesh *mesh);
// Appends "1.23 GB (weights 0.45, …)".
void setup_describe_memory(const struct step_memory *memory, struct buffer *out);

// Says what the step trains on, and how large it is.
void setup_log(const struct step *step, const struct config *config);

// ---- flags that make a step fit ----

// Finds flags that would make a too large step fit. Internal to this folder.

// Appends which flags would make a step fit that needs `total` bytes where there are `room`. Each proposal was measured
// on paper.
void memory_remedies(const struct setup *setup, size_t total, size_t room, struct buffer *out);

#endif
