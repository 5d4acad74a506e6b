// Code shared by all kinds of attention: attention over packed projections of queries, keys and values, and the matmul
// after it. Queries are processed strip by strip (context.h), or ranks exchange heads (see below).
//
// A packed tensor has one row per token. Queries are the first columns of their tensor; keys, then values, are the last
// columns of theirs. Each is therefore a view with regular strides, and both tensors may be the same.
#ifndef MODEL_ATTENTION_H
#define MODEL_ATTENTION_H

#include "model/context.h"
#include "model/sublayer.h"

struct attention {
    struct sublayer sublayer;
    struct linear proj;   // (C, H V)
    int64_t H, G, D, V;   // heads of this rank; head sizes: of queries and keys, of values
    int first_head;       // the first head of this rank, among those of the whole layer
    int kv_ranks;         // ranks that share its only head of keys and values, see below; else 1
    float scale, cap;     // of scores; cap: 0 for none
    int64_t alibi_heads;  // with ALiBi: the heads of the whole layer; else 0
    float alibi_scale;    // of its slopes
    struct param *sinks;  // (H), or NULL
    bool is_causal, is_recomputed;
    bool recomputes_input;  // projections are not kept: the caller of the backward pass recomputes them
    int head_ranks;         // neighbouring ranks that exchange heads; 1 or 0: no exchange
    int64_t window;
    double dropout;
    struct qk_clip *clip;  // NULL: scores are not clipped
    int64_t clip_layer;    // its number there
};
// First member of the struct that each kind saves.
struct attention_saved {
    struct tensor out;  // (N, H V); none if it is recomputed
    struct tensor lse;  // (B, H, T) fp32; none if it is recomputed
    // Results held while the group of blocks is recomputed, taken before its other memory, which is released: (N, H V),
    // (B, H, T); with exchanged heads (B near T, H' V), (B, H', near T).
    struct tensor held_out, held_lse;
    // Input and result of attention with exchanged heads: H', G' per rank, over the near T tokens per sequence of all
    // exchanging ranks. Both none if recomputed; the input also none if the projections are.
    struct tensor heads, heads_out;  // (B near T, H' D + G' D + G' V), (B near T, H' V)
    struct tensor cache;             // (capacity, …): for generation: keys and values, or what they are computed from
};
// Packed projections of a pass.
struct attention_input {
    struct tensor q;   // (N, … H D …): the queries of this rank
    struct tensor kv;  // (M, … G D + G V): the keys and values of this rank
};

// Declares the last matmul and sets all but the sublayer's first and dropout_layer, which belong to the kind.
void attention_build(struct attention *attention, struct param_list *params, const char *name,
                     const struct sublayer_options *options);
// Options for the projections of any kind, except the shard.
struct linear_options attention_projection(const struct sublayer_options *options);
// With --qk-clip: attention_clip makes this layer record its largest scores. attention_clip_rows adds rows of a
// projection to be scaled by them, and sets layer and heads: all heads that share this rank's keys.
void attention_clip(struct attention *attention, const struct choices *choices);
void attention_clip_rows(const struct attention *attention, struct param *weight, const struct param_clip *rows);
// Columns [first, first + count size) of a packed (B * T, …) tensor as (B, T, count, size).
struct tensor attention_columns(struct tensor packed, int64_t B, int64_t first, int64_t count, int64_t size);
// Heads [first, first + count) of a packed (B * T, heads D) tensor as (B, T, count, D).
struct tensor attention_heads(const struct attention *attention, struct tensor packed, int64_t B, int64_t first,
                              int64_t count);
// Number of columns of this rank's keys and values.
int64_t attention_key_columns(const struct attention *attention);
// Arena for a kind's packed projections: scratch if the backward pass does not read them, because heads are exchanged
// or the projections are recomputed.
struct arena *attention_input_arena(const struct attention *attention, const struct pass *pass);
// Takes memory that keeps the result of attention until the recompute, which recomputes all but attention itself. It is
// small beside a block's activations, and attention is most of a long sequence's work.
void attention_hold(const struct sublayer *sublayer, const struct pass *pass, void *saved);
void attention_take_cache(const struct sublayer *sublayer, void *saved, const struct cache_options *options);

// delta (N, C) = attention over these projections, through the last matmul. The mask is in the pass.
void attention_forward(const struct attention *attention, const struct pass *pass, struct attention_saved *saved,
                       struct tensor delta, const struct attention_input *input);
// The gradients of the projections go to `gradient`, whose tensors have the shapes of the input's.
void attention_backward(const struct attention *attention, const struct pass *pass, const struct attention_saved *saved,
                        const struct attention_input *input, const struct attention_input *gradient,
                        struct tensor ddelta);

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

// ---- heads that ranks share ----

// Keys and values of heads that several ranks share, because there are more tensor-parallel ranks than such heads. If r
// neighbouring ranks share a head, each holds 1 / r of the channels' rows. No row of a projection is held twice, so
// weights, gradients, optimizer states and checkpoints need no special case. Each of the ranks attends with its own
// queries and the whole head: keys and values are gathered after the projection, and in backward their gradients are
// summed and split before it.
//
// Attention's packed tensor has queries (or nothing), then the keys and values of one head, 2 D columns. The slices
// have the queries and 2 D / r columns. If heads are not shared, both are the same tensor.

// The tensor of `columns` columns that a projection writes before key_slices_gather: in scratch, or `packed` itself.
struct tensor key_slices_of(const struct attention *attention, const struct pass *pass, struct tensor packed,
                            int64_t columns);
// Completes `packed` from the slices of all ranks that share the head.
void key_slices_gather(const struct attention *attention, const struct pass *pass, struct tensor packed,
                       struct tensor slices);
// The gradient of this rank's slices, of `columns` columns, from each rank's gradient of the whole head.
struct tensor key_slices_scatter(const struct attention *attention, const struct pass *pass, struct tensor dpacked,
                                 int64_t columns);

#endif
