// Cuts text with a table: the state after each byte, and from the states a bit for each byte at which a piece begins.
#include "data/tokenizer/pattern_table.h"
#include "base/utf8.h"
#include <stdlib.h>
#include <string.h>
#ifdef __SSE2__
#include <emmintrin.h>
#endif

void pattern_table_free(struct pattern_table *table) {
    if (table)
        free(table->pages);
    free(table);
}

bool pattern_table_covers(const struct pattern_table *table) {
    return table->covers;
}

enum { CHUNK = 2048, SHORT = 256 };

// The column of the character at text, and its length.
static inline unsigned char column_at(const struct pattern_table *table, const unsigned char *text, size_t left,
                                      size_t *bytes) {
    uint32_t character;
    unsigned char first = text[0];
    if (first >= 0xC2 && first < 0xE0 && left >= 2 && (text[1] & 0xC0) == 0x80) {
        character = (uint32_t)(first & 0x1F) << 6 | (text[1] & 0x3Fu);
        *bytes = 2;
    } else if (first > 0xE0 && first < 0xED && left >= 3 && (text[1] & 0xC0) == 0x80 && (text[2] & 0xC0) == 0x80) {
        character = (uint32_t)(first & 0xF) << 12 | (text[1] & 0x3Fu) << 6 | (text[2] & 0x3Fu);
        *bytes = 3;
    } else {
        bool valid;
        *bytes = utf8_decode(text, left, &character, &valid);
        character = valid ? character : UNICODE_LIMIT;
    }
    return table->pages[table->index[character >> 8]][character & 255];
}

size_t pattern_table_next(const struct pattern_table *table, const unsigned char *text, size_t length,
                          unsigned char *state) {
    unsigned char now = *state, at_mark = 0;
    size_t mark = 0, bytes = 0;
    for (size_t at = 0;; at += bytes) {
        bool is_end = at == length;
        unsigned char before = now;
        now = table->next[now][is_end ? TABLE_END : column_at(table, text + at, length - at, &bytes)];
        unsigned flags = table->flags[now];
        bool is_marked = flags & TABLE_MARKED;
        if (is_marked || is_end || (flags & TABLE_HERE)) {
            *state = table->restart[is_marked ? at_mark : before];
            return is_marked ? mark : at;
        }
        if (flags & TABLE_MARK) {
            mark = at;
            at_mark = before;
        }
    }
}

static inline bool is_ascii(const unsigned char *text, size_t count) {
    uint64_t any = 0, eight;
    for (size_t i = 0; i < count; i += sizeof eight) {
        memcpy(&eight, text + i, sizeof eight);
        any |= eight;
    }
    return (any & 0x8080808080808080u) == 0;
}

// The columns of bytes 0 to count - 1; text itself if it is ASCII.
static const unsigned char *find_columns(const struct pattern_table *table, const unsigned char *text, size_t length,
                                         size_t count, unsigned char *columns) {
    enum { STEP = 32 };
    size_t at = 0, bytes;
    bool is_plain = true;
    while (at < count) {
        if (at + STEP <= count && is_ascii(text + at, STEP)) {
            memcpy(columns + at, text + at, STEP);
            at += STEP;
            continue;
        }
        for (size_t until = at + STEP < count ? at + STEP : count; at < until;) {
            if (text[at] < 0x80) {
                columns[at] = text[at];
                at++;
                continue;
            }
            is_plain = false;
            columns[at] = column_at(table, text + at, length - at, &bytes);
            for (at++; --bytes > 0 && at < count; at++)
                columns[at] = TABLE_TAIL;
        }
    }
    return is_plain ? text : columns;
}

// The state after each byte. A state is known some cycles after the one before it, so the text is read at four places
// at once. Only the first of them is in the right state from the beginning. The others soon are, whatever they begin
// with: where the text before them leads to the state they have, all that follows is right.
static void find_states_of(const struct pattern_table *table, const unsigned char *columns, size_t count,
                           unsigned char *restrict states, unsigned char state) {
    const unsigned char(*restrict next)[256] = table->next;
    const size_t part = count < SHORT ? 0 : count / 4, second = part, third = 2 * part, fourth = 3 * part;
    unsigned a = state, b = 0, c = 0, d = part ? 0 : a;
    for (size_t i = 0; i < part; i++) {
        states[i] = (unsigned char)(a = next[a][columns[i]]);
        states[second + i] = (unsigned char)(b = next[b][columns[second + i]]);
        states[third + i] = (unsigned char)(c = next[c][columns[third + i]]);
        states[fourth + i] = (unsigned char)(d = next[d][columns[fourth + i]]);
    }
    for (size_t i = 4 * part; i < count; i++)
        states[i] = (unsigned char)(d = next[d][columns[i]]);
    for (size_t begin = part; part && begin < 4 * part; begin += part) {
        unsigned right = states[begin - 1];
        for (size_t i = begin; i < count && states[i] != (right = next[right][columns[i]]); i++)
            states[i] = (unsigned char)right;
    }
}

// The bits of a block of 64 states that are `least` or more.
static inline uint64_t at_least(const unsigned char *states, int least) {
    uint64_t mask = 0;
#ifdef __SSE2__
    for (int i = 0; i < 4; i++) {
        __m128i is =
            _mm_cmpgt_epi8(_mm_loadu_si128((const __m128i *)(states + 16 * i)), _mm_set1_epi8((char)(least - 1)));
        mask |= (uint64_t)(uint32_t)_mm_movemask_epi8(is) << 16 * i;
    }
#else
    const uint64_t ones = 0x0101010101010101u;
    for (int i = 0; i < 8; i++) {
        uint64_t eight;
        memcpy(&eight, states + 8 * i, sizeof eight);
        eight = (eight + ones * (unsigned)(TABLE_STATES - least)) >> 7 & ones;  // the eighth bit of each byte
        mask |= eight * 0x0102040810204080u >> 56 << 8 * i;
    }
#endif
    return mask;
}

static void set_bit(uint64_t *begins, const unsigned char *states, const unsigned char *flags, uint32_t at,
                    unsigned mark) {
    while (!(flags[states[--at]] & mark)) {
    }
    begins[at / 64] |= (uint64_t)1 << at % 64;
}

// Begins of pieces at marks before a place.
static void set_late_bits(uint64_t *begins, const unsigned char *states, const unsigned char *flags, uint32_t at,
                          unsigned here) {
    if (here & TABLE_MARKED)
        set_bit(begins, states, flags, at, TABLE_MARK);
    if (here & TABLE_SECOND)
        set_bit(begins, states, flags, at, TABLE_SECOND_MARK);
}

int pattern_table_split(const struct pattern_table *table, const unsigned char *text, size_t length, uint32_t *ends,
                        unsigned char *state) {
    unsigned char buffer[CHUNK], states[CHUNK + 64];
    uint64_t begins[CHUNK / 64];
    const unsigned char *flags = table->flags;
    uint32_t bytes = length < CHUNK ? (uint32_t)length : CHUNK;
    const unsigned char *columns = find_columns(table, text, length, bytes, buffer);
    find_states_of(table, columns, bytes, states, *state);
    memset(states + bytes, 0, 64);
    for (uint32_t base = 0; base < bytes; base += 64) {
        uint64_t late = at_least(states + base, table->first_late), here = at_least(states + base, table->first_here);
        begins[base / 64] = here;
        for (; late; late &= late - 1) {
            uint32_t at = base + (uint32_t)__builtin_ctzll(late);
            begins[base / 64] ^= flags[states[at]] & TABLE_HERE ? 0 : late & -late;
            set_late_bits(begins, states, flags, at, flags[states[at]]);
        }
    }
    if (bytes == length)
        set_late_bits(begins, states, flags, bytes, flags[table->next[states[bytes - 1]][TABLE_END]]);
    int count = 0;
    for (uint32_t base = 0; base < bytes; base += 64)
        count += pattern_write_bits(begins[base / 64], base, ends + count);
    if (bytes == length)
        ends[count++] = bytes;
    if (count > 0) {
        *state = table->restart[states[ends[count - 1] - 1]];
        return count;
    }
    size_t end = pattern_table_next(table, text, length, state);
    ends[0] = end < UINT32_MAX ? (uint32_t)end : UINT32_MAX;
    return 1;
}
