// The four normal forms of Unicode (UAX #15): canonical or compatible decomposition, marks in canonical order, and
// composition. Decompositions come from utf8proc; characters that a Unicode edition did not have yet are kept, so that
// the result does not depend on utf8proc's version. A build without utf8proc has normal_form_none.c.
#ifndef DATA_TOKENIZER_NORMAL_FORM_H
#define DATA_TOKENIZER_NORMAL_FORM_H

#include "data/tokenizer/unicode_category.h"
#include "base/memory.h"
#include "base/utf8.h"
#include <stdlib.h>

// ---- lists of characters ----

// A growing list of Unicode characters. Zeroed is empty and valid.
struct character_list {
    uint32_t *items;
    size_t count, capacity;
};

static inline void character_list_free(struct character_list *list) {
    free(list->items);
    *list = (struct character_list){0};
}

// Makes room for `extra` more, which may then be written at items + count.
static inline void character_list_reserve(struct character_list *list, size_t extra) {
    if (list->capacity - list->count >= extra)
        return;
    size_t capacity = list->capacity * 2 > list->count + extra ? list->capacity * 2 : list->count + extra + 64;
    list->items = memory_realloc(list->items, capacity * sizeof *list->items);
    list->capacity = capacity;
}

static inline void character_list_append(struct character_list *list, uint32_t character) {
    character_list_reserve(list, 1);
    list->items[list->count++] = character;
}

// Decodes text; ill-formed UTF-8 becomes U+FFFD.
static inline void character_list_append_text(struct character_list *list, const char *text, size_t length) {
    character_list_reserve(list, length);
    for (size_t at = 0; at < length;)
        at += utf8_decode((const unsigned char *)text + at, length - at, &list->items[list->count++], NULL);
}

// ---- normal forms ----

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
