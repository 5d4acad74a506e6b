// A set of characters as ordered ranges, for patterns: built by adding, then sealed, inverted and intersected.
//
// The characters are those of Unicode plus UNICODE_LIMIT, which stands for a byte that is not part of any character.
// Like an unassigned character, it is in no class, and in the inverse of every class.
#ifndef DATA_TOKENIZER_CHARACTER_SET_H
#define DATA_TOKENIZER_CHARACTER_SET_H

#include "data/tokenizer/unicode_category.h"

struct character_range {
    uint32_t first, last;
};

// Zeroed is the empty set. Sealed: in order, and no two ranges touch.
struct character_set {
    struct character_range *ranges;
    size_t count, capacity;
};

void character_set_free(struct character_set *set);
// These leave the set unsealed.
void character_set_add(struct character_set *set, uint32_t first, uint32_t last);
void character_set_add_set(struct character_set *set, const struct character_set *other);
void character_set_add_categories(struct character_set *set, uint32_t categories);  // of Unicode 16.0
// These turn a set in any state into a sealed one.
void character_set_seal(struct character_set *set);
void character_set_invert(struct character_set *set);
void character_set_intersect(struct character_set *set, struct character_set *other);
void character_set_flip(struct character_set *set, struct character_set *other);  // characters in exactly one of them

// These take sealed sets.
bool character_set_has(const struct character_set *set, uint32_t character);
bool character_set_equal(const struct character_set *a, const struct character_set *b);

#endif
