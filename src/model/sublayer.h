// A sublayer of a block behind one interface: a kind of attention or a kind of MLP. A block is a list of sublayers;
// struct layer_choices lists the kinds of a layer. A new kind is a file with a table below.
//
// The layer of a kind is a struct that begins with a struct sublayer. Another struct of the kind holds the saved
// activations of a micro-batch and, in attention, the cache for generation. Sublayers leave their last bias to the code
// that adds the result to the residual stream.
#ifndef MODEL_SUBLAYER_H
#define MODEL_SUBLAYER_H

#include "model/choices.h"

// Matrices in a separate parameter group (parallel/param.h), in order of declaration, and one parameter of another such
// group.
struct sublayer_apart {
    const struct param *first, *last;
    const struct param *biases;
};

struct sublayer {
    const struct sublayer_kind *kind;
    struct norm norm;         // before it, or after the addition of its result
    struct norm output_norm;  // of its result
    // The matmul that reads the norm's result, and the one whose bias is added together with its result. They are the
    // first and last declared matrices of the sublayer.
    const struct linear *first, *last;
    const struct linear *second;  // another matmul with that input, or NULL
    struct sublayer_apart apart;  // zeroed if all are in the usual group; else `last` is the last of that group
    int64_t dropout_layer;        // a number that keys its dropout masks
};

// Gradients of the results of the first matmul and, if there is one, of the second.
struct first_gradients {
    struct operand first, second;
    struct dropout jitter;  // noise on the matmul's input, see router_jitter; rate 0: none
};

struct sublayer_options {
    const struct choices *choices;
    const struct layer_choices *layer;
    int64_t layers;  // in the whole stack
    bool is_causal;
    // Keys of the dropout masks of this block and of its cross-attention, so that all masks of a model differ.
    int64_t dropout_layer, cross_dropout_layer;
};

// Where a kind takes memory for its cache of earlier tokens, for generation.
struct cache_options {
    struct arena *arena;
    enum dtype dtype;
    int64_t capacity;  // tokens of the one sequence, and rows of the memory
};

struct sublayer_kind {
    const char *name, *pre_norm, *post_norm;  // of its parameters, and of the norm's before or after it
    bool is_gated;                            // of MLPs, see mlp.c
    enum dropout_place dropout_place;         // of its result
    size_t bytes, saved_bytes;                // of its layer, and of its saved activations
    // Declares the parameters; sets all of the sublayer but its kind and norm.
    void (*build)(struct sublayer *sublayer, struct param_list *params, const char *name,
                  const struct sublayer_options *options);
    // delta (N, C) = sublayer(x) without the last bias.
    void (*forward)(const struct sublayer *sublayer, const struct pass *pass, void *saved, struct tensor delta,
                    struct operand x);
    // Computes dx (N, C) from ddelta, and all weight gradients but those of the first and second matmul, which the
    // caller computes: the norm may have to recompute x. The result is in scratch that the caller releases.
    struct first_gradients (*backward)(const struct sublayer *sublayer, const struct pass *pass, const void *saved,
                                       struct tensor dx, struct tensor ddelta);
    // Takes memory for results that stay while the rest of the block is recomputed (pass->holds_attention); or NULL.
    void (*hold)(const struct sublayer *sublayer, const struct pass *pass, void *saved);
    void (*take_cache)(const struct sublayer *sublayer, void *saved, const struct cache_options *options);  // or NULL
};

// Called by every pipeline stage before it builds layers, so that all have the same groups in the same order.
void experts_declare_groups(struct param_list *params, const struct choices *choices);

// x (N, C) through the noise of a router, in scratch.
struct tensor router_jitter(const struct pass *pass, const struct dropout *jitter, struct tensor x);

#endif
