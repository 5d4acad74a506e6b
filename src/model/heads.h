// Attention over sequences that several ranks share, with heads in exchange for tokens (context parallelism by
// all-to-all; DeepSpeed-Ulysses, Jacobs et al. 2023). Before attention each rank sends the other ranks their heads of
// its own tokens, and receives its own heads of all tokens; afterwards results go back the same way. In between a rank
// has whole sequences and 1 / ranks of the heads, as if it held its sequences alone.
//
// Alternatively only neighbouring ranks exchange heads, e.g. those of a machine. In between, each has the neighbours'
// tokens and 1 / neighbours of the heads, as if fewer ranks shared the sequences: it gathers the keys and values of its
// heads from the ranks in its position in other groups of neighbours, see context.h.
//
// A rank sends and receives (ranks - 1) / ranks of its queries, keys, values and results in the forward pass, and as
// much again in the backward pass: less than gathering keys and values if there are many ranks.
#ifndef MODEL_HEADS_H
#define MODEL_HEADS_H

#include "model/attention.h"
#include "model/context.h"

// The layer and the pass as this rank sees them between the two exchanges. The members point at each other: do not copy
// it.
struct heads {
    struct attention attention;
    struct pass pass;
    struct mesh mesh;
    struct device_batch batch;
    struct param sinks;
    const struct pass *outer;  // the pass of the layer
    int ranks;                 // that exchange heads
    struct group *group;       // the group of these ranks
};
// Whether this layer exchanges heads in this pass.
bool heads_are_exchanged(const struct attention *attention, const struct pass *pass);
void heads_open(struct heads *heads, const struct attention *attention, const struct pass *pass);

// Columns of heads side by side: an equal part of the columns is an equal part of the heads.
enum { HEADS_MOST_SEGMENTS = 3 };
struct head_columns {
    struct tensor segments[HEADS_MOST_SEGMENTS];  // (N, …) views of this rank's rows; a zeroed one is the end
};
struct head_columns heads_columns(const struct attention *attention, const struct attention_input *input);
// heads_take: all (ranks N, W / ranks) = this rank's part of the columns for all these ranks' tokens, by segment, in
// the order of rows of heads.pass. heads_return sends it back to the owners of the tokens, who get all ranks' parts.
void heads_take(const struct heads *heads, struct tensor all, const struct head_columns *columns, const char *name);
void heads_return(const struct heads *heads, const struct head_columns *columns, struct tensor all, const char *name);

#endif
