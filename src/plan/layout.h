// A layout: how the ranks of a run share a model and its batch. A space is all layouts that the rules allow for a
// model, a batch and a number of GPUs. They all have the flags that the user gave.
#ifndef PLAN_LAYOUT_H
#define PLAN_LAYOUT_H

#include "config/config.h"
#include "plan/hardware.h"

enum layout_recompute { LAYOUT_KEEP, LAYOUT_SELECTIVE, LAYOUT_BLOCK, LAYOUT_FULL };
enum layout_optimizer { LAYOUT_WHOLE, LAYOUT_SHARDED, LAYOUT_OVERLAPPED };
enum layout_precision { LAYOUT_FP32, LAYOUT_BF16, LAYOUT_FP16, LAYOUT_FP8 };

struct plan_layout {
    int tensor, context, pipeline;
    int head_ranks;       // of `context`, neighbours that exchange heads; 1: none, all gather keys and values
    int data;             // replicas of the layers
    int expert;           // of `data`, those that share out the experts
    int chunks;           // chunks of layers per rank, 1: no virtual stages
    bool is_zero_bubble;  // else 1F1B or, with chunks, interleaved
    int ends;             // bit 0: the embedding counts as a layer of the first stage; bit 1: the loss of the last
    int64_t micro_batch;
    enum layout_recompute recompute;
    int64_t recomputed_layers;  // per chunk, with LAYOUT_BLOCK
    bool splits_rows;           // sequence parallelism
    enum layout_optimizer optimizer;
    enum layout_precision precision;
};

// The searched choices. A user's flag fixes its choice.
enum layout_choice {
    CHOICE_TENSOR,
    CHOICE_CONTEXT,
    CHOICE_HEADS,  // --cp-comm-type
    CHOICE_EXPERT,
    CHOICE_PIPELINE,
    CHOICE_CHUNKS,
    CHOICE_ENDS,
    CHOICE_MICRO_BATCH,
    CHOICE_RECOMPUTE,
    CHOICE_ROWS,
    CHOICE_OPTIMIZER,
    CHOICE_PRECISION,
    CHOICE_COUNT,
};

struct layout_space {
    const struct config *base;   // the user's, presets applied
    const struct config *model;  // the base, validated for one copy of the model; its padded vocabulary size is set
    const struct machine *machine;
    const struct hardware *hardware;
    struct comm_fabric fabric;
    int gpus;
    bool is_fixed[CHOICE_COUNT];
    struct plan_layout given;  // the fixed choices
};

void layout_space_open(struct layout_space *space, const struct config *base);
// Calls `take` with every layout that the rules allow. All the rules: sizes divide; tensor parallelism stays inside the
// NVLink domain; the ranks that share out experts are a power of two; context-parallel ranks keep 2048 tokens or more;
// micro-batches are powers of two of up to 64k tokens; full micro-batch groups for virtual stages; sequence parallelism
// and a sharded, overlapped optimizer wherever possible (layout_neighbours has the others). They exchange no heads:
// layout_heads lists the other ways, for the taker to choose.
typedef void layout_taker(void *context, const struct plan_layout *layout);
void layout_list(const struct layout_space *space, layout_taker *take, void *context);
// Calls `take` with the layout for every number of ranks that may exchange heads, 1 first; only with its own number if
// flags fix it.
void layout_heads(const struct layout_space *space, const struct plan_layout *layout, layout_taker *take,
                  void *context);
// Calls `take` with the layouts that differ in one choice, within fixed choices and all rules of sizes.
void layout_neighbours(const struct layout_space *space, const struct plan_layout *layout, layout_taker *take,
                       void *context);
bool layout_is_same(const struct plan_layout *a, const struct plan_layout *b);
// Whether b cannot fit if a does not: a differs only by smaller batches or more recompute.
bool layout_needs_less(const struct plan_layout *a, const struct plan_layout *b);

// The flags of a layout, without fixed ones.
struct layout_flag {
    const char *name;
    char value[24];  // "" for a switch
};
enum { LAYOUT_MOST_FLAGS = 24 };
int layout_flags(const struct layout_space *space, const struct plan_layout *layout, struct layout_flag *flags);
void layout_append_flags(const struct layout_space *space, const struct plan_layout *layout, struct buffer *out);
// Makes a copy of the base with these flags, to be freed in every case; -1 if it is not valid for this number of ranks.
int layout_configure(const struct layout_space *space, const struct plan_layout *layout, struct config *config);

// The --cp-comm-type of a layout, if no flag fixes it.
const char *layout_heads_name(const struct plan_layout *layout);
const char *layout_recompute_name(enum layout_recompute recompute);
const char *layout_optimizer_name(enum layout_optimizer optimizer);
const char *layout_precision_name(enum layout_precision precision);

#endif
