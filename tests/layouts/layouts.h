// Every way to lay a small model out over up to eight ranks, and samples to train it with. The list of layouts is made
// by trying all values of the flags and asking the flags' own validation which combinations are legal.
#ifndef TESTS_LAYOUTS_H
#define TESTS_LAYOUTS_H

#include "config/config.h"
#include "step/step.h"

#include <stdio.h>

enum model_name { MODEL_GPT, MODEL_LLAMA, MODEL_BERT, MODEL_T5, MODEL_COUNT };
enum { MOST_RANKS = 8 };

// What a layout is made of: each axis has a value, which is an index or a size.
enum layout_axis {
    LAYOUT_MODEL,
    LAYOUT_TENSOR,
    LAYOUT_CONTEXT,
    LAYOUT_PIPELINE,
    LAYOUT_DATA,
    LAYOUT_SEQUENCE,   // 0 or 1
    LAYOUT_SCHEDULE,   // of a pipeline: see schedule_flags in list.c
    LAYOUT_OPTIMIZER,  // 0 whole, 1 divided
    LAYOUT_RECOMPUTE,  // see recompute_flags in list.c
    LAYOUT_AXES
};
struct layout {
    int value[LAYOUT_AXES];
    int ranks;
    bool overlaps;      // communication under computation: every second layout
    bool is_in_sample;  // of the sample that covers all pairs of values
};
struct layout_list {
    struct layout *items;
    int count;
};

const char *model_text(enum model_name model);
// All legal layouts of all models. -1 where the flags of a model by itself are not even legal.
int layouts_make(struct layout_list *list);
void layouts_free(struct layout_list *list);
// One layout a line, in numbers.
void layouts_write(const struct layout_list *list, FILE *file);
int layouts_read(struct layout_list *list, FILE *file);
// "gpt, 8 ranks: tensor 2, pipeline 2 interleaved, …".
void layout_describe(const struct layout *layout, char *text, size_t size);
// The configuration of a layout, or of one rank with its global batch; `more` are further flags. -1 where it is not
// legal, with the reason in error_message().
int layout_config(struct config *config, const struct layout *layout, bool is_alone, const char *more);

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

#endif
