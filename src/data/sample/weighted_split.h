// Groups of datasets with parts of them, as BigScience's Megatron-DeepSpeed names its data:
//
//     NAME: WEIGHT START:END PREFIX, WEIGHT START:END PREFIX, …
//
// A dataset gives the documents from START to END, shares of it from 0 to 1, rounded as by Python's round(). A file has
// groups in double quotes, with white space between them.
#ifndef DATA_SAMPLE_WEIGHTED_SPLIT_H
#define DATA_SAMPLE_WEIGHTED_SPLIT_H

#include "config/flag.h"
#include <stddef.h>
#include <stdint.h>

enum { WEIGHTED_MOST_GROUPS = 64, WEIGHTED_NAME_BYTES = 48 };

struct weighted_group {
    char *name;
    struct string_list words;   // WEIGHT PREFIX WEIGHT PREFIX…
    struct string_list ranges;  // START:END of each dataset
};

// Parses the text of one group; errors call it `flag`. To be freed, also after an error.
int weighted_group_parse(struct weighted_group *group, const char *text, const char *flag);
void weighted_group_free(struct weighted_group *group);
// The quoted texts of a file's contents.
int weighted_groups_list(struct string_list *groups, const char *text, size_t length, const char *path);
// Reads START:END; -1 without a message unless 0 <= START < END <= 1.
int weighted_range_parse(const char *text, double *start, double *end);

#endif
