// All layouts of a small model on up to eight ranks, and samples to train it with. The list of layouts is made by
// trying all values of the flags; the flags' own validation decides which combinations are legal.
#ifndef TESTS_LAYOUTS_H
#define TESTS_LAYOUTS_H

#include "config/config.h"
#include "plan/setup.h"

#include <stdio.h>

enum model_name { MODEL_GPT, MODEL_LLAMA, MODEL_BERT, MODEL_T5, MODEL_EXPERTS, MODEL_COUNT };
enum { MOST_RANKS = 8, STEPS = 20 };
enum { RECOMPUTE_NONE, RECOMPUTE_SELECTIVE, RECOMPUTE_FULL };
enum { HEADS_OF_NEIGHBOURS = 2 };
enum { METHOD_USUAL, METHOD_MORE, METHOD_BLOCK };  // the last: of whole layers

// The parts of a layout: each axis has a value, which is an index or a size. The list has the whole product of the axes
// before LAYOUT_PAIRED. Those from there on would make it a hundred times as long: each layout has one value of each,
// chosen so that every possible pair of values occurs in some layout, and most triples do. All layouts are in fp32;
// those that cover all pairs are repeated in bf16 and in fp16.
enum layout_axis {
    LAYOUT_MODEL,
    LAYOUT_TENSOR,
    LAYOUT_CONTEXT,
    LAYOUT_PIPELINE,
    LAYOUT_DATA,
    LAYOUT_EXPERT,     // how many ranks share out the experts
    LAYOUT_SLICES,     // how many tensor-parallel ranks split each
    LAYOUT_SEQUENCE,   // 0 or 1
    LAYOUT_SCHEDULE,   // of a pipeline, with its chunks: see schedule_flags in axes.c
    LAYOUT_OPTIMIZER,  // 0 whole, 1 distributed
    LAYOUT_RECOMPUTE,  // nothing, parts of layers, whole layers
    LAYOUT_PAIRED,
    LAYOUT_STAGES = LAYOUT_PAIRED,  // 0 even, 1 and 2 two kinds of uneven, 3 a list
    LAYOUT_BATCH,                   // how many micro-batches, see micro_batches() in axes.c
    LAYOUT_OVERLAP,                 // 0 nothing, 1 sums of gradients, 2 those and the gathering of values
    LAYOUT_METHOD,                  // which parts or layers are recomputed: see method_flags in axes.c
    LAYOUT_SAVED,                   // their inputs: 1 split over the ranks that share layers, 2 in host memory
    LAYOUT_HEADS,                   // ranks that share sequences: 1 exchange heads, 2 pairs of them do
    LAYOUT_DTYPE,                   // 0 fp32, 1 bf16, 2 fp16
    LAYOUT_AXES
};
struct layout {
    int value[LAYOUT_AXES];
    int ranks;
    int number;         // in the list, from 1
    bool is_in_sample;  // part of the sample that covers all pairs of values
};
struct layout_list {
    struct layout *items;
    int count;
};

// The number of values of an axis that is not a size.
int layout_values(enum layout_axis axis);
// Whether some value has no effect beside the others: one rank splits nothing, one stage has no schedule.
bool layout_is_idle(const struct layout *layout);
// "gpt, 8 ranks: tensor 2, pipeline 2 interleaved, …".
void layout_describe(const struct layout *layout, char *text, size_t size);
// Number of neighbouring ranks that exchange heads; 1 if none do.
int layout_head_ranks(const struct layout *layout);
int64_t layout_global_batch(const struct layout *layout);
int64_t layout_micro_batch(const struct layout *layout);  // samples per micro-batch
// Approximate time of a layout, in some unit.
int64_t layout_cost(const struct layout *layout);
// The configuration of a layout; `more` are additional flags. -1 if it is not legal, with the reason in
// error_message().
int layout_config(struct config *config, const struct layout *layout, const char *more);

// All legal layouts of all models. -1 if the flags of a model alone are not legal.
int layouts_make(struct layout_list *list);
void layouts_free(struct layout_list *list);
// One layout per line, as numbers.
void layouts_write(const struct layout_list *list, FILE *file);
int layouts_read(struct layout_list *list, FILE *file);

// Provides the micro-batches of one data-parallel rank: tokens that depend only on the number of the sample.
struct samples {
    const struct config *config;
    int data_rank, data_ranks;
    int64_t first;  // sample of the step
    int64_t next;   // micro-batch of this rank
    struct batch input;
};
void samples_open(struct samples *samples, const struct config *config, int data_rank, int data_ranks);
void samples_close(struct samples *samples);
// The source of one step; it continues where the last one ended.
struct step_source samples_step(struct samples *samples);

// The losses and gradient norms of a run.
struct loss_history {
    double loss[STEPS], norm[STEPS];
    double other_loss[STEPS];  // of the pair head, or the sum of those that balance experts
};
// Trains a step that was just initialized.
int train(struct step *step, const struct config *config, struct loss_history *history);

// The results of one rank: made once for all layouts with its model, dtype and batches. (A micro-batch's loss is the
// mean over its tokens, and a batch's the mean over its micro-batches, so their size affects the result.)
struct reference {
    int model, dtype;
    int64_t global_batch, micro_batch;
    struct loss_history history;
    float *values;  // of the flat buffer
};
int reference_config(struct config *config, const struct reference *reference, const char *more);
// All of a call, and the offset of each parameter in the flat buffers.
struct references {
    struct reference *items;
    int count;
    struct config configs[MODEL_COUNT];
    struct step *steps[MODEL_COUNT];  // of one rank in fp32, for names and offsets of parameters; NULL if not needed
    struct world *world;              // of that rank
};
// Which ranks make them and with what. Results found in the folder are loaded, and new ones are stored there; NULL:
// nowhere.
struct reference_makers {
    struct world *world;
    struct device *device;
    const char *more, *folder;
};
// Those of all layouts of a list with as many ranks as the world; ranks share the work.
int references_make(struct references *references, const struct layout_list *list, const struct reference_makers *by);
void references_free(struct references *references);
const struct reference *reference_find(const struct references *references, const struct layout *layout, int dtype);
// The offset of a parameter's values in a reference.
int64_t reference_offset(const struct references *references, int model, const char *name);

// The largest differences between two runs, relative.
struct difference {
    double loss, norm;
    double weights;   // of any rank's slice of a tensor: norm of the difference relative to that of the slice
    double elements;  // of any weight: relative to the largest one of its tensor
    char worst[128];  // the tensor of `weights`
};
// Compares what this rank holds after a run with one rank's result.
struct difference compare_run(const struct step *step, const struct loss_history *history,
                              const struct reference *alone, const struct references *references);
// Two references of the same model and batch, in the slices that this rank holds after a run.
struct difference compare_references(const struct step *step, const struct reference *a, const struct reference *b,
                                     const struct references *references);

#endif
