// Normal forms with utf8proc's decompositions and combining classes. Composition has its own table: utf8proc composes
// by its newest Unicode version, the references by older ones.
#include "data/tokenizer/normal_form.h"
#include "base/error.h"
#include <string.h>
#include <utf8proc.h>

enum {
    HANGUL_S = 0xAC00,
    HANGUL_L = 0x1100,
    HANGUL_V = 0x1161,
    HANGUL_T = 0x11A7,
    HANGUL_L_COUNT = 19,
    HANGUL_V_COUNT = 21,
    HANGUL_T_COUNT = 28,
    LONGEST_DECOMPOSITION = 18,  // U+FDFA
    PAIR_BITS = 11               // 930 pairs, so the table is half full
};

struct normal_form_pairs {
    struct composition {
        uint32_t first, second, composed;  // composed = 0: the slot is free
    } slots[1 << PAIR_BITS];
};

int normal_form_require(void) {
    return 0;
}

static bool is_hangul_syllable(uint32_t c) {
    return c >= HANGUL_S && c < HANGUL_S + HANGUL_L_COUNT * HANGUL_V_COUNT * HANGUL_T_COUNT;
}

// Writes the full decomposition of a character; returns its length, 1 if it is the character itself.
static size_t decompose(uint32_t c, bool compatible, uint32_t out[LONGEST_DECOMPOSITION]) {
    int boundary = 0;
    utf8proc_int32_t decomposed[LONGEST_DECOMPOSITION];
    utf8proc_option_t options = UTF8PROC_DECOMPOSE | (compatible ? UTF8PROC_COMPAT : 0);
    utf8proc_ssize_t count =
        utf8proc_decompose_char((utf8proc_int32_t)c, decomposed, LONGEST_DECOMPOSITION, options, &boundary);
    CHECK(count > 0 && count <= LONGEST_DECOMPOSITION);
    for (utf8proc_ssize_t i = 0; i < count; i++)
        out[i] = (uint32_t)decomposed[i];
    return (size_t)count;
}

static int combining_class(const struct unicode_table *known, uint32_t c) {
    return c < 0x300 || unicode_category(known, c) == UNICODE_CN
               ? 0
               : utf8proc_get_property((utf8proc_int32_t)c)->combining_class;
}

// ---- composition table ----

static struct composition *find_slot(struct normal_form_pairs *pairs, uint32_t first, uint32_t second) {
    size_t slot = (size_t)((first * 0x9E3779B1u ^ second * 0x85EBCA6Bu) >> (32 - PAIR_BITS));
    for (;; slot = (slot + 1) & ((1 << PAIR_BITS) - 1)) {
        struct composition *pair = &pairs->slots[slot];
        if (!pair->composed || (pair->first == first && pair->second == second))
            return pair;
    }
}

// Whether parts, the full decomposition of c, compose back to c: not so for characters excluded from composition, and
// for those equivalent to another one (U+212B to U+00C5).
static bool composes_back(uint32_t c, const uint32_t *parts, size_t length) {
    utf8proc_int32_t buffer[LONGEST_DECOMPOSITION];
    for (size_t i = 0; i < length; i++)
        buffer[i] = (utf8proc_int32_t)parts[i];
    utf8proc_ssize_t count =
        utf8proc_normalize_utf32(buffer, (utf8proc_ssize_t)length, UTF8PROC_COMPOSE | UTF8PROC_STABLE);
    return count == 1 && buffer[0] == (utf8proc_int32_t)c;
}

// A pair is what a character decomposes to in one step. The full decomposition x1…xn of a composed character is that of
// its first half, and xn; so the first half is the composition of x1…xn-1, which shorter decompositions have already
// given.
struct normal_form_pairs *normal_form_pairs_create(const struct unicode_table *known) {
    struct normal_form_pairs *pairs = memory_alloc(sizeof *pairs);
    size_t used = 0;
    for (size_t length = 2; length <= 4; length++)
        for (uint32_t c = 0xC0; c < 0x30000; c++) {
            uint32_t parts[LONGEST_DECOMPOSITION];
            if (is_hangul_syllable(c) || unicode_category(known, c) == UNICODE_CN ||
                decompose(c, false, parts) != length)
                continue;
            if (!composes_back(c, parts, length))
                continue;
            uint32_t first = parts[0];
            for (size_t i = 1; first && i + 1 < length; i++)
                first = find_slot(pairs, first, parts[i])->composed;
            if (!first)
                continue;
            struct composition *pair = find_slot(pairs, first, parts[length - 1]);
            CHECK(!pair->composed && ++used < (1 << PAIR_BITS) * 3 / 4);
            *pair = (struct composition){first, parts[length - 1], c};
        }
    return pairs;
}

void normal_form_pairs_free(struct normal_form_pairs *pairs) {
    free(pairs);
}

// The character that two compose to, 0 if there is none.
static uint32_t compose(const struct normal_form_pairs *pairs, uint32_t first, uint32_t second) {
    if (first >= HANGUL_L && first < HANGUL_L + HANGUL_L_COUNT && second >= HANGUL_V &&
        second < HANGUL_V + HANGUL_V_COUNT)
        return HANGUL_S + ((first - HANGUL_L) * HANGUL_V_COUNT + (second - HANGUL_V)) * HANGUL_T_COUNT;
    if (is_hangul_syllable(first) && (first - HANGUL_S) % HANGUL_T_COUNT == 0 && second > HANGUL_T &&
        second < HANGUL_T + HANGUL_T_COUNT)
        return first + (second - HANGUL_T);
    return find_slot((struct normal_form_pairs *)pairs, first, second)->composed;
}

// ---- the forms ----

// Sorts a run of marks (nonzero classes) by class, stably. Counting sort, since a hostile run may be long.
static void order_marks(const struct unicode_table *known, uint32_t *marks, size_t count) {
    bool in_order = true;
    for (size_t i = 1; i < count && in_order; i++)
        in_order = combining_class(known, marks[i - 1]) <= combining_class(known, marks[i]);
    if (in_order)
        return;
    size_t begin[257] = {0};
    for (size_t i = 0; i < count; i++)
        begin[combining_class(known, marks[i]) + 1]++;
    for (size_t class = 1; class <= 256; class ++)
        begin[class] += begin[class - 1];
    uint32_t *sorted = memory_alloc(count * sizeof *sorted);
    for (size_t i = 0; i < count; i++)
        sorted[begin[combining_class(known, marks[i])]++] = marks[i];
    memcpy(marks, sorted, count * sizeof *sorted);
    free(sorted);
}

static void order_all(const struct unicode_table *known, uint32_t *characters, size_t count) {
    for (size_t at = 0; at < count;) {
        size_t end = at;
        while (end < count && combining_class(known, characters[end]) != 0)
            end++;
        if (end - at > 1)
            order_marks(known, characters + at, end - at);
        at = end + 1;
    }
}

// Composes in place; returns the new count. A character composes with the last starter unless a character of the same
// or a higher class, or another starter, is between them.
static size_t compose_all(const struct normal_form_rules *rules, uint32_t *characters, size_t count) {
    size_t kept = 0, starter = SIZE_MAX;
    int last_class = 0;  // of the last character kept after the starter
    for (size_t i = 0; i < count; i++) {
        int class = combining_class(rules->known, characters[i]);
        bool adjacent = starter != SIZE_MAX && kept == starter + 1;
        if (starter != SIZE_MAX && (adjacent || (last_class != 0 && last_class < class))) {
            uint32_t composed = compose(rules->pairs, characters[starter], characters[i]);
            if (composed) {
                characters[starter] = composed;
                continue;
            }
        }
        if (class == 0)
            starter = kept;
        last_class = class;
        characters[kept++] = characters[i];
    }
    return kept;
}

void normal_form_apply(const struct normal_form_rules *rules, const uint32_t *in, size_t count,
                       struct character_list *out) {
    if (count == 0)
        return;
    size_t begin = out->count;
    bool compatible = rules->form == NORMAL_FORM_KD || rules->form == NORMAL_FORM_KC;
    for (size_t i = 0; i < count; i++) {
        uint32_t c = in[i], parts[LONGEST_DECOMPOSITION];
        if (c < (compatible ? 0xA0u : 0xC0u) || unicode_category(rules->known, c) == UNICODE_CN) {
            character_list_append(out, c);
            continue;
        }
        size_t length = decompose(c, compatible, parts);
        character_list_reserve(out, length);
        memcpy(out->items + out->count, parts, length * sizeof *parts);
        out->count += length;
    }
    if (out->count == begin)
        return;
    order_all(rules->known, out->items + begin, out->count - begin);
    if (rules->form == NORMAL_FORM_C || rules->form == NORMAL_FORM_KC)
        out->count = begin + compose_all(rules, out->items + begin, out->count - begin);
}

int normal_form_last_class(const struct unicode_table *known, uint32_t character) {
    if (unicode_category(known, character) == UNICODE_CN)
        return 0;
    uint32_t parts[LONGEST_DECOMPOSITION];
    size_t count = decompose(character, false, parts);
    return combining_class(known, parts[count - 1]);
}
