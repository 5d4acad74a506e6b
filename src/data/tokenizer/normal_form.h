// The four normal forms of Unicode (UAX #15): canonical or compatible decomposition, marks in canonical order, and
// composition. Decompositions come from utf8proc; characters that a Unicode edition did not have yet are kept, so that
// the result does not depend on utf8proc's version. A build without utf8proc has normal_form_none.c.
#ifndef DATA_TOKENIZER_NORMAL_FORM_H
#define DATA_TOKENIZER_NORMAL_FORM_H

#include "data/tokenizer/character_list.h"
#include "data/tokenizer/unicode_category.h"

enum normal_form { NORMAL_FORM_D, NORMAL_FORM_KD, NORMAL_FORM_C, NORMAL_FORM_KC };

struct normal_form_pairs;  // which two characters compose to which

// -1 with the remedy if this build has no tables.
int normal_form_require(void);

// For forms C and KC; `known` says which characters are assigned. Freed by normal_form_pairs_free, NULL is fine.
struct normal_form_pairs *normal_form_pairs_create(const struct unicode_table *known);
void normal_form_pairs_free(struct normal_form_pairs *pairs);

struct normal_form_rules {
    enum normal_form form;
    const struct unicode_table *known;      // characters unassigned there are kept
    const struct normal_form_pairs *pairs;  // for C and KC
};

// The combining class of the last character in a character's canonical decomposition; usually 0.
int normal_form_last_class(const struct unicode_table *known, uint32_t character);

// Appends in[0…count) in its normal form to out. Linear in count.
void normal_form_apply(const struct normal_form_rules *rules, const uint32_t *in, size_t count,
                       struct character_list *out);

#endif
