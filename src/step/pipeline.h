// Runs the list of a step: micro-batches through the chunks of the model on this rank, and the work before and after.
// Without a pipeline there is a single stage. Only for the files of this folder.
#ifndef STEP_PIPELINE_H
#define STEP_PIPELINE_H

#include "step/internal.h"

// Splits the model into chunks, declares its parameters, and finds the most micro-batches in flight at once.
int pipeline_open(struct step *step);
void pipeline_close(struct step *step);
// A chunk of the model by its number (see config_pipeline.c).
struct model_options pipeline_chunk(const struct step *step, int64_t number);
// Takes the memory that lives as long as the step: the inputs of micro-batches in flight, and message buffers.
void pipeline_lay_out(struct step *step, struct arena *arena);
// Gives every flight its part of step->activations, which holds pipeline_activation_bytes.
size_t pipeline_activation_bytes(const struct step *step);
void pipeline_bind_flights(struct step *step);

// The schedule for this many micro-batches, kept while their number stays the same; NULL, with an error, if there is
// none.
const struct schedule *pipeline_schedule(struct step *step, int64_t micro_batches, bool is_learning);
// The list of this stage.
const struct schedule_list *pipeline_list(const struct step *step, const struct schedule *schedule);

// A message of a chunk over a link for one micro-batch: rows of the residual stream, then rows of the memory.
struct message {
    int64_t x_rows, memory_rows, elements;  // all 0 if there is no message
};
struct message pipeline_message(struct step *step, enum mesh_link link, int chunk);
struct handover pipeline_view(const struct step *step, struct tensor buffer, const struct message *message);

// Queues a step (run.c): a training step if there are paces, else an evaluation. -1 if the source failed.
int step_run(struct step *step, const struct step_source *source, const struct pace *paces);
// Only the passes of a training step: the digest of the gradients, before they are reduced; *status is -1 if inputs
// cannot be loaded.
int64_t step_digest_passes(struct step *step, const struct step_source *source, int *status);

// Parameters that several stages hold (shared.c). shared_open marks every copy but the first stage's.
// shared_sum_gradients sums their gradients over the stages, so that each stage has the whole sum; call it before any
// other use of these gradients.
void shared_open(struct step *step);
// Adds the parameters of all chunks of a stage to the list.
void shared_declare_stage(const struct step *step, int stage, struct param_list *params);
void shared_close(struct step *step);
void shared_sum_gradients(struct step *step);

#endif
