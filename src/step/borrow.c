// Which activations may lie where which gradients will be. See borrow.h.
//
// Layers [0, k) lend the memory of their gradients to the activations of layers [k, L) and of the heads: when the
// backward pass reaches layer k - 1, all of those are used up. With k = L only the heads borrow. The weights of
// consecutive layers follow each other in the flat buffers, see parallel/param.h. Gaps between them must stay zero, so
// nothing is lent if there are any.
#include "step/borrow.h"
#include "step/pipeline.h"

static const struct stack *only_stack(const struct step_chunk *chunk) {
    return chunk->model.form == CONFIG_BERT ? &chunk->model.encoder : &chunk->model.decoder;
}

static const size_t *marks_of(const struct step_chunk *chunk) {
    const struct model_flight *flight = &chunk->flights[0].model;
    return chunk->model.form == CONFIG_BERT ? flight->encoder.marks : flight->decoder.marks;
}

// One micro-batch per step, through a single stack of one group of parameters that is all on this rank, and whatever is
// kept is kept until it is used.
static bool is_possible(const struct step *step) {
    const struct step_chunk *chunk = &step->chunks[0];
    return step->mode == STEP_TRAIN && step->params.group_count == 1 && step->mesh.length[AXIS_PIPELINE] == 1 &&
           step->chunk_count == 1 && step->options.schedule.micro_batches == 1 && !step->options.grows &&
           chunk->model.form != CONFIG_T5 && chunk->model.form != CONFIG_ICT &&
           chunk->model.choices.recomputed_layers == 0 && !chunk->grows_backward;
}

static int64_t first_element(const struct stack *stack) {
    return block_first_matrix(&stack->blocks[0])->offset;
}

// Behind the weights of layer k - 1.
static int64_t end_element(const struct stack *stack, int64_t k) {
    const struct param *last = block_last_matrix(&stack->blocks[k - 1]);
    return last->offset + shard_local_count(&last->shard);
}

static bool has_gaps(const struct param_list *params, int64_t first, int64_t end) {
    int64_t count = 0;
    for (int i = 0; i < params->count; i++)
        if (params->items[i]->offset >= first && params->items[i]->offset < end)
            count += shard_local_count(&params->items[i]->shard);
    return count != end - first;
}

// The first k with enough room, because the fewer layers lend, the more can borrow.
struct step_borrow borrow_find(const struct step *step, size_t activation_bytes) {
    const struct step_chunk *chunk = &step->chunks[0];
    const struct stack *stack = only_stack(chunk);
    bool is_found = false;
    struct step_borrow borrow = {0};
    for (int64_t k = 1; is_possible(step) && k <= stack->L && !is_found; k++) {
        int64_t first = first_element(stack), end = end_element(stack, k);
        borrow = (struct step_borrow){
            .border = marks_of(chunk)[k], .room = sizeof(float) * (size_t)(end - first), .first = first};
        is_found = activation_bytes - borrow.border <= borrow.room && !has_gaps(&step->params, first, end);
    }
    return is_found ? borrow : (struct step_borrow){0};
}

bool borrow_fits(const struct step *step) {
    return step->chunks[0].activation_bytes <= step->borrow.border + step->borrow.room;
}

void borrow_apply(const struct step *step, struct arena *activations) {
    const struct step_borrow *borrow = &step->borrow;
    if (borrow->border > 0)
        arena_set_border(activations, borrow->border, (float *)step->grads.data + borrow->first);
}
