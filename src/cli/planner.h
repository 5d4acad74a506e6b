// The plan of a run that is about to start, for train/plan_comparison.h: its machine, and the planner's expectations
// there.
#ifndef CLI_PLANNER_H
#define CLI_PLANNER_H

#include "cluster/machine.h"
#include "plan/search.h"
#include "train/plan_comparison.h"

// The machine of a run.
struct run_machine {
    const struct machine *named;  // by --machine, or by the firmware of the machine itself; NULL if neither is known
    int local_ranks;              // on this machine
};

// The machine named by the firmware, e.g. EC2's; NULL if it names no known one.
const struct machine *planner_own_machine(void);
// A machine with this many GPUs of one kind, by a device's description ("GPU 0: NVIDIA H200, 140 GiB, …"); false if
// unknown. Its network is not known.
bool planner_machine_of(const char *description, int ranks, struct machine *found);
// `machine` must outlive the planner.
struct planner planner_open(const struct run_machine *machine);

// ---- plan --search and --budget ----

// bevatron plan --budget: the compute-optimal model and number of tokens for a budget, and their plan on a machine.

// bevatron plan --search.
enum { PLAN_MOST_RANKS = 1 << 24 };

struct plan_search {
    const struct config *base;  // presets applied, complete but for the layout
    const char *family;         // --model as given
    const struct machine *machines[SEARCH_MOST_MACHINES];
    const struct hardware *hardware[SEARCH_MOST_MACHINES];
    int machine_count;
    int64_t gpus, nodes;  // one of them; both 0: one machine
    bool by_cost, is_json;
    double tokens;
    const char *write;  // a file for the best layout, or NULL
};
int plan_search_run(const struct plan_search *options);

// Called before presets are applied: chooses the model and its batch, where flags do not, and sets them in the config
// as if they were given. The precision is one that all machines of the search have.
struct plan_budget_choice {
    struct config *config;
    double flops;
    double optimal;       // optimal parameters by the law; a shape comes close
    bool chooses_length;  // the length of training is not given
};
int plan_budget_choose(const struct plan_search *search, const char *budget, struct plan_budget_choice *choice);
// Searches a layout, sets the number of iterations from the remaining budget, and prints.
int plan_budget_run(struct plan_search *options, struct plan_budget_choice *choice);

#endif
