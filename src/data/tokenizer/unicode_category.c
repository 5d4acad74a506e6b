// Ranges of characters and operations on them. Every operation ends with a sealed set.
#include "data/tokenizer/unicode_category.h"
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

// ---- tables ----

// Reads the tables of unicode_tables.c and unicode_properties.c: categories, properties by name, and cases.

enum { IN_TURN = 31 };  // in place of a category: capital and small letters in turn

bool unicode_run_next(struct unicode_run *run) {
    run->first = run->end;
    if (run->in_turn > 0) {
        run->in_turn--;
        run->end++;
        run->category = run->category == UNICODE_LU ? UNICODE_LL : UNICODE_LU;
        return true;
    }
    if (run->next == unicode_runs_count)
        return false;
    uint32_t row = unicode_runs[run->next++], length = row >> 7;
    run->age = row >> 5 & 3;
    run->category = (enum unicode_category)(row & 31);
    if ((row & 31) == IN_TURN) {
        run->category = UNICODE_LU;
        run->in_turn = length - 1;
        length = 1;
    }
    run->end += length;
    return true;
}

struct unicode_table *unicode_table_create(enum unicode_edition edition) {
    struct unicode_table *table = memory_alloc(sizeof *table);
    for (struct unicode_run run = {0}; unicode_run_next(&run);)
        if (run.age <= (uint32_t)edition)
            memset(table->category + run.first, (int)run.category, run.end - run.first);
    if (edition == UNICODE_EDITION_8)
        for (size_t i = 0; i < unicode_8_exceptions_count; i++)
            table->category[unicode_8_exceptions[i] >> 5] = unicode_8_exceptions[i] & 31;
    return table;
}

// Searches runs of four numbers each: first, last, step, and the difference to what a character becomes.
static uint32_t change_case(const int32_t *runs, size_t count, uint32_t character) {
    int32_t c = (int32_t)character;
    size_t low = 0, high = count / 4;
    while (low < high) {
        size_t middle = (low + high) / 2;
        const int32_t *run = &runs[4 * middle];
        if (c < run[0])
            high = middle;
        else if (c > run[1])
            low = middle + 1;
        else
            return (c - run[0]) % run[2] == 0 ? (uint32_t)(c + run[3]) : character;
    }
    return character;
}

uint32_t unicode_lower(uint32_t character) {
    if (character < 0x80)
        return character >= 'A' && character <= 'Z' ? character + 32 : character;
    return change_case(unicode_lower_runs, unicode_lower_runs_count, character);
}

// ---- properties by name ----

// A table of those given as lists, and those composed of categories.

enum { LONGEST_NAME = 40 };

// The name in lower case without spaces, - and _; false if it is too long for any property.
static bool plain_name(const char *name, size_t length, char plain[LONGEST_NAME + 1]) {
    size_t count = 0;
    for (size_t i = 0; i < length; i++) {
        char c = name[i];
        if (c == ' ' || c == '-' || c == '_')
            continue;
        if (count == LONGEST_NAME)
            return false;
        plain[count++] = c >= 'A' && c <= 'Z' ? (char)(c + 32) : c;
    }
    plain[count] = 0;
    return count > 0;
}

static bool is_among(const char *names, const char *name) {
    size_t length = strlen(name);
    for (const char *at = names; (at = strstr(at, name)) != NULL; at += length)
        if ((at == names || at[-1] == ' ') && (at[length] == ' ' || at[length] == 0))
            return true;
    return false;
}

// General categories by their short and long names; 0 if there is none.
static uint32_t categories_by_name(const char *name) {
    static const struct {
        const char *names;
        uint32_t set;
    } rows[] = {
        {"l letter", UNICODE_SET_L},
        {"lc casedletter", UNICODE_SET_RANGE(UNICODE_LU, UNICODE_LT)},
        {"m mark combiningmark", UNICODE_SET_M},
        {"n number", UNICODE_SET_N},
        {"p punct punctuation", UNICODE_SET_P},
        {"s symbol", UNICODE_SET_S},
        {"z separator", UNICODE_SET_Z},
        {"c other", UNICODE_SET_C},
        {"cn unassigned", UNICODE_SET(UNICODE_CN)},
        {"lu uppercaseletter", UNICODE_SET(UNICODE_LU)},
        {"ll lowercaseletter", UNICODE_SET(UNICODE_LL)},
        {"lt titlecaseletter", UNICODE_SET(UNICODE_LT)},
        {"lm modifierletter", UNICODE_SET(UNICODE_LM)},
        {"lo otherletter", UNICODE_SET(UNICODE_LO)},
        {"mn nonspacingmark", UNICODE_SET(UNICODE_MN)},
        {"mc spacingmark", UNICODE_SET(UNICODE_MC)},
        {"me enclosingmark", UNICODE_SET(UNICODE_ME)},
        {"nd decimalnumber digit", UNICODE_SET(UNICODE_ND)},
        {"nl letternumber", UNICODE_SET(UNICODE_NL)},
        {"no othernumber", UNICODE_SET(UNICODE_NO)},
        {"pc connectorpunctuation", UNICODE_SET(UNICODE_PC)},
        {"pd dashpunctuation", UNICODE_SET(UNICODE_PD)},
        {"ps openpunctuation", UNICODE_SET(UNICODE_PS)},
        {"pe closepunctuation", UNICODE_SET(UNICODE_PE)},
        {"pi initialpunctuation", UNICODE_SET(UNICODE_PI)},
        {"pf finalpunctuation", UNICODE_SET(UNICODE_PF)},
        {"po otherpunctuation", UNICODE_SET(UNICODE_PO)},
        {"sm mathsymbol", UNICODE_SET(UNICODE_SM)},
        {"sc currencysymbol", UNICODE_SET(UNICODE_SC)},
        {"sk modifiersymbol", UNICODE_SET(UNICODE_SK)},
        {"so othersymbol", UNICODE_SET(UNICODE_SO)},
        {"zs spaceseparator", UNICODE_SET(UNICODE_ZS)},
        {"zl lineseparator", UNICODE_SET(UNICODE_ZL)},
        {"zp paragraphseparator", UNICODE_SET(UNICODE_ZP)},
        {"cc control cntrl", UNICODE_SET(UNICODE_CC)},
        {"cf format", UNICODE_SET(UNICODE_CF)},
        {"co privateuse", UNICODE_SET(UNICODE_CO)},
        {"posixpunct", UNICODE_SET_P | UNICODE_SET_S},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (is_among(rows[i].names, name))
            return rows[i].set;
    return 0;
}

static bool add_listed(struct character_set *set, const char *name) {
    const uint32_t *range = unicode_property_ranges;
    for (size_t i = 0; i < unicode_properties_count; i++) {
        const struct unicode_property *property = &unicode_properties[i];
        if (!is_among(property->names, name)) {
            range += 2 * (size_t)property->count;
            continue;
        }
        struct character_set found = {0}, other = {0};
        character_set_add_categories(&found, property->categories);
        for (uint32_t k = 0, first, last = 0; k < property->count; k++, range += 2) {
            first = last + range[0];
            last = first + range[1];
            character_set_add(&other, first, last);
        }
        character_set_flip(&found, &other);
        character_set_add_set(set, &found);
        character_set_free(&found);
        character_set_free(&other);
        return true;
    }
    return false;
}

// Letters, marks, decimal digits, letter numbers, connectors, and the circled and squared letters, which are symbols.
void unicode_add_word(struct character_set *set) {
    character_set_add_categories(set, UNICODE_SET_L | UNICODE_SET_M | UNICODE_SET(UNICODE_ND) |
                                          UNICODE_SET(UNICODE_NL) | UNICODE_SET(UNICODE_PC));
    character_set_add(set, 0x24B6, 0x24E9);
    character_set_add(set, 0x1F130, 0x1F149);
    character_set_add(set, 0x1F150, 0x1F169);
    character_set_add(set, 0x1F170, 0x1F189);
}

// All assigned characters except control characters and white space.
static void add_graph(struct character_set *set) {
    const uint32_t hidden = UNICODE_SET(UNICODE_CN) | UNICODE_SET(UNICODE_CC) | UNICODE_SET_Z;
    character_set_add_categories(set, ~hidden);
}

bool unicode_property_add(struct character_set *set, const char *name, size_t length) {
    char plain[LONGEST_NAME + 1];
    if (!plain_name(name, length, plain))
        return false;
    uint32_t categories = categories_by_name(plain);
    if (categories) {
        character_set_add_categories(set, categories);
    } else if (strcmp(plain, "cs") == 0 || strcmp(plain, "surrogate") == 0) {
        return true;  // never in a text
    } else if (strcmp(plain, "word") == 0) {
        unicode_add_word(set);
    } else if (strcmp(plain, "alnum") == 0) {
        character_set_add_categories(set, UNICODE_SET(UNICODE_ND));
        return add_listed(set, "alpha");
    } else if (strcmp(plain, "assigned") == 0) {
        character_set_add_categories(set, ~UNICODE_SET(UNICODE_CN));
    } else if (strcmp(plain, "graph") == 0) {
        add_graph(set);
    } else if (strcmp(plain, "print") == 0) {
        add_graph(set);
        character_set_add_categories(set, UNICODE_SET(UNICODE_ZS));
    } else {
        return add_listed(set, plain);
    }
    return true;
}

bool unicode_posix_add(struct character_set *set, const char *name, size_t length) {
    static const char *const names[] = {"alnum", "alpha", "blank", "cntrl", "digit",  "graph", "lower",
                                        "print", "punct", "space", "upper", "xdigit", "ascii", "word"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strlen(names[i]) == length && memcmp(names[i], name, length) == 0)
            return strcmp(names[i], "punct") == 0 ? unicode_property_add(set, "posixpunct", 10)
                                                  : unicode_property_add(set, name, length);
    return false;
}

// ---- case ----

uint32_t unicode_fold(uint32_t character) {
    return change_case(unicode_fold_runs, unicode_fold_runs_count, character);
}

void unicode_add_cases(struct character_set *set) {
    struct character_set folded = {0}, added = {0};
    character_set_seal(set);
    for (const int32_t *run = unicode_fold_runs; run < unicode_fold_runs + unicode_fold_runs_count; run += 4)
        for (int32_t c = run[0]; c <= run[1]; c += run[2]) {
            uint32_t stands = (uint32_t)(c + run[3]);
            if (character_set_has(set, (uint32_t)c) || character_set_has(set, stands))
                character_set_add(&folded, stands, stands);
        }
    character_set_seal(&folded);
    for (const int32_t *run = unicode_fold_runs; run < unicode_fold_runs + unicode_fold_runs_count; run += 4)
        for (int32_t c = run[0]; c <= run[1]; c += run[2])
            if (character_set_has(&folded, (uint32_t)(c + run[3])))
                character_set_add(&added, (uint32_t)c, (uint32_t)c);
    character_set_add_set(set, &folded);
    character_set_add_set(set, &added);
    character_set_seal(set);
    character_set_free(&folded);
    character_set_free(&added);
}

bool unicode_several(size_t number, struct unicode_several *out) {
    if (4 * number >= unicode_fold_several_count)
        return false;
    const uint32_t *row = &unicode_fold_several[4 * number];
    *out = (struct unicode_several){row[0], {row[1], row[2], row[3]}};
    return true;
}
