// Parses a line of words, split as by a shell, into a configuration.
#ifndef TESTS_CONFIG_PARSE_LINE_H
#define TESTS_CONFIG_PARSE_LINE_H

#include "base/memory.h"
#include "config/config.h"
#include "words.h"
#include <stdlib.h>
#include <string.h>

// Frees the old content of `config`. Words are separated by spaces.
static inline int parse_line(struct config *config, const char *line) {
    config_free(config);
    struct string_list words = {0};
    char *copy = memory_string(line);
    string_list_add(&words, "train");
    split_words(&words, copy);
    int status = config_parse(config, (int)words.count, words.items);
    string_list_free(&words);
    free(copy);
    return status;
}

#endif
