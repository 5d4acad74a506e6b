// Text given as data: the datasets that stand in its place, and with --tokenizer-type auto its tokenizer. Rank 0 finds
// or makes them in the cache (data/text_cache.h) while the others wait; a machine that does not see rank 0's cache
// makes its own.
#ifndef TRAIN_TEXT_DATA_H
#define TRAIN_TEXT_DATA_H

#include "config/config.h"
#include "parallel/mesh.h"

struct text_data {
    struct string_list names, prefixes;  // what the flags name, and the dataset that it has become
};

struct text_data_options {
    struct config *config;  // gets the files of the tokenizer that was trained
    const struct mesh *mesh;
    int local_rank;
    const char *user_cache;  // where the cache is if the text's own folder cannot be written; NULL for nowhere
};

// The names of data that are text, each once. -1 if one of the names is neither text nor a dataset on this machine.
int text_data_find(struct string_list *names, const struct config *config);
// The error of a text without a tokenizer: -1.
int text_data_refuse(const char *name);
// All ranks call. Does nothing if the flags name no text.
int text_data_open(struct text_data *data, const struct text_data_options *options);
void text_data_close(struct text_data *data);  // safe on a zeroed one
// Puts prefixes of datasets in the place of names of text. `data` may be NULL.
void text_data_replace(const struct text_data *data, struct string_list *items);

#endif
