// Walks over a JSON value once to check it and to add up what its tree will need. Private to base/json*.c.
#ifndef BASE_JSON_WALK_H
#define BASE_JSON_WALK_H

#include "base/json_lex.h"

// Size of a tree: the number of nodes and keys, the bytes of text including NULs, and the number of members of every
// array and object in the order in which they open.
struct json_measure {
    size_t nodes, keys, text_bytes;
    size_t *members;
    size_t containers, capacity;
};

// Consumes one value at the lexer's position, `depth` levels deep. If `measure` is NULL, the value is only checked.
bool json_walk_value(struct json_lexer *lexer, struct json_measure *measure, int depth);

#endif
