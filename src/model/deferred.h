// Products for the gradients of weights that are put off: of a backward pass only the gradient of its input is waited
// for, and the other half can be made whenever there is time (zero-bubble schedules). What a product needs is kept: the
// output's gradient and the input, where they would be gone with the scratch.
#ifndef MODEL_DEFERRED_H
#define MODEL_DEFERRED_H

#include "model/layer.h"

struct deferred_product {
    const struct linear *linear;
    struct tensor dy, x;  // (N, out), (N, in)
};

struct deferred {
    struct arena arena;  // what is kept
    bool copies_inputs;  // they lie in memory that is used again before: activations that are recomputed
    struct deferred_product *items;
    int count, capacity;
    bool is_used;  // a micro-batch is between the halves
};

// Room for so many products.
void deferred_reserve(struct deferred *deferred, int count);
void deferred_free(struct deferred *deferred);
void deferred_add(struct deferred *deferred, const struct pass *pass, const struct deferred_product *product);
// Makes all of them, in order, and forgets them; not used any more.
void deferred_run(struct deferred *deferred, const struct pass *pass);

#endif
