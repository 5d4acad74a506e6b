// Tells stories from a grammar. A story is a function of the grammar, the seed and its number: the same three give the
// same text on every machine, and a larger corpus begins with the stories of a smaller one.
#ifndef STORY_H
#define STORY_H

#include "grammar.h"
#include <stddef.h>
#include <stdint.h>

struct story_text {
    char *data;  // NUL-terminated if there is any
    size_t length, capacity;
};

void text_add(struct story_text *text, const char *bytes, size_t length);
void text_free(struct story_text *text);

// Writes story number `number` into out, replacing what it held; -1 if the grammar is wrong, after a message.
int story_tell(const struct grammar *grammar, uint64_t seed, uint64_t number, struct story_text *out);

#endif
