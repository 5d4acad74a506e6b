// Attention over sequences that several ranks share (context parallelism). Each rank has the queries, keys and values
// of its own strips. The keys and values of all ranks are gathered and put in the order of the sequence, and each strip
// of queries attends to those it may see. The gradients of keys and values are summed and returned to their owners.
// Gathered keys are not kept: the backward pass gathers them again, so a rank only keeps its own share.
//
// If a rank holds its sequences alone, there is one strip and nothing is gathered. attention.h has the other way to
// share sequences.
#ifndef MODEL_CONTEXT_H
#define MODEL_CONTEXT_H

#include "model/layer.h"

// The queries of one strip: rows [first_row, first_row + B T) of a pass, T of each sequence. `end` is the number of
// tokens of the sequence up to and including its last query, counting those in a cache.
struct strip {
    int64_t first_row, B, T, end;
};
struct strip pass_strip(const struct pass *pass, int which);
int pass_strips(const struct pass *pass);
// The strip's rows of a tensor with one row per row of the pass.
struct tensor strip_rows(const struct strip *strip, struct tensor x);
// The length of a whole sequence of which each rank has T tokens.
int64_t pass_whole_length(const struct pass *pass, int64_t T);

// The keys and values of all ranks that share the sequence, possibly still being gathered.
struct gathered {
    struct tensor kv;     // (B whole T, …): in sequence order; the last columns are keys and values
    struct tensor parts;  // (B whole T, W): in rank order
    struct comm_request request;
    bool is_in_order;
};
// Starts to gather. The last W columns of `packed` (B T, …) are this rank's keys and values. The memory comes from
// scratch and must stay while the keys are used.
struct gathered context_gather_start(const struct pass *pass, struct tensor packed, int64_t W);
// The gathered keys and values; the first call waits for them. Returns `packed` itself if nothing is shared.
struct tensor context_gathered(const struct pass *pass, struct gathered *gathered);

// context_gather_rows returns the rows (B whole T, W) of all ranks that share the sequences, in sequence order, from
// this rank's (B T, W); the other function is its inverse. Results are in scratch, or x itself if nothing is shared.
struct tensor context_gather_rows(const struct pass *pass, struct tensor x, const char *name);
struct tensor context_own_rows(const struct pass *pass, struct tensor x);

// Reorder the rows of neighbouring ranks, all or some, between rank order, (ranks, strips, B, T / strips, W), and the
// order on a rank that holds them all: sequence order, (B, whole T, W), for all ranks; (strips, B, ranks T / strips, W)
// for fewer.
void context_put_in_order(const struct pass *pass, int ranks, struct tensor ordered, struct tensor parts);
void context_put_by_rank(const struct pass *pass, int ranks, struct tensor parts, struct tensor ordered);

// Tensor for a strip's gradients of the keys and values of the first `keys` tokens: scratch memory (B keys, W), or
// dpacked (B T, …) itself if nothing is shared.
struct tensor context_gradient(const struct pass *pass, struct tensor dpacked, int64_t keys, int64_t W);
// Sets the last W columns of dpacked to the gradients for this rank's tokens, summed over all strips of all ranks.
void context_scatter(const struct pass *pass, struct tensor dpacked, int64_t W,
                     const struct tensor parts[CONTEXT_MOST_STRIPS]);

#endif
