// Decides which activations may use the memory of which gradients. See internal.h.
//
// The arena continues in the gradients' buffer at a border: activations kept first are below it, in separate memory;
// from the border on, heights of the arena are places in the buffer, from the weights of layer 0 on. The gradients of
// layer m are written when everything kept after layer m is used up, so their place must not be lower in the arena than
// the end of layer m's activations. Both grow from layer to layer, and memory for the larger of them serves both. The
// weights of consecutive layers are adjacent in the flat buffers, see parallel/param.h. Gaps between them must stay
// zero, so nothing is lent if there are any.
#include "step/internal.h"
#include "step/pipeline.h"

static const struct stack *only_stack(const struct step_chunk *chunk) {
    return chunk->model.form == CONFIG_BERT ? &chunk->model.encoder : &chunk->model.decoder;
}

static const size_t *marks_of(const struct step_chunk *chunk) {
    const struct model_flight *flight = &chunk->flights[0].model;
    return chunk->model.form == CONFIG_BERT ? flight->encoder.marks : flight->decoder.marks;
}

// Whether all groups are divided alike; not if experts are spread over ranks.
static bool are_divided_alike(const struct param_list *params) {
    bool are_alike = true;
    for (int i = 1; i < params->group_count; i++)
        are_alike &= params->groups[i].replicas == params->groups[0].replicas &&
                     params->groups[i].slices == params->groups[0].slices;
    return are_alike;
}

// Requires one micro-batch per step, a single stack with all its layers on this rank, and activations that stay until
// they are used.
static bool is_possible(const struct step *step) {
    const struct step_chunk *chunk = &step->chunks[0];
    return step->mode == STEP_TRAIN && are_divided_alike(&step->params) && step->mesh.length[AXIS_PIPELINE] == 1 &&
           step->chunk_count == 1 && step->options.schedule.micro_batches == 1 && !step->options.grows &&
           chunk->model.form != CONFIG_T5 && chunk->model.form != CONFIG_ICT &&
           chunk->model.choices.recomputed_layers == 0 && !chunk->grows_backward;
}

static int64_t first_element(const struct stack *stack) {
    return block_first_matrix(&stack->blocks[0])->offset;
}

// End of the weights of the last layer.
static int64_t end_element(const struct stack *stack) {
    const struct param *last = block_last_matrix(&stack->blocks[stack->L - 1]);
    return last->offset + shard_local_count(&last->shard);
}

// With Muon the matrices of all layers are a separate group.
static bool is_one_group(const struct stack *stack) {
    return block_first_matrix(&stack->blocks[0])->group == block_last_matrix(&stack->blocks[stack->L - 1])->group;
}

static bool has_gaps(const struct param_list *params, int64_t first, int64_t end) {
    int64_t count = 0;
    for (int i = 0; i < params->count; i++)
        if (params->items[i]->offset >= first && params->items[i]->offset < end)
            count += shard_local_count(&params->items[i]->shard);
    return count != end - first;
}

static size_t align(size_t bytes) {
    return (bytes + ARENA_ALIGNMENT - 1) / ARENA_ALIGNMENT * ARENA_ALIGNMENT;
}

// Offset of the gradients of layer m in the lent memory.
static size_t place_of(const struct stack *stack, int64_t m) {
    return sizeof(float) * (size_t)(block_first_matrix(&stack->blocks[m])->offset - first_element(stack));
}

// Whether activations up to `peak` fit, and are used up before the gradients of each layer overwrite them.
static bool is_safe(const struct step_chunk *chunk, const struct step_borrow *borrow, size_t peak) {
    const struct stack *stack = only_stack(chunk);
    bool is_safe = peak <= borrow->border + borrow->room;
    for (int64_t m = 0; m < stack->L; m++) {
        size_t height = borrow->border + place_of(stack, m);
        is_safe &= height >= peak || height >= marks_of(chunk)[m + 1];
    }
    return is_safe;
}

// The lowest border with enough room that is safe.
static size_t lowest_border(const struct step_chunk *chunk, size_t peak, size_t room) {
    const struct stack *stack = only_stack(chunk);
    size_t border = peak > room ? peak - room : ARENA_ALIGNMENT;
    for (int64_t m = 0; m < stack->L; m++) {
        size_t place = place_of(stack, m), end = marks_of(chunk)[m + 1];
        if (border + place < peak && border + place < end)
            border = end - place;
    }
    return align(border);
}

// A block that would cross the border is moved beyond it, which raises all later blocks. If they then do not fit or are
// too high, the border is placed after that block instead, which moves nothing.
struct step_borrow borrow_find(const struct step *step, size_t peak) {
    const struct step_chunk *chunk = &step->chunks[0];
    struct step_borrow borrow = step->borrow;
    if (!is_possible(step))
        return (struct step_borrow){0};
    if (borrow.border > 0 && is_safe(chunk, &borrow, peak))
        return borrow;
    if (borrow.border > 0) {
        borrow.border = chunk->flights[0].activations.crossing;
    } else {
        const struct stack *stack = only_stack(chunk);
        int64_t first = first_element(stack), end = end_element(stack);
        if (!is_one_group(stack) || has_gaps(&step->params, first, end))
            return (struct step_borrow){0};
        borrow = (struct step_borrow){.peak = peak, .room = sizeof(float) * (size_t)(end - first), .first = first};
        borrow.border = lowest_border(chunk, peak, borrow.room);
    }
    return borrow.border < borrow.peak ? borrow : (struct step_borrow){0};
}

struct step_borrow borrow_raise(const struct step *step, struct step_borrow borrow, size_t peak) {
    bool is_known = step->borrow.border == 0 || step->borrow.border == borrow.border;
    if (borrow.border > 0 && is_known && peak > borrow.border + borrow.room)
        borrow.border = align(peak - borrow.room);
    return borrow.border < borrow.peak ? borrow : (struct step_borrow){0};
}

void borrow_apply(const struct step *step, struct arena *activations) {
    const struct step_borrow *borrow = &step->borrow;
    void *lent = (float *)step->grads.data + borrow->first;
    if (borrow->border > 0)
        arena_set_border(activations, borrow->border, borrow->is_trial ? activations->base + borrow->border : lent);
}
