// The arithmetic of {{#expr:…}} and {{#ifexpr:…}}.
#ifndef DATA_EXTRACT_WIKI_EXPRESSION_H
#define DATA_EXTRACT_WIKI_EXPRESSION_H

#include "data/extract/wiki_slice.h"

// False if the text is not an expression. An empty one is 0.
bool wiki_expression(struct wiki_slice text, double *value);

#endif
