// One walk over a JSON value that checks it and adds up what its tree will need. Private to base/json*.c.
#ifndef BASE_JSON_WALK_H
#define BASE_JSON_WALK_H

#include "base/json_lex.h"

// What a tree needs: how many nodes and keys, how many bytes of text with their NULs, and the number of members of
// every array and object in the order in which they open.
struct json_measure {
    size_t nodes, keys, text_bytes;
    size_t *members;
    size_t containers, capacity;
};

// Passes one value at the lexer's place, `depth` levels deep. measure may be NULL: then the value is only checked.
bool json_walk_value(struct json_lexer *lexer, struct json_measure *measure, int depth);

#endif
