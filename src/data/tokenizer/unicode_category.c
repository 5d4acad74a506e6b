// Expands the runs of unicode_tables.c, and searches those for lower case.
#include "data/tokenizer/unicode_category.h"
#include "base/memory.h"
#include <string.h>

struct unicode_table *unicode_table_create(enum unicode_edition edition) {
    struct unicode_table *table = memory_alloc(sizeof *table);
    for (size_t i = 0; i < unicode_runs_count; i++) {
        uint32_t first = unicode_runs[i] >> 7, age = unicode_runs[i] >> 5 & 3, category = unicode_runs[i] & 31;
        uint32_t end = i + 1 < unicode_runs_count ? unicode_runs[i + 1] >> 7 : UNICODE_LIMIT;
        if (age <= (uint32_t)edition)
            memset(table->category + first, (int)category, end - first);
    }
    if (edition == UNICODE_EDITION_8)
        for (size_t i = 0; i < unicode_8_exceptions_count; i++)
            table->category[unicode_8_exceptions[i] >> 5] = unicode_8_exceptions[i] & 31;
    return table;
}

uint32_t unicode_lower(uint32_t character) {
    if (character < 0x80)
        return character >= 'A' && character <= 'Z' ? character + 32 : character;
    size_t low = 0, high = unicode_lower_runs_count / 4;
    while (low < high) {
        size_t middle = (low + high) / 2;
        const uint32_t *run = &unicode_lower_runs[4 * middle];
        if (character < run[0])
            high = middle;
        else if (character > run[1])
            low = middle + 1;
        else
            return (character - run[0]) % run[2] == 0 ? character + run[3] : character;
    }
    return character;
}
