// Pages of bits for the sets of patterns, so that a lookup takes two loads for any number of ranges.
#include "data/tokenizer/pattern_program.h"
#include "base/memory.h"

enum { PAGE_BYTES = 32, SMALL = 8 };

static unsigned char *new_page(struct pattern_set *set, uint32_t page, size_t *count) {
    set->pages = memory_realloc(set->pages, (*count + 1) * PAGE_BYTES);
    unsigned char *bits = set->pages + *count * PAGE_BYTES;
    for (int i = 0; i < PAGE_BYTES; i++)
        bits[i] = 0;
    set->index[page] = (uint16_t)(2 + (*count)++);
    return bits;
}

void pattern_set_finish(struct pattern_set *set) {
    for (uint32_t c = 0; c < 128; c++)
        set->ascii[c] = character_set_has(&set->characters, c);
    if (set->characters.count <= SMALL)
        return;
    size_t count = 0;
    set->index = memory_alloc(PATTERN_PAGES * sizeof *set->index);
    for (size_t i = 0; i < set->characters.count; i++) {
        struct character_range range = set->characters.ranges[i];
        for (uint32_t page = range.first >> 8; page <= range.last >> 8; page++) {
            uint32_t first = range.first > page << 8 ? range.first : page << 8;
            uint32_t last = range.last < (page << 8 | 255) ? range.last : (page << 8 | 255);
            if (last - first == 255) {
                set->index[page] = 1;
                continue;
            }
            unsigned char *bits = set->index[page] ? set->pages + (size_t)(set->index[page] - 2) * PAGE_BYTES
                                                   : new_page(set, page, &count);
            for (uint32_t c = first; c <= last; c++)
                bits[c >> 3 & 31] |= (unsigned char)(1 << (c & 7));
        }
    }
}
