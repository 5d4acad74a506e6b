// Ranges of characters and operations on them. Every operation ends with a sealed set.
#include "data/tokenizer/character_set.h"
#include "data/tokenizer/token_list.h"
#include "base/memory.h"
#include <stdlib.h>
#include <string.h>

void character_set_free(struct character_set *set) {
    free(set->ranges);
    *set = (struct character_set){0};
}

void character_set_add(struct character_set *set, uint32_t first, uint32_t last) {
    MEMORY_GROW(set->ranges, set->count, set->capacity);
    set->ranges[set->count++] = (struct character_range){first, last};
}

void character_set_add_set(struct character_set *set, const struct character_set *other) {
    for (size_t i = 0; i < other->count; i++)
        character_set_add(set, other->ranges[i].first, other->ranges[i].last);
}

void character_set_add_categories(struct character_set *set, uint32_t categories) {
    for (struct unicode_run run = {0}; unicode_run_next(&run);)
        if (categories >> run.category & 1)
            character_set_add(set, run.first, run.end - 1);
    if (categories & UNICODE_SET(UNICODE_CN))
        character_set_add(set, UNICODE_LIMIT, UNICODE_LIMIT);
}

static int compare(const void *left, const void *right) {
    const struct character_range *a = left, *b = right;
    return a->first < b->first ? -1 : a->first > b->first;
}

void character_set_seal(struct character_set *set) {
    bool in_order = true;
    for (size_t i = 1; i < set->count && in_order; i++)
        in_order = set->ranges[i - 1].first <= set->ranges[i].first;
    if (!in_order)
        qsort(set->ranges, set->count, sizeof *set->ranges, compare);
    size_t kept = 0;
    for (size_t i = 0; i < set->count; i++) {
        struct character_range range = set->ranges[i];
        if (kept > 0 && range.first <= set->ranges[kept - 1].last + 1) {
            if (range.last > set->ranges[kept - 1].last)
                set->ranges[kept - 1].last = range.last;
        } else {
            set->ranges[kept++] = range;
        }
    }
    set->count = kept;
}

void character_set_invert(struct character_set *set) {
    struct character_set inverse = {0};
    uint32_t next = 0;
    character_set_seal(set);
    for (size_t i = 0; i < set->count; i++) {
        if (set->ranges[i].first > next)
            character_set_add(&inverse, next, set->ranges[i].first - 1);
        next = set->ranges[i].last + 1;
    }
    if (next <= UNICODE_LIMIT)
        character_set_add(&inverse, next, UNICODE_LIMIT);
    character_set_free(set);
    *set = inverse;
}

void character_set_intersect(struct character_set *set, struct character_set *other) {
    struct character_set both = {0};
    character_set_seal(set);
    character_set_seal(other);
    for (size_t i = 0, k = 0; i < set->count && k < other->count;) {
        struct character_range a = set->ranges[i], b = other->ranges[k];
        uint32_t first = a.first > b.first ? a.first : b.first, last = a.last < b.last ? a.last : b.last;
        if (first <= last)
            character_set_add(&both, first, last);
        if (a.last < b.last)
            i++;
        else
            k++;
    }
    character_set_free(set);
    *set = both;
}

void character_set_flip(struct character_set *set, struct character_set *other) {
    struct character_set both = {0};
    character_set_add_set(&both, set);
    character_set_intersect(&both, other);
    character_set_invert(&both);
    character_set_add_set(set, other);
    character_set_intersect(set, &both);
    character_set_free(&both);
}

bool character_set_has(const struct character_set *set, uint32_t character) {
    size_t low = 0, high = set->count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (character < set->ranges[middle].first)
            high = middle;
        else if (character > set->ranges[middle].last)
            low = middle + 1;
        else
            return true;
    }
    return false;
}

bool character_set_equal(const struct character_set *a, const struct character_set *b) {
    return a->count == b->count && (a->count == 0 || memcmp(a->ranges, b->ranges, a->count * sizeof *a->ranges) == 0);
}
