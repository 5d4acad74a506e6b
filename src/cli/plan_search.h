// bevatron plan --search.
#ifndef CLI_PLAN_SEARCH_H
#define CLI_PLAN_SEARCH_H

#include "plan/search.h"

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

// The parts of it. Shows progress; layout_search is to be closed in every case.
int plan_search_open(const struct plan_search *options, struct layout_search *search);
// Prints the results, writes the file, closes the search and frees the text. Returns status, or the file's.
int plan_search_finish(const struct plan_search *options, struct layout_search *search, struct buffer *out, int status);

#endif
