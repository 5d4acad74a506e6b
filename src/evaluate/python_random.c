// random.Random of Python, by which other programs choose the examples of a prompt: MT19937 seeded by an array, whole
// numbers by rejection. See internal.h.
#include "base/error.h"
#include "base/memory.h"
#include "evaluate/internal.h"

#include <math.h>
#include <stdlib.h>

// init_by_array of Matsumoto and Nishimura (2002) for one word.
void python_random_seed(struct mt19937 *mt, uint32_t seed) {
    enum { WORDS = sizeof mt->state / sizeof mt->state[0] };
    mt19937_seed(mt, 19650218u);
    uint32_t *s = mt->state, i = 1;
    for (int round = 0; round < 2 * WORDS - 1; round++) {
        uint32_t mixed = s[i - 1] ^ s[i - 1] >> 30;
        s[i] = round < WORDS ? (s[i] ^ mixed * 1664525u) + seed : (s[i] ^ mixed * 1566083941u) - i;
        if (++i == WORDS) {
            s[0] = s[WORDS - 1];
            i = 1;
        }
    }
    s[0] = 0x80000000u;
    mt->position = WORDS;
}

// Uniform in [0, count), for a count from 1 to INT32_MAX.
static int64_t below(struct mt19937 *mt, int64_t count) {
    int unused = __builtin_clz((uint32_t)count);
    int64_t value;
    do {
        value = mt19937_next(mt) >> unused;
    } while (value >= count);
    return value;
}

void python_random_shuffle(struct mt19937 *mt, int64_t *items, int64_t count) {
    for (int64_t i = count - 1; i >= 1; i--) {
        int64_t j = below(mt, i + 1), item = items[i];
        items[i] = items[j];
        items[j] = item;
    }
}

// Python keeps a list of those left if they are few, and a set of those chosen if they are many.
void python_random_sample(struct mt19937 *mt, int64_t count, int64_t chosen, int64_t *out) {
    CHECK(chosen <= count && count <= INT32_MAX);
    int64_t few = 21, power = 4;
    while (power < 3 * chosen)
        power *= 4;
    few += chosen > 5 ? power : 0;
    if (count > few) {
        for (int64_t i = 0; i < chosen; i++) {
            out[i] = below(mt, count);
            for (int64_t k = 0; k < i; k++)
                if (out[k] == out[i]) {
                    i--;
                    break;
                }
        }
        return;
    }
    int64_t *left = memory_alloc(sizeof *left * (size_t)count);
    for (int64_t i = 0; i < count; i++)
        left[i] = i;
    for (int64_t i = 0; i < chosen; i++) {
        int64_t j = below(mt, count - i);
        out[i] = left[j];
        left[j] = left[count - i - 1];
    }
    free(left);
}
