// The properties that patterns name as \p{…} and [:…:], with Oniguruma's names and members, and the cases of letters.
// The tables are in unicode_properties.c.
#ifndef DATA_TOKENIZER_UNICODE_PROPERTY_H
#define DATA_TOKENIZER_UNICODE_PROPERTY_H

#include "data/tokenizer/character_set.h"

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
    uint16_t first, count;  // of the ranges in which it is inverted
};
extern const struct unicode_property unicode_properties[];
extern const uint32_t unicode_property_ranges[], unicode_fold_runs[], unicode_fold_several[];
extern const size_t unicode_properties_count, unicode_property_ranges_count;
extern const size_t unicode_fold_runs_count, unicode_fold_several_count;

#endif
