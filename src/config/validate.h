// Shared by the files of the validation: the list of complaints, and the steps in order. Each step derives as much as
// it can even after a complaint, so that one error does not hide the next.
#ifndef CONFIG_VALIDATE_H
#define CONFIG_VALIDATE_H

#include "config/complaints.h"
#include "config/config.h"

// The divisors of a number up to 1024, as many as fit into the text: "1, 2, 3, 6". Returns the text.
const char *divisors(int64_t number, char *text, size_t size);
// The divisor of a number, and the multiple above 0 of a unit, nearest to the wanted value.
int64_t nearest_divisor(int64_t number, int64_t wanted);
int64_t nearest_multiple(int64_t wanted, int64_t unit);

// Flags that the model's family does not have, and families that are not named.
void validate_family(const struct config *config, struct complaints *complaints);
// The form of the model; completes its sizes.
void validate_model(struct config *config, struct complaints *complaints);
// In deepspeed.c: the effect of --zero-stage and --pp-partition-method here.
void validate_deepspeed(struct config *config, struct complaints *complaints);
// Data-parallel size, batch sizes and ramp-up; needs world_size.
void validate_batches(struct config *config, enum config_use use, struct complaints *complaints);
// In batch_steps.c: reads --step-batch-size-schedule, and counts the iterations of --train-samples with it.
void validate_batch_steps(struct config *config, struct complaints *complaints);
int64_t batch_steps_iterations(const struct config *config);
// The stages of a pipeline and their schedule; needs the model and the batch sizes.
void validate_pipeline(const struct config *config, struct complaints *complaints);
// Limits of the operations and of memory; needs the model, the batch sizes and, once it is known, the vocabulary.
void validate_size(const struct config *config, struct complaints *complaints);
// Length of the run, learning-rate and weight-decay schedules; needs the batch sizes.
void validate_schedule(struct config *config, struct complaints *complaints);
// --tokens as iterations or samples; needs the batch sizes.
void derive_length_of_tokens(struct config *config);
// Sizes that fp8 and fp4 matmuls can have; needs the model and the batch sizes.
void validate_fp8(const struct config *config, struct complaints *complaints);
// Rotary positions (validate_rope.c); completes the factor of LongRoPE.
void validate_rope(struct config *config, struct complaints *complaints);
// The attention of tokens (validate_attention.c).
void validate_attention(struct config *config, struct complaints *complaints);
// Sizes of mixtures of experts, and the ranks that they are split over; needs the model.
void validate_experts(struct config *config, struct complaints *complaints);
// Iterations and ranks to profile; needs the number of ranks.
void validate_profile(const struct config *config, struct complaints *complaints);
// Injected faults; needs the number of ranks and the length of the run.
void validate_inject(const struct config *config, enum config_use use, struct complaints *complaints);
// --iterations-to-skip and --trigger-path.
void validate_recovery(const struct config *config, struct complaints *complaints);
void validate_stops(const struct config *config, struct complaints *complaints);
// Refuses flags of features that are not implemented, and names those without effect.
void validate_features(const struct config *config, struct complaints *complaints);

#endif
