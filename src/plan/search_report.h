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

#endif
