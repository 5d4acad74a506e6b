// Runs a step's micro-batches through the pieces of the model that this rank has, in the order of a schedule's list. A
// run without a pipeline is one with a single stage. For the files of this folder alone.
#ifndef STEP_PIPELINE_H
#define STEP_PIPELINE_H

#include "step/step.h"

// Cuts the model, declares its parameters, and finds how many micro-batches can be on their way at once.
int pipeline_open(struct step *step);
void pipeline_close(struct step *step);
// Takes what lives as long as the step: inputs of the micro-batches on their way, and message buffers.
void pipeline_lay_out(struct step *step, struct arena *arena);
// On paper: what each flight needs, into the chunks' saved_bytes and deferred_bytes. step->saved and step->scratch only
// count.
void pipeline_measure(struct step *step);
// Gives every flight its piece of step->saved, which holds pipeline_saved_bytes.
size_t pipeline_saved_bytes(const struct step *step);
void pipeline_bind_flights(struct step *step);

// The schedule of so many micro-batches, kept while their number stays the same; and this stage's list of it.
int pipeline_schedule(struct step *step, int64_t micro_batches);
const struct schedule_list *pipeline_list(const struct step *step);
// Whether it gives the gradient of the chunk's input; a micro-batch's inputs are no longer needed then.
bool pipeline_is_backward(enum work work);

// What a chunk sends or receives over a link for one micro-batch: the rows of the stream, then those of the memory.
struct message {
    int64_t x_rows, memory_rows, elements;  // all 0 where there is no message
};
struct message pipeline_message(struct step *step, enum mesh_link link, int chunk);
struct handover pipeline_view(const struct step *step, struct tensor buffer, const struct message *message);

// All micro-batches of the source, forward and with learning backward; their counts become those of the totals.
int step_run_pipeline(struct step *step, const struct step_source *source, bool is_learning);

// Parameters that several stages hold (shared.c): marks all copies but the first stage's; sums their gradients over the
// stages, so that each has the whole; before anything else is done with them.
void shared_open(struct step *step);
void shared_close(struct step *step);
void shared_sum_gradients(struct step *step);
void shared_measure(struct step *step);  // on paper: what that takes of the scratch

#endif
