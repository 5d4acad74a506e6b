// A sublayer of a block behind one interface: a kind of attention or a kind of MLP. A block is a list of sublayers, and
// which kinds a layer has is a value (struct layer_choices). A new kind is a file with a table below.
//
// The layer of a kind is a struct that begins with a struct sublayer. What a kind saves of a micro-batch is another
// struct of its own; keys and values that attention keeps while it generates text belong to that, too. Sublayers leave
// their last bias to the code that adds the result to the residual stream.
#ifndef MODEL_SUBLAYER_H
#define MODEL_SUBLAYER_H

#include "model/choices.h"

// Matrices of a group of parameters of their own (see parallel/param.h), in order of declaration, and one parameter of
// another such group.
struct sublayer_apart {
    const struct param *first, *last;
    const struct param *biases;
};

struct sublayer {
    const struct sublayer_kind *kind;
    struct norm norm;         // before it, or after the addition of its result
    struct norm output_norm;  // of its result
    // The matmul whose input is the result of the norm, and the one whose bias is added together with its result. No
    // matrix of the sublayer is declared before or after theirs.
    const struct linear *first, *last;
    const struct linear *second;  // another matmul with that input, or NULL
    struct sublayer_apart apart;  // zeroed if all are in the usual group; else `last` is the last of those
    int64_t dropout_layer;        // a number that keys its dropout masks
};

// Gradients of the results of the first matmul and, if there is one, of the second.
struct first_gradients {
    struct operand first, second;
    struct dropout jitter;  // the matmul read its input through this noise, see router_jitter; rate 0: none
};

struct sublayer_options {
    const struct choices *choices;
    const struct layer_choices *layer;
    int64_t layers;  // in the whole stack
    bool is_causal;
    // Numbers that key the dropout masks of this block and of its cross-attention, so that no two masks of a model are
    // equal.
    int64_t dropout_layer, cross_dropout_layer;
};

// Where a kind takes memory for what it keeps of earlier tokens while text is generated.
struct cache_options {
    struct arena *arena;
    enum dtype dtype;
    int64_t capacity;  // tokens of the one sequence, and rows of the memory
};

struct sublayer_kind {
    const char *name, *pre_norm, *post_norm;  // of its parameters, and of those of the norm before or after it
    enum dropout_place dropout_place;         // of its result
    size_t bytes, saved_bytes;                // of its layer, and of what it saves
    // Declares the parameters; sets all of the sublayer but its kind and norm.
    void (*build)(struct sublayer *sublayer, struct param_list *params, const char *name,
                  const struct sublayer_options *options);
    // delta (N, C) = sublayer(x) without the last bias.
    void (*forward)(const struct sublayer *sublayer, const struct pass *pass, void *saved, struct tensor delta,
                    struct operand x);
    // dx (N, C) from ddelta, and all weight gradients but those of the first and the second matmul, which the caller
    // computes: the norm may have to compute x again. What is returned is in scratch that the caller releases.
    struct first_gradients (*backward)(const struct sublayer *sublayer, const struct pass *pass, const void *saved,
                                       struct tensor dx, struct tensor ddelta);
    // Takes memory for results that stay while the rest of the block is recomputed (pass->holds_attention); or NULL.
    void (*hold)(const struct sublayer *sublayer, const struct pass *pass, void *saved);
    void (*take_cache)(const struct sublayer *sublayer, void *saved, const struct cache_options *options);  // or NULL
};

// Every stage of a pipeline declares the same groups of parameters in the same order: before its layers are built.
void experts_declare_groups(struct param_list *params, const struct choices *choices);

// x (N, C) through the noise of a router, in scratch.
struct tensor router_jitter(const struct pass *pass, const struct dropout *jitter, struct tensor x);

extern const struct sublayer_kind sublayer_self_attention, sublayer_latent_attention, sublayer_cross_attention,
    sublayer_mlp, sublayer_gated_mlp, sublayer_experts;

#endif
