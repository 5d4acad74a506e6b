// Finds the layouts with which a run is fastest or cheapest. Layouts that the rules of layout.h allow are ordered by an
// estimate; the promising ones and the neighbours of the best are planned, and the plans decide.
#ifndef PLAN_SEARCH_H
#define PLAN_SEARCH_H

#include "model/census.h"
#include "plan/layout.h"
#include "plan/plan.h"

// ---- guesses of the time of a step ----

// A guess of a layout's step time, computed in a microsecond, which decides the order of planning and which layouts are
// not worth a plan; and a lower bound on the layout's memory.

struct estimator {
    const struct layout_space *space;
    struct census census;
    double parameters, of_experts;
};
void estimator_open(struct estimator *estimator, const struct layout_space *space);
double estimate_seconds(const struct estimator *estimator, const struct plan_layout *layout);
// Weights, gradients and optimizer state of an average rank.
double estimate_state_bytes(const struct estimator *estimator, const struct plan_layout *layout);
// These and activations, a fifth less than in plans: a lower bound for the fullest rank.
double estimate_least_bytes(const struct estimator *estimator, const struct plan_layout *layout);

// ---- the search ----

enum { SEARCH_MOST_MACHINES = 8, SEARCH_PROPOSALS = 5, SEARCH_MOST_PROPOSALS = 12 };

struct search_options {
    const struct config *base;  // the user's flags, presets applied, with a global batch size
    const char *family;         // --model as given, which presets replace
    const struct machine *machines[SEARCH_MOST_MACHINES];
    const struct hardware *hardware[SEARCH_MOST_MACHINES];
    int machine_count;
    int gpus;
    bool by_cost;
    // Sets its vocabulary, on a machine that may not have its tokenizer: see train/dry_run.h.
    int (*set_vocabulary)(struct config *config, const char **assumed_for);
    int children;    // processes that plan; the result does not depend on it
    bool plans_all;  // plans all listed layouts, also those that others or estimates rule out
    void (*watch)(void *context, int planned, int listed);
    void *context;
};

enum search_outcome { SEARCH_NEW, SEARCH_PLANNED, SEARCH_TOO_LARGE, SEARCH_INVALID };

struct search_item {
    struct plan_layout layout;
    int machine;      // index in the options
    double estimate;  // seconds or dollars
    enum search_outcome outcome;
    struct plan *plan;  // NULL if it is new or invalid; without seconds if it is too large
};

struct layout_search {
    struct search_options options;
    struct config model;
    struct layout_space spaces[SEARCH_MOST_MACHINES];
    struct estimator estimators[SEARCH_MOST_MACHINES];
    struct search_item *items;
    int count, capacity;
    int hopeless;        // layouts not listed because a formula shows them to be too large
    double least_bytes;  // least bytes that any layout needs, as far as known
    double work;         // work left
    int proposals[SEARCH_MOST_PROPOSALS], proposal_count;  // items, the best first
};

// -1 if the flags contradict each other or no layout fits; search_close must follow in every case.
int search_open(struct layout_search *search, const struct search_options *options);
void search_close(struct layout_search *search);

// The value that ranks a plan: seconds or dollars per step.
double search_value(const struct layout_search *search, const struct search_item *item);
const struct machine *search_machine(const struct layout_search *search, const struct search_item *item);
// Bytes of a GPU available to a proposal: less than to a plan, because communicators have buffers.
double search_room(const struct layout_search *search, int machine);
// The item with a layout; -1 if it is not listed.
int search_find(const struct layout_search *search, const struct plan_layout *layout, int machine);
int search_count(const struct layout_search *search, enum search_outcome outcome);

// ---- the result, as text and for programs ----

void search_describe(const struct layout_search *search, double tokens, struct buffer *out);
void search_write_json(const struct layout_search *search, double tokens, struct buffer *out);
// Writes a JSON object about proposal i.
void search_write_proposal(const struct layout_search *search, int i, double tokens, struct json_writer *w);
// The best layout as a file for --config: the user's flags and the found ones.
void search_write_config(const struct layout_search *search, struct buffer *out);

// ---- why one plan is better than another ----

// Sentences that say why one plan is better than another. Internal to this folder.

// "3.9 % faster than NAME: 150 ms less waiting for tensor parallelism". A slower one is better if it has fewer axes;
// then both have the same machine and precision.
void search_why_better(const struct layout_search *search, const struct search_item *better,
                       const struct search_item *worse, const char *name, struct buffer *out);
// "+3.9 %: 150 ms more waiting for tensor parallelism", or by how much it does not fit.
void search_why_worse(const struct layout_search *search, const struct search_item *worse,
                      const struct search_item *best, struct buffer *out);
// "TP 4, DP 8": the choices of b that differ from a's.
void search_difference(const struct plan_layout *a, const struct plan_layout *b, struct buffer *out);

// The obvious alternatives to the best layout: up to `most` items that differ from it in one choice, the best first,
// those that do not fit last. Returns their number.
int search_alternatives(const struct layout_search *search, int *items, int most);

#endif
