// Reports the result of a search, as text and for programs.
#ifndef PLAN_SEARCH_REPORT_H
#define PLAN_SEARCH_REPORT_H

#include "plan/search.h"

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
