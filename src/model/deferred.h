// Weight gradients that are computed later. The stage before waits only for the gradient of a backward pass's input;
// the weight gradients can be computed whenever there is time (zero-bubble schedules). Until then, the operands of
// their matmuls are kept: the input and the gradient of the output, copied if they are in memory that is reused before.
#ifndef MODEL_DEFERRED_H
#define MODEL_DEFERRED_H

#include "model/layer.h"

struct deferred_matmul {
    void (*compute)(const struct deferred_matmul *matmul, const struct pass *pass);
    const void *layer;      // a struct linear or a struct grouped
    struct operand dy, x;   // (N, out), (N, in), as linear_weight_matmul or grouped_weight_matmul takes them
    struct tensor offsets;  // (E + 1) i32, of experts
    int64_t room;           // rows to take memory for, if other passes may have more; else 0
};

struct deferred {
    struct arena arena;  // memory for what is kept
    bool copies_inputs;  // inputs are recomputed activations, whose memory is reused earlier
    struct deferred_matmul *items;
    int count, capacity;
    bool is_used;  // a micro-batch is between the two halves of its backward
};

// Allocates room for this many matmuls.
void deferred_reserve(struct deferred *deferred, int count);
void deferred_free(struct deferred *deferred);
void deferred_add(struct deferred *deferred, const struct pass *pass, const struct deferred_matmul *matmul);
// Computes all matmuls in order and forgets them; the object is free for another micro-batch.
void deferred_run(struct deferred *deferred, const struct pass *pass);

#endif
