// Runs the micro-batches of a step through the pieces of the model that this rank holds, in the order of a schedule's
// list. A run without a pipeline is one with a single stage. Only for the files of this folder.
#ifndef STEP_PIPELINE_H
#define STEP_PIPELINE_H

#include "step/step.h"

// Cuts the model into pieces, declares its parameters, and finds how many micro-batches can be in flight at once.
int pipeline_open(struct step *step);
void pipeline_close(struct step *step);
// Takes the memory that lives as long as the step: the inputs of micro-batches in flight, and message buffers.
void pipeline_lay_out(struct step *step, struct arena *arena);
// On paper: measures what each flight needs and stores it in the chunks' saved_bytes and deferred_bytes. The arenas
// step->saved and step->scratch only count.
void pipeline_measure(struct step *step);
// Gives every flight its piece of step->saved, which holds pipeline_saved_bytes.
size_t pipeline_saved_bytes(const struct step *step);
void pipeline_bind_flights(struct step *step);

// The schedule for this many micro-batches, kept while their number stays the same; and this stage's list from it.
int pipeline_schedule(struct step *step, int64_t micro_batches);
const struct schedule_list *pipeline_list(const struct step *step);
// Whether this work computes the gradient of the chunk's input. After it, a micro-batch's inputs are no longer needed.
bool pipeline_is_backward(enum work work);

// What a chunk sends or receives over a link for one micro-batch: rows of the stream, then rows of the memory.
struct message {
    int64_t x_rows, memory_rows, elements;  // all 0 if there is no message
};
struct message pipeline_message(struct step *step, enum mesh_link link, int chunk);
struct handover pipeline_view(const struct step *step, struct tensor buffer, const struct message *message);

// Runs all micro-batches of the source forward and, if learning, backward; sets the counts of the totals to theirs.
int step_run_pipeline(struct step *step, const struct step_source *source, bool is_learning);

// Parameters that several stages hold (shared.c). shared_open marks every copy but the first stage's.
// shared_sum_gradients sums their gradients over the stages, so that each stage has the whole sum; it comes before
// anything else is done with these gradients.
void shared_open(struct step *step);
void shared_close(struct step *step);
void shared_sum_gradients(struct step *step);
void shared_measure(struct step *step);  // on paper: measures the scratch memory that the sum takes

#endif
