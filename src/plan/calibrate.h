// Calibrates the constants of the paper device and links to times of matmuls, collectives and whole steps measured on a
// machine, so that plans match the measurements.
#ifndef PLAN_CALIBRATE_H
#define PLAN_CALIBRATE_H

#include "config/config.h"
#include "plan/hardware.h"

// A matmul (m, n) summed over k, which a step does `times` times.
struct matmul_sample {
    enum dtype dtype;
    double m, n, k, times, seconds;
};
// A collective of `bytes`, which an algorithm moves `passes` times: 2 for an all-reduce, 1 for others.
struct message_sample {
    int ranks;
    int hosts;  // hosts that they ran on; 0 if not known
    double passes, bytes, seconds;
};
// A step of one rank and one micro-batch.
struct step_sample {
    struct config config;  // validated; padded_vocab_size is set
    double seconds;
};

struct calibration {
    struct matmul_sample *matmuls;
    struct message_sample *messages;
    struct step_sample *steps;
    int matmul_count, message_count, step_count;
};
void calibration_add_matmul(struct calibration *calibration, const struct matmul_sample *sample);
void calibration_add_message(struct calibration *calibration, const struct message_sample *sample);
// Takes over the config.
void calibration_add_step(struct calibration *calibration, const struct step_sample *sample);
void calibration_free(struct calibration *calibration);

// Sets the speeds of the machine, and appends a readable line about each kind of sample.
int calibration_apply(const struct calibration *calibration, struct hardware_file *file, struct buffer *out);

#endif
