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
    size_t count;
    int64_t capacity;
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

// ---- properties by name ----

// The properties that patterns name as \p{…} and [:…:], with Oniguruma's names and members, and the cases of letters.
// The tables are in unicode_properties.c.
//
// Adds the characters of a category, script or other property; false if there is none of that name. Case, spaces, - and
// _ in a name are ignored.
bool unicode_property_add(struct character_set *set, const char *name, size_t length);
// Adds the characters of a POSIX class ("alpha"), where "punct" also includes symbols.
bool unicode_posix_add(struct character_set *set, const char *name, size_t length);
// The characters of \w.
void unicode_add_word(struct character_set *set);

// Adds all other cases of the characters in a set; seals it.
void unicode_add_cases(struct character_set *set);
// A character that equals several when case is ignored: ß and ss. Unused ones of the three are 0.
struct unicode_several {
    uint32_t character, folded[3];
};
// The one with this number; false after the last.
bool unicode_several(size_t number, struct unicode_several *out);
// The character that represents all cases of a character.
uint32_t unicode_fold(uint32_t character);

// The tables.
struct unicode_property {
    const char *names;  // in lower case, separated by spaces
    uint32_t categories;
    uint16_t count;  // of the ranges in which it is inverted; those of the first property come first
};
extern const struct unicode_property unicode_properties[];
extern const uint32_t unicode_property_ranges[], unicode_fold_several[];
extern const int32_t unicode_fold_runs[];
extern const size_t unicode_properties_count, unicode_property_ranges_count;
extern const size_t unicode_fold_runs_count, unicode_fold_several_count;

#endif
