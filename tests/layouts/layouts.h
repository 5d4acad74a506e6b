// Every way to lay a small model out over up to eight ranks, and samples to train it with. The list of layouts is made
// by trying all values of the flags and asking the flags' own validation which combinations are legal.
#ifndef TESTS_LAYOUTS_H
#define TESTS_LAYOUTS_H

#include "config/config.h"
#include "step/step.h"

#include <stdio.h>

enum model_name { MODEL_GPT, MODEL_LLAMA, MODEL_BERT, MODEL_T5, MODEL_COUNT };
enum { MOST_RANKS = 8, STEPS = 20 };
enum { RECOMPUTE_NONE, RECOMPUTE_SELECTIVE, RECOMPUTE_FULL };
enum { METHOD_USUAL, METHOD_MORE, METHOD_BLOCK };  // the last: of whole layers

// What a layout is made of: each axis has a value, which is an index or a size. The list has the whole product of the
// axes before LAYOUT_PAIRED. Those from there on would make it a hundred times as long: each layout has one value of
// each, so chosen that every pair of values that can stand together does so in some layout, and most triples do.
// Layouts are all in fp32; those that cover all pairs are there once more in bf16 and once more in fp16.
enum layout_axis {
    LAYOUT_MODEL,
    LAYOUT_TENSOR,
    LAYOUT_CONTEXT,
    LAYOUT_PIPELINE,
    LAYOUT_DATA,
    LAYOUT_SEQUENCE,   // 0 or 1
    LAYOUT_SCHEDULE,   // of a pipeline, with its chunks: see schedule_flags in axes.c
    LAYOUT_OPTIMIZER,  // 0 whole, 1 divided
    LAYOUT_RECOMPUTE,  // nothing, parts of layers, whole layers
    LAYOUT_PAIRED,
    LAYOUT_STAGES = LAYOUT_PAIRED,  // 0 even, 1 and 2 two kinds of uneven
    LAYOUT_BATCH,                   // how many micro-batches, see micro_batches() in axes.c
    LAYOUT_OVERLAP,                 // 0 nothing, 1 sums of gradients, 2 those and the gathering of values
    LAYOUT_METHOD,                  // which parts or layers are recomputed: see method_flags in axes.c
    LAYOUT_SAVED,                   // 1: their inputs are divided over the ranks that share layers
    LAYOUT_DTYPE,                   // 0 fp32, 1 bf16, 2 fp16
    LAYOUT_AXES
};
struct layout {
    int value[LAYOUT_AXES];
    int ranks;
    int number;         // in the list, from 1
    bool is_in_sample;  // of the sample that covers all pairs of values
};
struct layout_list {
    struct layout *items;
    int count;
};

// How many values an axis that is not a size has.
int layout_values(enum layout_axis axis);
// Whether some value says nothing beside the others: one rank divides nothing, one stage has no schedule.
bool layout_is_idle(const struct layout *layout);
// "gpt, 8 ranks: tensor 2, pipeline 2 interleaved, …".
void layout_describe(const struct layout *layout, char *text, size_t size);
int64_t layout_global_batch(const struct layout *layout);
int64_t layout_micro_batch(const struct layout *layout);  // samples of one
// Roughly how long a layout takes, in some unit.
int64_t layout_cost(const struct layout *layout);
// The configuration of a layout; `more` are further flags. -1 if it is not legal, with the reason in
// error_message().
int layout_config(struct config *config, const struct layout *layout, const char *more);

// All legal layouts of all models. -1 if the flags of a model by itself are not even legal.
int layouts_make(struct layout_list *list);
void layouts_free(struct layout_list *list);
// One layout a line, in numbers.
void layouts_write(const struct layout_list *list, FILE *file);
int layouts_read(struct layout_list *list, FILE *file);

// Hands out the micro-batches of one data-parallel rank: tokens that follow from a sample's number alone.
struct samples {
    const struct config *config;
    int data_rank, data_ranks;
    int64_t first;  // sample of the step
    int64_t next;   // micro-batch of this rank
    struct step_input input;
};
void samples_open(struct samples *samples, const struct config *config, int data_rank, int data_ranks);
void samples_close(struct samples *samples);
// The source of one step; it begins where the last one ended.
struct step_source samples_step(struct samples *samples);

// The losses and the gradients' norms of a run.
struct history {
    double loss[STEPS], pair_loss[STEPS], norm[STEPS];
};
// Trains a step that was just initialized.
int train(struct step *step, struct history *history);

// What one rank gives: made once, for all layouts that have its model, dtype and batches. (A micro-batch's loss is the
// mean of its tokens', and a batch's that of its micro-batches', so their size is part of what is computed.)
struct reference {
    int model, dtype;
    int64_t global_batch, micro_batch;
    struct history history;
    float *values;  // of the flat buffer
};
int reference_config(struct config *config, const struct reference *reference, const char *more);
// All of a call, and where each parameter lies in the flat buffers.
struct references {
    struct reference *items;
    int count;
    struct config configs[MODEL_COUNT];
    struct step *steps[MODEL_COUNT];  // of one rank in fp32, for the names and places of parameters; NULL if not needed
    struct world *world;              // of that rank
};
// Who makes them and with what. What is found in the folder is taken from there, and what was trained goes there; NULL:
// nowhere.
struct reference_makers {
    struct world *world;
    struct device *device;
    const char *more, *folder;
};
// Those of all layouts of a list that have as many ranks as the world; ranks divide the work.
int references_make(struct references *references, const struct layout_list *list, const struct reference_makers *by);
void references_free(struct references *references);
const struct reference *reference_find(const struct references *references, const struct layout *layout, int dtype);
// Where a parameter's values begin in a reference's.
int64_t reference_offset(const struct references *references, int model, const char *name);

// The largest differences between two runs, relative.
struct difference {
    double loss, norm;
    double weights;   // of any tensor: the difference's length by the tensor's
    double elements;  // of any weight: by the largest one of its tensor
    char worst[128];  // the tensor of `weights`
};
// What this rank holds after a run against what one rank has.
struct difference compare_run(const struct step *step, const struct history *history, const struct reference *alone,
                              const struct references *references);
// Two references of the same model and batch.
struct difference compare_references(const struct reference *a, const struct reference *b,
                                     const struct references *references);

#endif
